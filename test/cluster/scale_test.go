package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// The size of the world of TestScale.
const (
	scaleModels    = 500
	scaleEndpoints = 10 // of each Model
	scaleRoutes    = 2000
	// Every servedEvery-th Model has a real engine besides.
	servedEvery = 50
	scalePods   = 2
	// scaleChanges are single changes of an endpoint that are measured.
	scaleChanges = 10
)

const megabyte = 1 << 20

// Thousands of objects come, work, change one at a time and go: no error, nothing
// starves, memory stays small, and a change of one endpoint sends that and no more.
func TestScale(t *testing.T) {
	w := newWorld(t)
	w.create(engineService("engine"), engineDeployment(engines{model: "engine", replicas: 1}))
	address := w.gateway("big", scalePods)
	c := watchController(t, w)
	engine := w.engineAddress("engine")

	began := time.Now()
	c.before = c.read()
	w.createWorld(engine)
	t.Logf("%d routes, %d Models, %d endpoints created in %v", scaleRoutes, scaleModels, scaleModels*scaleEndpoints, time.Since(began).Round(time.Millisecond))
	w.settled()
	t.Logf("every route accepted, every Model ready %v after the first was created", time.Since(began).Round(time.Millisecond))
	c.show("while they came", c.before)

	w.routesServe(address)
	w.oneEndpointAtATime(c)
	c.memory(w.gatewayPods("big"))
	c.unharmed()

	w.deleteWorld()
	c.unharmed()
}

// deleteWorld deletes what createWorld has made, all kinds at a time, and waits for
// the last one to go.
func (w *world) deleteWorld() {
	w.t.Helper()
	began := time.Now()
	var deletions sync.WaitGroup
	for _, kind := range []client.Object{&gwapiv1.HTTPRoute{}, &v1alpha2.Model{}, &corev1.Service{}, &discoveryv1.EndpointSlice{}} {
		deletions.Go(func() {
			if err := api.DeleteAllOf(w.t.Context(), kind, client.InNamespace(w.namespace)); err != nil {
				w.t.Errorf("cannot delete every %T: %v", kind, err)
			}
		})
	}
	deletions.Wait()
	w.t.Logf("all deleted in %v", time.Since(began).Round(time.Millisecond))
}

// engineAddress is the address of the one pod of engines.
func (w *world) engineAddress(model string) (address string) {
	w.t.Helper()
	eventually(w.t, func() string {
		pods := w.pods(map[string]string{"app": model})
		if len(pods) != 1 {
			return fmt.Sprintf("%d pods of engine %s have an address", len(pods), model)
		}
		address = pods[0].Status.PodIP
		return ""
	})
	return address
}

// createWorld creates Models with Services, EndpointSlices and routes, many at a
// time.
func (w *world) createWorld(engine string) {
	w.t.Helper()
	var objects []client.Object
	for i := range scaleModels {
		objects = append(objects, scaleModel(i), scaleService(i), scaleSlice(i, engine))
	}
	for i := range scaleRoutes {
		objects = append(objects, scaleRoute(i))
	}
	w.createMany(objects)
}

// createMany creates objects of the world's namespace, many at a time.
func (w *world) createMany(objects []client.Object) {
	w.t.Helper()
	todo := make(chan client.Object)
	problems := make(chan error, len(objects))
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for o := range todo {
				if err := api.Create(w.t.Context(), o); err != nil {
					problems <- fmt.Errorf("cannot create %T %s: %w", o, o.GetName(), err)
				}
			}
		})
	}
	for _, o := range objects {
		o.SetNamespace(w.namespace)
		todo <- o
	}
	close(todo)
	workers.Wait()
	select {
	case err := <-problems:
		w.t.Fatal(err)
	default:
	}
}

func scaleName(i int) string { return fmt.Sprintf("model-%d", i) }

func scaleModel(i int) *v1alpha2.Model {
	return &v1alpha2.Model{
		ObjectMeta: metav1.ObjectMeta{Name: scaleName(i), Annotations: map[string]string{"flexinfer.ai/routing": v1alpha2.RoutingPrefix}},
		Spec:       v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://simulated/engine"},
	}
}

// scaleService has no selector: its endpoints are written by the test.
func scaleService(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: scaleName(i)},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 8000}}},
	}
}

// scaleSlice lists endpoints that do not answer; where a real engine is behind the
// Model they are not ready and it is.
func scaleSlice(i int, engine string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: scaleName(i), Labels: map[string]string{discoveryv1.LabelServiceName: scaleName(i)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8000)), Protocol: new(corev1.ProtocolTCP)}},
	}
	served := i%servedEvery == 0
	for j := range scaleEndpoints {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("198.18.%d.%d", i/25, i%25*10+j+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(!served)},
		})
	}
	if served {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{engine}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	return s
}

// scaleRoute leads /r/<i>/... and requests with a header to a Model.
func scaleRoute(i int) *gwapiv1.HTTPRoute {
	backends := []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: gwapiv1.BackendObjectReference{
		Group: new(gwapiv1.Group(v1alpha2.GroupName)), Kind: new(gwapiv1.Kind(v1alpha2.KindModel)), Name: gwapiv1.ObjectName(scaleName(i % scaleModels)),
	}}}}
	prefix := fmt.Sprintf("/r/%d", i)
	return &gwapiv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("route-%d", i)},
		Spec: gwapiv1.HTTPRouteSpec{
			CommonRouteSpec: gwapiv1.CommonRouteSpec{ParentRefs: []gwapiv1.ParentReference{{Name: "big"}}},
			Rules: []gwapiv1.HTTPRouteRule{
				{
					Matches: []gwapiv1.HTTPRouteMatch{{Path: &gwapiv1.HTTPPathMatch{Type: new(gwapiv1.PathMatchPathPrefix), Value: &prefix}}},
					Filters: []gwapiv1.HTTPRouteFilter{{Type: gwapiv1.HTTPRouteFilterURLRewrite, URLRewrite: &gwapiv1.HTTPURLRewriteFilter{
						Path: &gwapiv1.HTTPPathModifier{Type: gwapiv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: new("/")},
					}}},
					BackendRefs: backends,
				},
				{
					Matches:     []gwapiv1.HTTPRouteMatch{{Headers: []gwapiv1.HTTPHeaderMatch{{Name: "X-Route", Value: prefix}}}},
					BackendRefs: backends,
				},
			},
		},
	}
}

// settled waits until the statuses of all objects tell that they work.
func (w *world) settled() {
	w.t.Helper()
	eventually(w.t, func() string {
		defer time.Sleep(time.Second) // thousands of objects are read each time
		var routes gwapiv1.HTTPRouteList
		var models v1alpha2.ModelList
		for _, list := range []client.ObjectList{&routes, &models} {
			if err := api.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
				return err.Error()
			}
		}
		accepted, ready := 0, 0
		for i := range routes.Items {
			if p := routes.Items[i].Status.Parents; len(p) == 1 && meta.IsStatusConditionTrue(p[0].Conditions, string(gwapiv1.RouteConditionAccepted)) &&
				meta.IsStatusConditionTrue(p[0].Conditions, string(gwapiv1.RouteConditionResolvedRefs)) {
				accepted++
			}
		}
		for i := range models.Items {
			if models.Items[i].Status.Endpoints > 0 {
				ready++
			}
		}
		if accepted != scaleRoutes || ready != scaleModels {
			return fmt.Sprintf("%d of %d routes accepted, %d of %d Models ready", accepted, scaleRoutes, ready, scaleModels)
		}
		return ""
	})
}

// routesServe sends a request through every route that leads to a real engine.
func (w *world) routesServe(address string) {
	w.t.Helper()
	g := newTarget(w.t, address)
	served := 0
	for i := range scaleRoutes {
		if i%scaleModels%servedEvery != 0 {
			continue
		}
		served++
		for _, via := range []struct{ path, header string }{{fmt.Sprintf("/r/%d/v1/models", i), ""}, {"/v1/models", fmt.Sprintf("/r/%d", i)}} {
			eventually(w.t, func() string { return g.fetch(w.t.Context(), via.path, via.header) })
		}
	}
	w.t.Logf("%d routes of %d lead to a real engine, and do", served, scaleRoutes)
}

// fetch says what is wrong with the answer to a GET.
func (g *target) fetch(ctx context.Context, path, header string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	if header != "" {
		request.Header.Set("X-Route", header)
	}
	response, err := g.client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Sprintf("GET %s (X-Route %q): %d %s %v", path, header, response.StatusCode, body, err)
	}
	return ""
}

// oneEndpointAtATime changes single endpoints and sees what that costs.
func (w *world) oneEndpointAtATime(c *controller) {
	w.t.Helper()
	pods := w.gatewayPods("big")
	received := func() (resources, bytes float64) { // metrics of thousands of endpoints: read seldom
		for i := range pods {
			now := scrape(w.t, pods[i].Status.PodIP, adminPort)
			resources += sumOf(now, "flexinfer_proxy_controller_resources_total", nil)
			bytes += sumOf(now, "flexinfer_proxy_controller_resource_bytes_total", nil)
		}
		return resources, bytes
	}
	var resources, bytes []float64
	start := c.read()
	hadResources, hadBytes := received()
	for i := range scaleChanges {
		change(w, scaleName(i*7+1), &discoveryv1.EndpointSlice{}, func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[i%scaleEndpoints].Addresses = []string{fmt.Sprintf("198.19.0.%d", i+1)}
		})
		nowResources, nowBytes := hadResources, hadBytes
		eventually(w.t, func() string {
			time.Sleep(200 * time.Millisecond)
			if nowResources, nowBytes = received(); nowResources < hadResources+scalePods {
				return fmt.Sprintf("%v resources have reached %d pods after a change of an endpoint", nowResources-hadResources, scalePods)
			}
			return ""
		})
		resources, bytes = append(resources, nowResources-hadResources), append(bytes, nowBytes-hadBytes)
		if nowResources-hadResources != scalePods {
			w.t.Errorf("a changed endpoint sends %v resources to %d pods, want one to each", nowResources-hadResources, scalePods)
		}
		hadResources, hadBytes = nowResources, nowBytes
	}
	w.t.Logf("changed endpoints send %v resources of %v bytes to %d pods", resources, bytes, scalePods)
	c.show("while endpoints changed one at a time", start)
	for pod, mean := range c.means(start, "flexinfer_controller_acknowledge_lag_seconds") {
		w.t.Logf("%s: acknowledged by all pods after %.1f ms on average of %d", pod, 1000*mean.value, mean.count)
	}
}

// controller is the replicas of the controller as their metrics and logs show them.
type controller struct {
	t      *testing.T
	worlds []*world // whose objects it is watched with
	pods   []corev1.Pod
	since0 time.Time
	before readings
}

// readings are the metrics of each replica, by pod.
type readings map[string]map[string]*dto.MetricFamily

// watchController begins to watch the controller; it must not restart any more.
// What it says of namespaces other than these worlds' is not heard.
func watchController(t *testing.T, worlds ...*world) *controller {
	t.Helper()
	c := &controller{t: t, worlds: worlds}
	eventually(t, func() string { // a test before may have restarted them
		c.pods = controllerPods(t)
		for i := range c.pods {
			ready := slices.ContainsFunc(c.pods[i].Status.Conditions, func(p corev1.PodCondition) bool {
				return p.Type == corev1.PodReady && p.Status == corev1.ConditionTrue
			})
			if !ready {
				return "controller pod " + c.pods[i].Name + " is not ready"
			}
		}
		return ""
	})
	c.since0 = time.Now()
	c.before = c.read()
	return c
}

// controllerPods are the replicas of the controller.
func controllerPods(t *testing.T) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := api.List(t.Context(), &list, client.InNamespace(systemNamespace), client.MatchingLabels{"app.kubernetes.io/name": controllerName}); err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			pods = append(pods, list.Items[i])
		}
	}
	if len(pods) == 0 {
		t.Fatal("the controller has no pods")
	}
	return pods
}

// controllerPort serves the controller's metrics.
const controllerPort = 8090

func (c *controller) read() readings {
	c.t.Helper()
	r := readings{}
	for i := range c.pods {
		r[c.pods[i].Name] = scrape(c.t, c.pods[i].Status.PodIP, controllerPort)
	}
	return r
}

// since is by how much a counter has grown in all replicas. labels are pairs.
func (c *controller) since(before readings, name string, labels ...string) (grown float64) {
	c.t.Helper()
	want := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		want[labels[i]] = labels[i+1]
	}
	for pod, now := range c.read() {
		grown += sumOf(now, name, want) - sumOf(before[pod], name, want)
	}
	return grown
}

type mean struct {
	value float64
	count uint64
}

// means are the averages, by replica, of what a histogram has observed since.
func (c *controller) means(before readings, name string) map[string]mean {
	c.t.Helper()
	out := map[string]mean{}
	for pod, now := range c.read() {
		sum, count := histogram(now, name)
		sum0, count0 := histogram(before[pod], name)
		if count > count0 {
			out[pod] = mean{(sum - sum0) / float64(count-count0), count - count0}
		}
	}
	return out
}

func histogram(families map[string]*dto.MetricFamily, name string) (sum float64, count uint64) {
	for _, m := range families[name].GetMetric() {
		sum += m.GetHistogram().GetSampleSum()
		count += m.GetHistogram().GetSampleCount()
	}
	return sum, count
}

// within is how many observations of a histogram were at most a bucket's bound.
func within(families map[string]*dto.MetricFamily, name string, bound float64) (n uint64) {
	for _, m := range families[name].GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			if b.GetUpperBound() == bound {
				n += b.GetCumulativeCount()
			}
		}
	}
	return n
}

// show logs what the controller has done since.
func (c *controller) show(when string, since readings) {
	c.t.Helper()
	c.t.Logf("%s: %v statuses written, %v resources and %v bytes (%v on the wire) sent", when,
		c.since(since, "flexinfer_controller_status_writes_total", "result", "written"),
		c.since(since, "flexinfer_controller_publish_resources_total"),
		c.since(since, "flexinfer_controller_publish_bytes_total", "form", "plain"),
		c.since(since, "flexinfer_controller_publish_bytes_total", "form", "wire"))
	now := c.read()
	for pod, mean := range c.means(since, "flexinfer_controller_translation_duration_seconds") {
		cpu := sumOf(now[pod], "process_cpu_seconds_total", nil) - sumOf(since[pod], "process_cpu_seconds_total", nil)
		soon := within(now[pod], "flexinfer_controller_translation_duration_seconds", 0.05) - within(since[pod], "flexinfer_controller_translation_duration_seconds", 0.05)
		c.t.Logf("%s: %s, a translation and its publication took %.1f ms on average of %d, %d of them at most 50 (which is the aim, on an idle machine); %.1f ms of processor time for each, all else included",
			when, pod, 1000*mean.value, mean.count, soon, 1000*cpu/float64(mean.count))
	}
}

// memory logs the memory of the controller and of gateway pods.
func (c *controller) memory(gateways []corev1.Pod) {
	c.t.Helper()
	resident := func(families map[string]*dto.MetricFamily) float64 {
		return sumOf(families, "process_resident_memory_bytes", nil) / megabyte
	}
	for pod, now := range c.read() {
		c.t.Logf("controller %s: %.0f MiB (aim: at most 400), %.0f MiB of live heap", pod, resident(now),
			sumOf(now, "go_memstats_heap_alloc_bytes", nil)/megabyte)
	}
	for i := range gateways {
		now := scrape(c.t, gateways[i].Status.PodIP, adminPort)
		size := resident(now)
		c.t.Logf("gateway %s: %.0f MiB (at most 200)", gateways[i].Name, size)
		if size > 200 || size == 0 {
			c.t.Errorf("gateway pod %s uses %.0f MiB", gateways[i].Name, size)
		}
	}
}

// unharmed fails the test where the controller restarted, failed at something or
// logged an error, or that something is forbidden to it, but in lines that hold one of
// some texts.
func (c *controller) unharmed(but ...string) {
	c.t.Helper()
	now := controllerPods(c.t)
	for i := range c.pods {
		var restarts int32 = -1
		for j := range now {
			if now[j].UID == c.pods[i].UID && len(now[j].Status.ContainerStatuses) > 0 {
				restarts = now[j].Status.ContainerStatuses[0].RestartCount
			}
		}
		if s := c.pods[i].Status.ContainerStatuses; restarts < 0 || restarts != s[0].RestartCount {
			c.t.Fatalf("controller pod %s has restarted or is gone", c.pods[i].Name)
		}
	}
	for name, result := range map[string]string{
		"flexinfer_controller_translations_total":  "panicked",
		"flexinfer_controller_status_writes_total": "failed",
	} {
		if n := c.since(c.before, name, "result", result); n != 0 {
			c.t.Errorf("%s with result %s has grown by %v", name, result, n)
		}
	}
	for _, line := range c.log() {
		if !c.concerns(line) || slices.ContainsFunc(but, func(text string) bool { return strings.Contains(line, text) }) {
			continue
		}
		if strings.Contains(line, " ERROR ") || strings.Contains(strings.ToLower(line), "forbidden") {
			c.t.Errorf("the controller says: %.400s", line)
		}
	}
}

var namespaceOf = regexp.MustCompile(`namespace=(\S+)|(?:model|gateway)=([^/ ]+)/|namespaces \\*"([^"\\]+)`)

// concerns reports whether a line of the log is about no namespace, or one of the
// worlds'.
func (c *controller) concerns(line string) bool {
	m := namespaceOf.FindStringSubmatch(line)
	return m == nil || slices.ContainsFunc(c.worlds, func(w *world) bool { return w.namespace == m[1]+m[2]+m[3] })
}

// log is what the replicas have logged since the beginning.
func (c *controller) log() (lines []string) {
	c.t.Helper()
	for i := range c.pods {
		raw, err := clients.CoreV1().Pods(systemNamespace).GetLogs(c.pods[i].Name, &corev1.PodLogOptions{
			SinceTime: &metav1.Time{Time: c.since0},
		}).DoRaw(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		lines = append(lines, strings.Split(string(raw), "\n")...)
	}
	return lines
}
