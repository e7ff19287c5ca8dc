package manifests

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"flexinfer.ai/gateway/internal/control"
	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/internal/control/trust"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

const namespace = "flexinfer-system"

// load reads the objects of a kustomization and of the directories it names. A
// field that its kind does not have is an error, and so is a file that the
// kustomization leaves out.
func load(t *testing.T, dir string) []client.Object {
	t.Helper()
	var k struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, &k); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if base := filepath.Base(file); base != "kustomization.yaml" && !slices.Contains(k.Resources, base) {
			t.Errorf("%s is not among the resources of its kustomization.yaml", file)
		}
	}
	var objects []client.Object
	for _, resource := range k.Resources {
		path := filepath.Join(dir, resource)
		if filepath.Ext(path) != ".yaml" {
			objects = append(objects, load(t, path)...)
		} else if dir != "crd" { // those are controller-gen's
			objects = append(objects, decode(t, path)...)
		}
	}
	return objects
}

func decode(t *testing.T, path string) (objects []client.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, gwapiv1.Install, v1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(raw)))
	buffer := make([]byte, len(raw)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(buffer[:n], &kind); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if kind.Kind == "" {
			continue
		}
		made, err := scheme.New(kind.GroupVersionKind())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := yaml.UnmarshalStrict(buffer[:n], made); err != nil {
			t.Fatalf("%s: %s: %v", path, kind.Kind, err)
		}
		objects = append(objects, made.(client.Object))
	}
}

// one is the object of a type and name.
func one[T client.Object](t *testing.T, objects []client.Object, name string) T {
	t.Helper()
	for _, o := range objects {
		if found, ok := o.(T); ok && o.GetName() == name {
			return found
		}
	}
	var none T
	t.Fatalf("there is no %T %s", none, name)
	return none
}

func TestNamesAgree(t *testing.T) {
	objects := load(t, "base")
	const name = "flexinfer-controller"
	deployment := one[*appsv1.Deployment](t, objects, name)
	service := one[*corev1.Service](t, objects, name)
	budget := one[*policyv1.PodDisruptionBudget](t, objects, name)
	account := one[*corev1.ServiceAccount](t, objects, deployment.Spec.Template.Spec.ServiceAccountName)
	class := one[*gwapiv1.GatewayClass](t, objects, "flexinfer")

	if class.Spec.ControllerName != translate.DefaultControllerName {
		t.Errorf("controllerName %s, want %s", class.Spec.ControllerName, translate.DefaultControllerName)
	}
	pod := labels.Set(deployment.Spec.Template.Labels)
	if pod[provision.LabelManagedBy] == provision.ManagedBy {
		t.Errorf("the controller's pods have the label by which gateway pods are found")
	}
	for what, selector := range map[string]map[string]string{
		"Deployment": deployment.Spec.Selector.MatchLabels, "Service": service.Spec.Selector, "PodDisruptionBudget": budget.Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
			t.Errorf("the %s's selector %v does not match the pods' labels %v", what, selector, pod)
		}
	}
	ports := map[string]int32{}
	for _, p := range deployment.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range service.Spec.Ports {
		if ports[p.TargetPort.String()] != p.Port {
			t.Errorf("port %d of the Service goes to %s, which is %d in the pod: gateway pods use the pod's port at the Service's name",
				p.Port, p.TargetPort.String(), ports[p.TargetPort.String()])
		}
	}
	for _, o := range objects {
		if o.GetNamespace() != namespace && o.GetNamespace() != "" {
			t.Errorf("%T %s is in namespace %s", o, o.GetName(), o.GetNamespace())
		}
		for _, s := range subjects(o) {
			if s.Kind != "ServiceAccount" || s.Name != account.Name || s.Namespace != account.Namespace {
				t.Errorf("%T %s binds %s %s/%s", o, o.GetName(), s.Kind, s.Namespace, s.Name)
			}
		}
	}
}

func subjects(o client.Object) []rbacv1.Subject {
	switch o := o.(type) {
	case *rbacv1.ClusterRoleBinding:
		return o.Subjects
	case *rbacv1.RoleBinding:
		return o.Subjects
	}
	return nil
}

func TestRolesAreBound(t *testing.T) {
	objects := load(t, "base")
	bound := map[string]bool{}
	for _, o := range objects {
		switch b := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			one[*rbacv1.ClusterRole](t, objects, b.RoleRef.Name)
			bound["ClusterRole "+b.RoleRef.Name] = b.RoleRef.Kind == "ClusterRole"
		case *rbacv1.RoleBinding:
			one[*rbacv1.Role](t, objects, b.RoleRef.Name)
			bound["Role "+b.RoleRef.Name] = b.RoleRef.Kind == "Role"
		}
	}
	for _, want := range []string{"ClusterRole flexinfer-controller", "ClusterRole flexinfer-controller-scale", "Role flexinfer-controller"} {
		if !bound[want] {
			t.Errorf("%s is not bound", want)
		}
	}
}

func allows(rules []rbacv1.PolicyRule, group, resource, verb, name string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
	})
}

// TestRights compares the controller's rights with what its code does, in both
// directions where the code can be asked.
func TestRights(t *testing.T) {
	objects := load(t, "base")
	everywhere := one[*rbacv1.ClusterRole](t, objects, "flexinfer-controller").Rules
	own := one[*rbacv1.Role](t, objects, "flexinfer-controller").Rules

	g := provision.Gateway{Object: &gwapiv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}, Ports: []int32{80}}
	g.Parameters.Autoscaling = &v1alpha2.Autoscaling{}
	provisioned := map[string]bool{}
	for _, o := range provision.Desired(g, provision.Settings{}) {
		gvk := o.GetObjectKind().GroupVersionKind()
		resource := strings.ToLower(gvk.Kind) + "s"
		provisioned[resource] = true
		for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
			if !allows(everywhere, gvk.Group, resource, verb, "") {
				t.Errorf("%s of %s is not allowed", verb, resource)
			}
		}
	}
	for _, verb := range []string{"get", "update"} {
		if !allows(own, "", "secrets", verb, trust.SecretName) {
			t.Errorf("%s of Secret %s is not allowed", verb, trust.SecretName)
		}
		if !allows(own, "coordination.k8s.io", "leases", verb, control.LeaseName) {
			t.Errorf("%s of Lease %s is not allowed", verb, control.LeaseName)
		}
		if allows(own, "", "secrets", verb, "another") || allows(everywhere, "", "secrets", verb, trust.SecretName) {
			t.Errorf("%s of other Secrets is allowed", verb)
		}
	}
	created := []string{"events", "tokenreviews"}
	for _, rule := range everywhere {
		for _, resource := range rule.Resources {
			object, sub, _ := strings.Cut(resource, "/")
			for _, verb := range rule.Verbs {
				fine := verb == "list" || verb == "watch" || provisioned[object] || slices.Contains(created, object) || sub == "status" || sub == "scale"
				if !fine || strings.Contains(resource+verb, "*") || verb == "escalate" || verb == "bind" || verb == "impersonate" {
					t.Errorf("%s of %s is allowed in every namespace", verb, resource)
				}
			}
		}
	}
}

// TestPodSecurity holds the controller's pods to the restricted Pod Security
// Standard, which its namespace enforces, and to a root filesystem that is not
// written.
func TestPodSecurity(t *testing.T) {
	objects := load(t, "base")
	if got := one[*corev1.Namespace](t, objects, namespace).Labels["pod-security.kubernetes.io/enforce"]; got != "restricted" {
		t.Errorf("the namespace enforces %q", got)
	}
	pod := one[*appsv1.Deployment](t, objects, "flexinfer-controller").Spec.Template.Spec
	s := pod.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod: %+v", s)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Volumes) > 0 {
		t.Error("the pod has something of its host, or volumes")
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("container %s: %+v", c.Name, s)
		}
		if _, ok := c.Resources.Limits[corev1.ResourceMemory]; !ok {
			t.Errorf("container %s has no limit of memory", c.Name)
		}
	}
}
