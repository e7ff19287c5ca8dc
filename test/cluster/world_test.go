package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// world is a namespace of a test and what it makes in there.
type world struct {
	t         *testing.T
	namespace string
}

// newWorld makes a namespace, which goes with the test. A test that fails leaves
// in its log what the controller and the gateway pods said.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, namespace: fmt.Sprintf("e2e-%06x", rand.IntN(1<<24))}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	t.Cleanup(func() {
		if t.Failed() {
			w.logState()
		}
		_ = api.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	})
	return w
}

func (w *world) logState() {
	for _, args := range [][]string{
		{"get", "gateways,httproutes,models,pods,services", "-o", "wide", "-n", w.namespace},
		{"get", "gateways,models", "-o", "yaml", "-n", w.namespace, "--show-managed-fields=false"},
		{"get", "events", "-n", w.namespace, "--sort-by=.lastTimestamp"},
		{"logs", "-n", w.namespace, "-l", "app.kubernetes.io/managed-by=" + controllerName, "--tail=40", "--prefix"},
		{"logs", "-n", systemNamespace, "deployment/" + controllerName, "--all-pods", "--tail=60", "--prefix"},
	} {
		out, err := kubectlBackground(args...)
		w.t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
}

// create makes objects in the world's namespace.
func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, o := range objects {
		if _, isNamespace := o.(*corev1.Namespace); !isNamespace && o.GetNamespace() == "" {
			o.SetNamespace(w.namespace)
		}
		if err := api.Create(w.t.Context(), o); err != nil {
			w.t.Fatalf("cannot create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// get reads an object of the world's namespace.
func (w *world) get(name string, into client.Object) {
	w.t.Helper()
	if err := api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
}

// change reads an object, changes it and writes it back, until nobody else has
// written it in between.
func change[T client.Object](w *world, name string, into T, edit func(T)) {
	w.t.Helper()
	eventually(w.t, func() string {
		if err := api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, into); err != nil {
			return err.Error()
		}
		edit(into)
		if err := api.Update(w.t.Context(), into); err != nil {
			return err.Error()
		}
		return ""
	})
}

// gateway makes a Gateway with a listener for HTTP on port 80 and the given
// number of pods, and returns its address ("ip:80") once it is programmed.
func (w *world) gateway(name string, pods int32, edits ...func(*v1alpha2.GatewayParameters)) string {
	w.t.Helper()
	parameters := &v1alpha2.GatewayParameters{ObjectMeta: metav1.ObjectMeta{Name: name}}
	parameters.Spec.Replicas = &pods
	// Many pods are to find room on one small node.
	parameters.Spec.Resources = &v1alpha2.Resources{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}}
	for _, edit := range edits {
		edit(parameters)
	}
	w.create(parameters, &gwapiv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: gwapiv1.GatewaySpec{
			GatewayClassName: gatewayClass,
			Listeners:        []gwapiv1.Listener{{Name: "http", Port: 80, Protocol: gwapiv1.HTTPProtocolType}},
			Infrastructure: &gwapiv1.GatewayInfrastructure{ParametersRef: &gwapiv1.LocalParametersReference{
				Group: gwapiv1.Group(v1alpha2.GroupVersion.Group), Kind: "GatewayParameters", Name: name,
			}},
		},
	})
	return w.programmed(name)
}

// programmed waits until a Gateway serves and returns its address ("ip:80").
func (w *world) programmed(name string) string {
	w.t.Helper()
	var address string
	eventually(w.t, func() string {
		var g gwapiv1.Gateway
		w.get(name, &g)
		c := meta.FindStatusCondition(g.Status.Conditions, string(gwapiv1.GatewayConditionProgrammed))
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != g.Generation || len(g.Status.Addresses) == 0 {
			return fmt.Sprintf("Gateway %s is not programmed: %+v", name, g.Status)
		}
		address = net.JoinHostPort(g.Status.Addresses[0].Value, "80")
		return ""
	})
	return address
}

// engines are the simulated engines of one Model.
type engines struct {
	model       string
	strategy    string // "": the default
	replicas    int32
	labels      map[string]string // of the Model
	annotations map[string]string // of the Model
	flags       []string          // of cmd/enginesim
	edit        func(*v1alpha2.Model)
}

// model makes a Model with its Service and engines, and waits until all of them
// take requests.
func (w *world) model(e engines) {
	w.t.Helper()
	annotations := maps.Clone(e.annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if e.strategy != "" {
		annotations["flexinfer.ai/routing"] = e.strategy
	}
	model := &v1alpha2.Model{
		ObjectMeta: metav1.ObjectMeta{Name: e.model, Labels: e.labels, Annotations: annotations},
		Spec:       v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://simulated/engine"},
	}
	if e.edit != nil {
		e.edit(model)
	}
	w.create(model, engineService(e.model), engineDeployment(e))
	w.engineReady(e.model, e.replicas)
}

// engineReady waits until a Model has that many replicas and says so.
func (w *world) engineReady(model string, replicas int32) {
	w.t.Helper()
	eventually(w.t, func() string {
		var m v1alpha2.Model
		w.get(model, &m)
		if m.Status.Endpoints != replicas {
			return fmt.Sprintf("Model %s has %d of %d ready endpoints", model, m.Status.Endpoints, replicas)
		}
		return ""
	})
}

func engineService(model string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: model},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": model},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 8000}},
		},
	}
}

func engineDeployment(e engines) *appsv1.Deployment {
	labels := map[string]string{"app": e.model}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: e.model},
		Spec: appsv1.DeploymentSpec{
			Replicas: &e.replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)),
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(bool),
					Containers: []corev1.Container{{
						Name: "engine", Image: engineImage, ImagePullPolicy: corev1.PullIfNotPresent,
						Args: append([]string{"--listen=0.0.0.0:8000", "--name=$(POD_NAME)"}, e.flags...),
						Env: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
							FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
						}}},
						ReadinessProbe: &corev1.Probe{
							ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(8000)}},
							PeriodSeconds: 1, TimeoutSeconds: 5, // a busy machine is no fault of the engine
						},
						// Requests that are on their way still find the engine.
						Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 2}}},
					}},
				},
			},
		},
	}
}

// route makes an HTTPRoute on a Gateway that gives each Model the requests whose
// body names it.
func (w *world) route(gateway string, models ...string) {
	w.t.Helper()
	route := &gwapiv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: "models"}}
	route.Spec.ParentRefs = []gwapiv1.ParentReference{{Name: gwapiv1.ObjectName(gateway)}}
	for _, model := range models {
		route.Spec.Rules = append(route.Spec.Rules, gwapiv1.HTTPRouteRule{
			Matches: []gwapiv1.HTTPRouteMatch{{Headers: []gwapiv1.HTTPHeaderMatch{{Name: "X-Gateway-Model-Name", Value: model}}}},
			BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: gwapiv1.BackendObjectReference{
				Group: new(gwapiv1.Group(v1alpha2.GroupVersion.Group)), Kind: new(gwapiv1.Kind("Model")), Name: gwapiv1.ObjectName(model),
			}}}},
		})
	}
	w.create(route)
}

// pods are the running pods of a selector that are not going, by name.
func (w *world) pods(selector map[string]string) []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	if err := api.List(w.t.Context(), &list, client.InNamespace(w.namespace), client.MatchingLabels(selector)); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.PodIP == ""
	})
}

// gatewayPods are the pods of a Gateway.
func (w *world) gatewayPods(gateway string) []corev1.Pod {
	w.t.Helper()
	return w.pods(map[string]string{"gateway.networking.k8s.io/gateway-name": gateway})
}

// restart is kubectl rollout restart of a Deployment, and waits for its end.
func (w *world) restart(namespace, deployment string) {
	w.t.Helper()
	kubectl(w.t, "-n", namespace, "rollout", "restart", "deployment/"+deployment)
	kubectl(w.t, "-n", namespace, "rollout", "status", "--timeout="+strconv.Itoa(int(patience/time.Second))+"s", "deployment/"+deployment)
}

// gatewayDeployment is the name of what runs a Gateway.
func (w *world) gatewayDeployment(gateway string) string {
	w.t.Helper()
	var list appsv1.DeploymentList
	selector := client.MatchingLabels{"gateway.networking.k8s.io/gateway-name": gateway}
	if err := api.List(w.t.Context(), &list, client.InNamespace(w.namespace), selector); err != nil || len(list.Items) != 1 {
		w.t.Fatalf("Gateway %s has %d Deployments (%v), want 1", gateway, len(list.Items), err)
	}
	return list.Items[0].Name
}
