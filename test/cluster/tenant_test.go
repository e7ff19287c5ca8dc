package cluster

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// tenant is a ServiceAccount that may edit its namespace by Kubernetes' own role,
// which covers Models and GatewayParameters, and the Gateway API's objects there;
// and nothing elsewhere.
type tenant struct {
	*world
	client client.Client
}

// newTenant makes a tenant with a namespace of its own.
func newTenant(t *testing.T) *tenant {
	t.Helper()
	w := newWorld(t)
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "tenant", Namespace: w.namespace}}
	w.create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "gateways"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{gwapiv1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gateways"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gateways"}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "edit"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}},
	)
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.namespace + ":tenant",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + w.namespace, "system:authenticated"},
	}
	c, err := client.New(as, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	tn := &tenant{w, c}
	eventually(t, func() string { // the roles take a moment
		err := c.List(t.Context(), &v1alpha2.ModelList{}, client.InNamespace(w.namespace))
		return errorText(err)
	})
	return tn
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// make creates objects as the tenant.
func (t *tenant) make(objects ...client.Object) {
	t.t.Helper()
	for _, o := range objects {
		o.SetNamespace(t.namespace)
		if err := t.client.Create(t.t.Context(), o); err != nil {
			t.t.Fatalf("the tenant cannot create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// forbidden sees that the tenant cannot read an object.
func (t *tenant) forbidden(o client.Object, namespace, name string) {
	t.t.Helper()
	err := t.client.Get(t.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if !apierrors.IsForbidden(err) {
		t.t.Errorf("the tenant reads %T %s/%s: %v", o, namespace, name, err)
	}
}

func modelRef(namespace, name string) gwapiv1.BackendObjectReference {
	ref := gwapiv1.BackendObjectReference{
		Group: new(gwapiv1.Group(v1alpha2.GroupName)), Kind: new(gwapiv1.Kind(v1alpha2.KindModel)), Name: gwapiv1.ObjectName(name),
	}
	if namespace != "" {
		ref.Namespace = new(gwapiv1.Namespace(namespace))
	}
	return ref
}

func serviceRef(namespace, name string, port int32) gwapiv1.BackendObjectReference {
	ref := gwapiv1.BackendObjectReference{Name: gwapiv1.ObjectName(name), Port: &port}
	if namespace != "" {
		ref.Namespace = new(gwapiv1.Namespace(namespace))
	}
	return ref
}

// pathRoute leads a path to a backend.
func pathRoute(name, gateway, path string, to gwapiv1.BackendObjectReference) *gwapiv1.HTTPRoute {
	return &gwapiv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: gwapiv1.HTTPRouteSpec{
			CommonRouteSpec: gwapiv1.CommonRouteSpec{ParentRefs: []gwapiv1.ParentReference{{Name: gwapiv1.ObjectName(gateway)}}},
			Rules: []gwapiv1.HTTPRouteRule{{
				Matches: []gwapiv1.HTTPRouteMatch{{Path: &gwapiv1.HTTPPathMatch{Type: new(gwapiv1.PathMatchPathPrefix), Value: &path}}},
				Filters: []gwapiv1.HTTPRouteFilter{{Type: gwapiv1.HTTPRouteFilterURLRewrite, URLRewrite: &gwapiv1.HTTPURLRewriteFilter{
					Path: &gwapiv1.HTTPPathModifier{Type: gwapiv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: new("/")},
				}}},
				BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: to}}},
			}},
		},
	}
}

// routeSays waits until a route's condition has a reason.
func (w *world) routeSays(name string, condition gwapiv1.RouteConditionType, reason gwapiv1.RouteConditionReason) {
	w.t.Helper()
	eventually(w.t, func() string {
		var r gwapiv1.HTTPRoute
		w.get(name, &r)
		for _, p := range r.Status.Parents {
			if c := meta.FindStatusCondition(p.Conditions, string(condition)); c != nil && c.Reason == string(reason) && c.ObservedGeneration == r.Generation {
				return ""
			}
		}
		return fmt.Sprintf("route %s does not say %s %s: %+v", name, condition, reason, r.Status)
	})
}

// status is the status of the answer to a GET; 0: there is none.
func (g *target) status(t *testing.T, path string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := g.client.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// answers waits until requests for a path get a status.
func (g *target) answers(t *testing.T, path string, want int) {
	t.Helper()
	eventually(t, func() string {
		if got := g.status(t, path); got != want {
			return fmt.Sprintf("GET %s: %d, want %d", path, got, want)
		}
		return ""
	})
}

// A tenant reaches its own backends and nobody else's, and no Secrets.
func TestTenantStaysAtHome(t *testing.T) {
	victim, tn := newWorld(t), newTenant(t)
	c := watchController(t, victim, tn.world)
	victim.model(engines{model: "private", replicas: 1, edit: func(m *v1alpha2.Model) { m.Spec.ServiceLabels = []v1alpha2.ServiceLabel{"group"} }})
	certificate, key := testrig.SelfSigned(t, "victim.example.com")
	victim.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cert"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}})

	tn.forbidden(&corev1.Secret{}, systemNamespace, "flexinfer-ca")
	tn.forbidden(&corev1.Secret{}, victim.namespace, "cert")
	tn.forbidden(&v1alpha2.Model{}, victim.namespace, "private")
	tn.forbidden(&gwapiv1.GatewayClass{}, "", gatewayClass)

	tn.make(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "own"}, Ports: []corev1.ServicePort{{Name: "http", Port: 8000}},
	}}, engineDeployment(engines{model: "own", replicas: 1}))
	tn.make(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "alias"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "private." + victim.namespace + ".svc.cluster.local",
		Ports: []corev1.ServicePort{{Name: "http", Port: 8000}},
	}})
	mirror := pathRoute("mirror", "g", "/mirror", serviceRef("", "own", 8000))
	mirror.Spec.Rules[0].Filters = append(mirror.Spec.Rules[0].Filters, gwapiv1.HTTPRouteFilter{
		Type: gwapiv1.HTTPRouteFilterRequestMirror, RequestMirror: &gwapiv1.HTTPRequestMirrorFilter{BackendRef: serviceRef(victim.namespace, "private", 8000)},
	})
	tn.make(
		pathRoute("own", "g", "/own", serviceRef("", "own", 8000)),
		pathRoute("model", "g", "/model", modelRef(victim.namespace, "private")),
		pathRoute("group", "g", "/group", modelRef(victim.namespace, "group")),
		pathRoute("service", "g", "/service", serviceRef(victim.namespace, "private", 8000)),
		pathRoute("alias", "g", "/alias", serviceRef("", "alias", 8000)),
		mirror,
	)
	address := tn.gateway("g", 1)
	g := newTarget(t, address)
	g.answers(t, "/own/v1/models", http.StatusOK)
	for _, foreign := range []string{"model", "group", "service", "mirror"} {
		tn.routeSays(foreign, gwapiv1.RouteConditionResolvedRefs, gwapiv1.RouteReasonRefNotPermitted)
	}
	tn.routeSays("alias", gwapiv1.RouteConditionResolvedRefs, gwapiv1.RouteReasonUnsupportedProtocol)
	for _, foreign := range []string{"model", "group", "service", "alias"} {
		g.answers(t, "/"+foreign+"/v1/models", http.StatusInternalServerError)
	}
	mirrored := &target{url: g.url + "/mirror", client: g.client}
	for range 20 {
		if a, err := mirrored.ask(t.Context(), "own", "", "hello"); err != nil || a.status != http.StatusOK {
			t.Fatalf("%d %s %v", a.status, a.body, err)
		}
	}
	if n := answered(t, tn.pods(map[string]string{"app": "own"})[0]); n != 20 {
		t.Errorf("the tenant's engine has answered %v requests, want 20", n)
	}
	if n := answered(t, victim.pods(map[string]string{"app": "private"})[0]); n != 0 {
		t.Errorf("the victim's engine has answered %v requests, want none", n)
	}

	// With the victim's consent the same route serves.
	victim.create(&gwapiv1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Name: "consent"}, Spec: gwapiv1.ReferenceGrantSpec{
		From: []gwapiv1.ReferenceGrantFrom{{Group: gwapiv1.GroupName, Kind: "HTTPRoute", Namespace: gwapiv1.Namespace(tn.namespace)}},
		To:   []gwapiv1.ReferenceGrantTo{{Group: gwapiv1.Group(v1alpha2.GroupName), Kind: gwapiv1.Kind(v1alpha2.KindModel), Name: new(gwapiv1.ObjectName("private"))}},
	}})
	g.answers(t, "/model/v1/models", http.StatusOK)
	g.answers(t, "/service/v1/models", http.StatusInternalServerError)

	tn.foreignCertificate(victim.namespace)
	tn.strangeEndpoints(g, victim)
	tn.imageStays()
	c.unharmed()
}

// answered is how many completions an engine has given.
func answered(t *testing.T, engine corev1.Pod) float64 {
	t.Helper()
	return sumOf(scrape(t, engine.Status.PodIP, 8000), "vllm:request_success_total", nil)
}

// foreignCertificate sees that a Gateway cannot serve another namespace's
// certificate.
func (t *tenant) foreignCertificate(namespace string) {
	t.t.Helper()
	t.make(&gwapiv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "thief"},
		Spec: gwapiv1.GatewaySpec{
			GatewayClassName: gatewayClass,
			Infrastructure:   &gwapiv1.GatewayInfrastructure{ParametersRef: &gwapiv1.LocalParametersReference{Group: gwapiv1.Group(v1alpha2.GroupName), Kind: "GatewayParameters", Name: "g"}},
			Listeners: []gwapiv1.Listener{
				{Name: "http", Port: 80, Protocol: gwapiv1.HTTPProtocolType},
				{Name: "https", Port: 443, Protocol: gwapiv1.HTTPSProtocolType, TLS: &gwapiv1.ListenerTLSConfig{
					CertificateRefs: []gwapiv1.SecretObjectReference{{Namespace: new(gwapiv1.Namespace(namespace)), Name: "cert"}},
				}},
			},
		},
	})
	eventually(t.t, func() string {
		var g gwapiv1.Gateway
		t.get("thief", &g)
		for _, l := range g.Status.Listeners {
			if c := meta.FindStatusCondition(l.Conditions, string(gwapiv1.ListenerConditionResolvedRefs)); l.Name == "https" && c != nil && c.Reason == string(gwapiv1.ListenerReasonRefNotPermitted) {
				return ""
			}
		}
		return fmt.Sprintf("the listener's certificate is not refused: %+v", g.Status.Listeners)
	})
	address := t.programmed("thief")
	host := strings.TrimSuffix(address, ":80")
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "victim.example.com"}} //nolint:gosec // whatever is shown would be too much
	if conn, err := dialer.DialContext(t.t.Context(), "tcp", host+":443"); err == nil {
		_ = conn.Close()
		t.t.Error("a TLS handshake succeeds on a listener whose certificate is another namespace's")
	}
}

// strangeEndpoints sees who decides about the addresses behind a Service: the API
// server, which knows that a loopback or link-local address is nobody's pod, and
// its roles, which let no editor of a namespace write EndpointSlices.
func (t *tenant) strangeEndpoints(g *target, victim *world) {
	t.t.Helper()
	slice := func(family discoveryv1.AddressType, address string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{GenerateName: "strange-", Namespace: t.namespace, Labels: map[string]string{discoveryv1.LabelServiceName: "strange"}},
			AddressType: family, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8000))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		}
	}
	if err := t.client.Create(t.t.Context(), slice(discoveryv1.AddressTypeIPv4, "198.18.0.1")); !apierrors.IsForbidden(err) {
		t.t.Errorf("an editor of a namespace writes EndpointSlices: %v", err)
	}
	for address, family := range map[string]discoveryv1.AddressType{
		"127.0.0.1": discoveryv1.AddressTypeIPv4, "169.254.169.254": discoveryv1.AddressTypeIPv4, "0.0.0.0": discoveryv1.AddressTypeIPv4,
		"224.0.0.1": discoveryv1.AddressTypeIPv4, "::1": discoveryv1.AddressTypeIPv6, "fe80::1": discoveryv1.AddressTypeIPv6,
		"::ffff:169.254.169.254": discoveryv1.AddressTypeIPv6,
	} {
		if err := api.Create(t.t.Context(), slice(family, address)); !apierrors.IsInvalid(err) {
			t.t.Errorf("an administrator writes an EndpointSlice with %s: %v", address, err)
		}
	}
	// Names are not resolved, whoever writes them.
	if err := api.Create(t.t.Context(), slice(discoveryv1.AddressTypeFQDN, "private."+victim.namespace+".svc")); err != nil {
		t.t.Error(err)
	}
	t.make(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "strange"}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 8000}},
	}}, pathRoute("strange", "g", "/strange", serviceRef("", "strange", 8000)))
	t.routeSays("strange", gwapiv1.RouteConditionResolvedRefs, gwapiv1.RouteReasonResolvedRefs)
	eventually(t.t, func() string {
		if s := g.status(t.t, "/strange/v1/models"); s != http.StatusServiceUnavailable && s != http.StatusBadGateway {
			return fmt.Sprintf("a Service whose EndpointSlices hold names is answered with %d", s)
		}
		return ""
	})
}

// imageStays sees that a Gateway's own parameters do not choose what runs with its
// keys.
func (t *tenant) imageStays() {
	t.t.Helper()
	t.make(&v1alpha2.GatewayParameters{
		ObjectMeta: metav1.ObjectMeta{Name: "evil"}, Spec: v1alpha2.GatewayParametersSpec{Image: new("example.com/evil:1")},
	})
	change(t.world, "thief", &gwapiv1.Gateway{}, func(g *gwapiv1.Gateway) { g.Spec.Infrastructure.ParametersRef.Name = "evil" })
	eventually(t.t, func() string {
		var g gwapiv1.Gateway
		t.get("thief", &g)
		if c := meta.FindStatusCondition(g.Status.Conditions, string(gwapiv1.GatewayConditionAccepted)); c == nil || c.Reason != string(gwapiv1.GatewayReasonInvalidParameters) {
			return fmt.Sprintf("a Gateway with an image of its own: %+v", g.Status.Conditions)
		}
		return ""
	})
	for _, p := range t.pods(map[string]string{"app.kubernetes.io/managed-by": controllerName}) {
		s := p.Spec
		if len(s.Containers) != 1 || strings.Contains(s.Containers[0].Image, "evil") || s.ServiceAccountName == "tenant" || s.HostNetwork {
			t.t.Errorf("gateway pod %s: %+v", p.Name, s)
		}
	}
}

// A Gateway whose objects would have the names of others' does not touch those.
func TestTenantOverwritesNothing(t *testing.T) {
	tn := newTenant(t)
	c := watchController(t, tn.world)
	const name = "g-d8f163e3" // of everything of a Gateway g of class flexinfer
	meta1 := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"app.kubernetes.io/managed-by": controllerName, "gateway.networking.k8s.io/gateway-name": "g", "flexinfer.ai/controller": "flexinfer.ai_gateway-controller",
		}}
	}
	others := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta1(), Data: map[string]string{"a": "b"}},
		&corev1.Service{ObjectMeta: meta1(), Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 1}}}},
		&corev1.ServiceAccount{ObjectMeta: meta1()},
	}
	tn.create(others...)
	tn.make(&gwapiv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "g"},
		Spec: gwapiv1.GatewaySpec{
			GatewayClassName: gatewayClass,
			Infrastructure: &gwapiv1.GatewayInfrastructure{Labels: map[gwapiv1.LabelKey]gwapiv1.LabelValue{
				"app.kubernetes.io/managed-by": "me", "flexinfer.ai/controller": "me",
			}},
			Listeners: []gwapiv1.Listener{{Name: "http", Port: 80, Protocol: gwapiv1.HTTPProtocolType}},
		},
	})
	eventually(t, func() string {
		var g gwapiv1.Gateway
		tn.get("g", &g)
		if p := meta.FindStatusCondition(g.Status.Conditions, string(gwapiv1.GatewayConditionProgrammed)); p == nil || !strings.Contains(p.Message, "was not made for this Gateway") {
			return fmt.Sprintf("the Gateway does not say what is in its way: %+v", g.Status.Conditions)
		}
		return ""
	})
	time.Sleep(2 * time.Second) // time to do what must not be done
	for _, o := range others {
		now := o.DeepCopyObject().(client.Object)
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), now); err != nil || now.GetResourceVersion() != o.GetResourceVersion() || now.GetUID() != o.GetUID() {
			t.Errorf("%T %s was changed: %v", o, name, err)
		}
	}
	for _, line := range c.log() {
		if c.concerns(line) && strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the controller says: %s", line)
		}
	}
}
