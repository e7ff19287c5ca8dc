package cluster

import (
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// attack is objects that a tenant makes to do harm.
type attack struct {
	name    string
	objects func() []client.Object
	// refusedBy are words of the API server's, where it is it that refuses all of
	// them; empty: it may take some.
	refusedBy string
}

// Whatever a tenant writes, the controller goes on, and changes of others reach
// their gateway pods.
func TestHostileObjects(t *testing.T) {
	others, tn := newWorld(t), newTenant(t)
	others.model(engines{model: "engine", replicas: 1})
	g := newTarget(t, others.gateway("g", 1))
	tn.gateway("g", 1)
	c := watchController(t, others)
	t.Logf("before: a new route of others serves after %v", others.newRouteServes(g))

	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			w := &tenant{&world{t, tn.namespace}, tn.client}
			o := &world{t, others.namespace}
			made, refused := w.attempt(a)
			took := o.newRouteServes(g)
			t.Logf("%d objects taken, %d refused by the API server (%s); a new route of others serves after %v", made, len(refused), firstLine(refused), took)
			c.t = t
			c.unharmed("cannot scale a Model's target", "names a kind that the controller may not watch")
			c.silent("PRIVATE KEY", "hunter2")
		})
	}
	c.t = t
	c.memory(others.gatewayPods("g"))
	c.memory(tn.gatewayPods("g"))
}

// attempt makes the objects of an attack and returns how many the API server took,
// and why it refused the others.
func (t *tenant) attempt(a attack) (made int, refused []string) {
	t.t.Helper()
	for _, o := range a.objects() {
		o.SetNamespace(t.namespace)
		if err := t.client.Create(t.t.Context(), o); err != nil {
			refused = append(refused, err.Error())
			continue
		}
		made++
	}
	if a.refusedBy != "" && (made > 0 || !strings.Contains(refused[0], a.refusedBy)) {
		t.t.Errorf("%d objects taken, refused: %.300v, want %q", made, refused, a.refusedBy)
	}
	if a.refusedBy == "" && made == 0 {
		t.t.Errorf("none is taken, so that nothing is tested: %.300s", refused[0])
	}
	return made, refused
}

func firstLine(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.120q", texts[0])
}

// newRouteServes makes a route and returns how long it takes to serve.
func (w *world) newRouteServes(g *target) time.Duration {
	w.t.Helper()
	began := time.Now()
	name := fmt.Sprintf("canary-%d", began.UnixNano())
	w.create(pathRoute(name, "g", "/"+name, modelRef("", "engine")))
	g.answers(w.t, "/"+name+"/v1/models", http.StatusOK)
	return time.Since(began).Round(time.Millisecond)
}

// silent sees that the controller has logged none of some texts.
func (c *controller) silent(texts ...string) {
	c.t.Helper()
	for _, line := range c.log() {
		for _, text := range texts {
			if strings.Contains(line, text) {
				c.t.Errorf("the controller has logged %q", text)
			}
		}
	}
}

func attacks() []attack {
	return []attack{
		{name: "LargeRoutes", objects: largeRoutes},
		{name: "ManyRules", objects: manyRules},
		{name: "Expressions", objects: expressions},
		{name: "LargeExpressions", objects: largeExpressions},
		{name: "ControlCharacters", objects: controlCharacters},
		{name: "InvalidUTF8", objects: invalidUTF8},
		{name: "ExtremeNumbers", objects: extremeNumbers},
		{name: "LongNames", objects: longNames},
		{name: "Aliases", objects: aliases},
		{name: "ServiceLabels", objects: serviceLabels},
		{name: "Annotations", objects: annotations},
		{name: "ScaleTargets", objects: scaleTargets},
		{name: "Keys", objects: keys},
		{name: "Gateways", objects: gateways},
		{name: "Grants", objects: grants},
		{name: "TooLarge", objects: tooLarge, refusedBy: "oo "}, // "Too long", "too large"
	}
}

// route is a route of the tenant on its own Gateway.
func hostileRoute(name string, rules ...gwapiv1.HTTPRouteRule) *gwapiv1.HTTPRoute {
	r := &gwapiv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.ParentRefs = []gwapiv1.ParentReference{{Name: "g"}}
	r.Spec.Rules = rules
	return r
}

func headerMatches(n int, kind gwapiv1.HeaderMatchType, value func(i int) string) (out []gwapiv1.HTTPHeaderMatch) {
	for i := range n {
		out = append(out, gwapiv1.HTTPHeaderMatch{Type: &kind, Name: gwapiv1.HTTPHeaderName(fmt.Sprintf("x-%d", i)), Value: value(i)})
	}
	return out
}

// largeRoutes have as many rules and matches as a route may, and a large annotation.
func largeRoutes() (out []client.Object) {
	for n := range 10 {
		var rules []gwapiv1.HTTPRouteRule
		for i := range 16 {
			var rule gwapiv1.HTTPRouteRule
			for j := range 8 {
				rule.Matches = append(rule.Matches, gwapiv1.HTTPRouteMatch{
					Path:    &gwapiv1.HTTPPathMatch{Type: new(gwapiv1.PathMatchPathPrefix), Value: new(fmt.Sprintf("/%d/%d/%d/%s", n, i, j, strings.Repeat("a", 900)))},
					Headers: headerMatches(16, gwapiv1.HeaderMatchExact, func(k int) string { return fmt.Sprint(k, strings.Repeat("v", 200)) }),
				})
			}
			for j := range 16 {
				rule.BackendRefs = append(rule.BackendRefs, gwapiv1.HTTPBackendRef{BackendRef: gwapiv1.BackendRef{BackendObjectReference: serviceRef("", fmt.Sprintf("none-%d", j), 80)}})
			}
			rules = append(rules, rule)
		}
		r := hostileRoute(fmt.Sprintf("large-%d", n), rules...)
		r.Annotations = map[string]string{"example.com/large": strings.Repeat("x", 200<<10)}
		out = append(out, r)
	}
	return out
}

// manyRules are thousands of rules in hundreds of routes.
func manyRules() (out []client.Object) {
	for n := range 200 {
		var rules []gwapiv1.HTTPRouteRule
		for i := range 16 {
			rules = append(rules, gwapiv1.HTTPRouteRule{
				Matches:     []gwapiv1.HTTPRouteMatch{{Path: &gwapiv1.HTTPPathMatch{Value: new(fmt.Sprintf("/%d/%d", n, i))}}},
				BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: modelRef("", "none")}}},
			})
		}
		out = append(out, hostileRoute(fmt.Sprintf("rules-%d", n), rules...))
	}
	return out
}

func expressionRoute(name string, expr func(i int) string) *gwapiv1.HTTPRoute {
	var rule gwapiv1.HTTPRouteRule
	for j := range 64 {
		rule.Matches = append(rule.Matches, gwapiv1.HTTPRouteMatch{
			Headers: headerMatches(16, gwapiv1.HeaderMatchRegularExpression, func(k int) string { return expr(j*16 + k) }),
		})
	}
	return hostileRoute(name, rule)
}

// expressions look as if they took for ever to match.
func expressions() (out []client.Object) {
	for i, e := range []string{`(a+)+$`, `(a|a)*b`, `(.*a){20}`, `([a-zA-Z]+)*$`, `^(([a-z])+.)+[A-Z]([a-z])+$`, `(((((a*)*)*)*)*)*`, `[\s\S]*`, `\Q`, `(?:)*`} {
		out = append(out, expressionRoute(fmt.Sprintf("expr-%d", i), func(int) string { return e }))
	}
	return out
}

// largeExpressions are short texts of large programs, all different.
func largeExpressions() (out []client.Object) {
	for n := range 20 {
		out = append(out, expressionRoute(fmt.Sprintf("program-%d", n), func(i int) string {
			if i%2 == 0 {
				return fmt.Sprintf(`(a{1,100}b){1,10}%d-%d`, n, i)
			}
			return fmt.Sprintf(`%d-%d\pL{1000}\pL{1000}\pL{1000}\pL{1000}`, n, i)
		}))
	}
	return out
}

// controlCharacters are in values, one route for each place.
func controlCharacters() (out []client.Object) {
	const evil = "a\r\nX-Evil: 1\r\n\r\n\x01\x1b[2J\u2028\U0001F4A9"
	rule := func(filters ...gwapiv1.HTTPRouteFilter) gwapiv1.HTTPRouteRule {
		return gwapiv1.HTTPRouteRule{Filters: filters, BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: modelRef("", "none")}}}}
	}
	header := []gwapiv1.HTTPHeader{{Name: "X-A", Value: evil}}
	match := func(m gwapiv1.HTTPRouteMatch) gwapiv1.HTTPRouteRule {
		r := rule()
		r.Matches = []gwapiv1.HTTPRouteMatch{m}
		return r
	}
	for i, r := range []gwapiv1.HTTPRouteRule{
		rule(gwapiv1.HTTPRouteFilter{Type: gwapiv1.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: &gwapiv1.HTTPHeaderFilter{Set: header}}),
		rule(gwapiv1.HTTPRouteFilter{Type: gwapiv1.HTTPRouteFilterResponseHeaderModifier, ResponseHeaderModifier: &gwapiv1.HTTPHeaderFilter{Add: header}}),
		rule(gwapiv1.HTTPRouteFilter{Type: gwapiv1.HTTPRouteFilterURLRewrite, URLRewrite: &gwapiv1.HTTPURLRewriteFilter{
			Path: &gwapiv1.HTTPPathModifier{Type: gwapiv1.FullPathHTTPPathModifier, ReplaceFullPath: new("/" + evil)},
		}}),
		match(gwapiv1.HTTPRouteMatch{Headers: []gwapiv1.HTTPHeaderMatch{{Name: "X-A", Value: evil}}}),
		match(gwapiv1.HTTPRouteMatch{QueryParams: []gwapiv1.HTTPQueryParamMatch{{Name: "a", Value: evil}}}),
		match(gwapiv1.HTTPRouteMatch{Path: &gwapiv1.HTTPPathMatch{Type: new(gwapiv1.PathMatchRegularExpression), Value: new("/" + evil)}}),
	} {
		out = append(out, hostileRoute(fmt.Sprintf("control-%d", i), r))
	}
	return append(out, &v1alpha2.Model{
		ObjectMeta: metav1.ObjectMeta{Name: "control", Annotations: map[string]string{"flexinfer.ai/routing": evil, "flexinfer.ai/service-labels": evil, "flexinfer.ai/route-priority": evil}},
		Spec:       v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://" + evil},
	})
}

// invalidUTF8 are bytes that are no text: as they are in Services, which travel as
// protocol buffers, and in what becomes of them on their way through JSON.
func invalidUTF8() (out []client.Object) {
	const evil = "\xff\xfe\xc0\x80\xed\xa0\x80"
	for i, value := range []string{evil, "a" + evil + "z", strings.Repeat(evil, 100)} {
		name := fmt.Sprintf("utf8-%d", i)
		steering := map[string]string{"flexinfer.ai/routing": value, "flexinfer.ai/service-labels": "a," + value, "flexinfer.ai/route-priority": value}
		out = append(out,
			hostileRoute(name, gwapiv1.HTTPRouteRule{
				Matches:     []gwapiv1.HTTPRouteMatch{{Headers: []gwapiv1.HTTPHeaderMatch{{Name: "X-A", Value: value}}}},
				BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: modelRef("", name)}}},
			}),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: steering}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			&v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://" + value, ServiceName: name}},
			&v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Name: name + "-own", Annotations: steering}, Spec: v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://a/b"}})
	}
	return out
}

// extremeNumbers are the greatest and least that there are.
func extremeNumbers() (out []client.Object) {
	rule := func(edit func(*gwapiv1.HTTPRouteRule)) *gwapiv1.HTTPRoute {
		r := gwapiv1.HTTPRouteRule{BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: modelRef("", "none")}}}}
		edit(&r)
		return hostileRoute(fmt.Sprintf("extreme-%d", len(out)), r)
	}
	for _, n := range []int32{math.MinInt32, -1, 0, 1_000_000, math.MaxInt32} {
		out = append(out, rule(func(r *gwapiv1.HTTPRouteRule) {
			for range 15 {
				r.BackendRefs = append(r.BackendRefs, r.BackendRefs[0])
			}
			for i := range r.BackendRefs {
				r.BackendRefs[i].Weight = &n
			}
		}))
		out = append(out, rule(func(r *gwapiv1.HTTPRouteRule) { r.BackendRefs[0].BackendObjectReference = serviceRef("", "none", n) }))
		out = append(out, rule(func(r *gwapiv1.HTTPRouteRule) {
			r.Retry = &gwapiv1.HTTPRouteRetry{Attempts: new(int(n)), Codes: []gwapiv1.HTTPRouteRetryStatusCode{gwapiv1.HTTPRouteRetryStatusCode(n), 503}, Backoff: new(gwapiv1.Duration("99999h99999h99999h99999h"))}
		}))
		out = append(out, rule(func(r *gwapiv1.HTTPRouteRule) {
			r.Filters = []gwapiv1.HTTPRouteFilter{{Type: gwapiv1.HTTPRouteFilterRequestMirror, RequestMirror: &gwapiv1.HTTPRequestMirrorFilter{
				BackendRef: modelRef("", "none"), Fraction: &gwapiv1.Fraction{Numerator: n, Denominator: &n},
			}}}
		}))
	}
	for _, d := range []gwapiv1.Duration{"99999h99999h99999h99999h", "0ms", "99999ms", "1h99999s"} {
		out = append(out, rule(func(r *gwapiv1.HTTPRouteRule) {
			r.Timeouts = &gwapiv1.HTTPRouteTimeouts{Request: &d, BackendRequest: &d}
		}))
	}
	return out
}

// subdomain is a name of n characters that begins with prefix.
func subdomain(prefix string, n int) string {
	name := prefix + strings.Repeat("."+strings.Repeat("a", 62), 5)
	return name[:n-1] + "z"
}

// longNames have as many characters as names may.
func longNames() (out []client.Object) {
	for i := range 3 {
		name := subdomain(fmt.Sprint("n", i), 253)
		r := hostileRoute(name, gwapiv1.HTTPRouteRule{BackendRefs: []gwapiv1.HTTPBackendRef{
			{BackendRef: gwapiv1.BackendRef{BackendObjectReference: modelRef("", name)}},
		}})
		for j := range 16 {
			r.Spec.Hostnames = append(r.Spec.Hostnames, gwapiv1.Hostname(subdomain(fmt.Sprint("h", j), 253)))
		}
		out = append(out, r,
			&v1alpha2.Model{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{strings.Repeat("a", 63): strings.Repeat("b", 63)}},
				Spec:       v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://a/b"},
			},
			&gwapiv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: gwapiv1.GatewaySpec{
				GatewayClassName: gatewayClass, Listeners: []gwapiv1.Listener{{Name: gwapiv1.SectionName(name), Port: 80, Protocol: gwapiv1.HTTPProtocolType}},
				Infrastructure: &gwapiv1.GatewayInfrastructure{ParametersRef: &gwapiv1.LocalParametersReference{
					Group: gwapiv1.Group(v1alpha2.GroupName), Kind: "GatewayParameters", Name: "g",
				}},
			}})
	}
	return out
}

// aliases are claimed by hundreds of Models at once.
func aliases() (out []client.Object) {
	for i := range 300 {
		m := &v1alpha2.Model{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("alias-%d", i)}, Spec: v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://a/b"}}
		for j := range 16 {
			m.Spec.Aliases = append(m.Spec.Aliases, v1alpha2.ModelName(fmt.Sprintf("alias-%d", (i+j)%150)))
		}
		out = append(out, m)
	}
	return append(out, hostileRoute("alias", gwapiv1.HTTPRouteRule{BackendRefs: []gwapiv1.HTTPBackendRef{{BackendRef: gwapiv1.BackendRef{BackendObjectReference: modelRef("", "alias-1")}}}}))
}

// serviceLabels are one label of hundreds of Models, to which many references lead.
func serviceLabels() (out []client.Object) {
	out = append(out, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "labelled"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	for i := range 300 {
		out = append(out, &v1alpha2.Model{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("labelled-%d", i)},
			Spec:       v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://a/b", ServiceName: "labelled", ServiceLabels: []v1alpha2.ServiceLabel{"everyone", v1alpha2.ServiceLabel(fmt.Sprintf("labelled-%d", (i+1)%300))}},
		})
	}
	for i := range 20 {
		var rule gwapiv1.HTTPRouteRule
		for range 16 {
			rule.BackendRefs = append(rule.BackendRefs, gwapiv1.HTTPBackendRef{BackendRef: gwapiv1.BackendRef{BackendObjectReference: modelRef("", "everyone")}})
		}
		out = append(out, hostileRoute(fmt.Sprintf("labelled-%d", i), rule))
	}
	return out
}

// annotations are as large as they may be where they are read.
func annotations() (out []client.Object) {
	for i := range 20 {
		long := strings.Repeat("a,", 40<<10)
		out = append(out, &v1alpha2.Model{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("annotated-%d", i), Annotations: map[string]string{
				"flexinfer.ai/routing": long, "flexinfer.ai/service-labels": long, "flexinfer.ai/route-priority": long,
			}},
			Spec: v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://a/b"},
		})
	}
	return out
}

// scaleTargets are of kinds that there are not, that have no scale, or that are
// nobody's business.
func scaleTargets() (out []client.Object) {
	for i, ref := range []struct{ apiVersion, kind string }{
		{"v1", "Secret"}, {"v1", "Node"}, {"rbac.authorization.k8s.io/v1", "ClusterRole"}, {"apps/v1", "ReplicaSet"}, {"v1", "ReplicationController"},
		{"none.example.com/v1", "None"}, {"../../api/v1", "Secret"}, {"a/b/c", "X"}, {"apps/v1", "Deployment"},
	} {
		out = append(out, &v1alpha2.Model{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scaled-%d", i)},
			Spec: v1alpha2.ModelSpec{
				Backend: "vllm", Source: "HF://a/b", Serverless: &v1alpha2.Serverless{MinReplicas: 10, IdleTimeout: new(v1alpha2.Duration("5s"))},
				ScaleTargetRef: &v1alpha2.ScaleTargetReference{APIVersion: ref.apiVersion, Kind: ref.kind, Name: "flexinfer-controller"},
			},
		})
	}
	for i := range 50 {
		out = append(out, &v1alpha2.Model{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("unknown-%d", i)},
			Spec: v1alpha2.ModelSpec{Backend: "vllm", Source: "HF://a/b",
				ScaleTargetRef: &v1alpha2.ScaleTargetReference{APIVersion: fmt.Sprintf("g%d.example.com/v1", i), Kind: "Kind", Name: "x"}},
		})
	}
	return out
}

// keys are Secrets whose keys and certificates take long to read, or are none.
func keys() (out []client.Object) {
	block := func(kind string, size int) []byte {
		raw := make([]byte, size)
		_, _ = rand.Read(raw)
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
	}
	gateway := &gwapiv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Spec: gwapiv1.GatewaySpec{
		GatewayClassName: gatewayClass, Infrastructure: &gwapiv1.GatewayInfrastructure{ParametersRef: &gwapiv1.LocalParametersReference{Group: gwapiv1.Group(v1alpha2.GroupName), Kind: "GatewayParameters", Name: "g"}},
	}}
	for i, s := range []struct{ cert, key []byte }{
		{block("CERTIFICATE", 100), block("RSA PRIVATE KEY", 400<<10)},
		{block("CERTIFICATE", 400<<10), block("PRIVATE KEY", 100)},
		{[]byte("hunter2"), []byte("hunter2")},
		{[]byte{}, []byte{}},
		{block("CERTIFICATE", 0), block("EC PRIVATE KEY", 0)},
		{[]byte(strings.Repeat("-----BEGIN CERTIFICATE-----\n", 10_000)), []byte(strings.Repeat("-----BEGIN PRIVATE KEY-----\n", 10_000))},
	} {
		name := fmt.Sprintf("key-%d", i)
		out = append(out, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: s.cert, corev1.TLSPrivateKeyKey: s.key}})
		gateway.Spec.Listeners = append(gateway.Spec.Listeners, gwapiv1.Listener{
			Name: gwapiv1.SectionName(name), Port: gwapiv1.PortNumber(1000 + i), Protocol: gwapiv1.HTTPSProtocolType,
			TLS: &gwapiv1.ListenerTLSConfig{CertificateRefs: []gwapiv1.SecretObjectReference{{Name: gwapiv1.ObjectName(name)}}},
		})
	}
	return append(out, gateway)
}

// gateways have as many listeners as they may, and ports that are others'.
func gateways() (out []client.Object) {
	for i := range 3 {
		g := &gwapiv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("listeners-%d", i)}, Spec: gwapiv1.GatewaySpec{
			GatewayClassName: gatewayClass,
			Infrastructure: &gwapiv1.GatewayInfrastructure{
				Labels:        map[gwapiv1.LabelKey]gwapiv1.LabelValue{"app.kubernetes.io/name": "flexinfer-controller", "app.kubernetes.io/managed-by": "nobody"},
				ParametersRef: &gwapiv1.LocalParametersReference{Group: gwapiv1.Group(v1alpha2.GroupName), Kind: "GatewayParameters", Name: "none"},
			},
			Addresses: []gwapiv1.GatewaySpecAddress{{Type: new(gwapiv1.IPAddressType), Value: "10.96.0.1"}},
		}}
		for j := range 64 {
			g.Spec.Listeners = append(g.Spec.Listeners, gwapiv1.Listener{
				Name: gwapiv1.SectionName(fmt.Sprintf("l-%d", j)), Protocol: gwapiv1.HTTPProtocolType, Port: gwapiv1.PortNumber(8443 + j%4),
				Hostname: new(gwapiv1.Hostname(fmt.Sprintf("*.h%d.example.com", j))),
			})
		}
		out = append(out, g)
	}
	return out
}

// grants let everything in from everywhere, which is the tenant's to do.
func grants() (out []client.Object) {
	for i := range 50 {
		g := &gwapiv1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("grant-%d", i)}}
		for j := range 16 {
			g.Spec.From = append(g.Spec.From, gwapiv1.ReferenceGrantFrom{Group: gwapiv1.GroupName, Kind: "HTTPRoute", Namespace: gwapiv1.Namespace(fmt.Sprintf("ns-%d-%d", i, j))})
			g.Spec.To = append(g.Spec.To, gwapiv1.ReferenceGrantTo{Group: gwapiv1.Group(v1alpha2.GroupName), Kind: "Model", Name: new(gwapiv1.ObjectName(fmt.Sprint("m", j)))})
		}
		out = append(out, g)
	}
	return out
}

// tooLarge is more than the API server takes.
func tooLarge() []client.Object {
	r := hostileRoute("too-large")
	r.Annotations = map[string]string{"example.com/large": strings.Repeat("x", 1<<20)}
	big := hostileRoute("too-big", gwapiv1.HTTPRouteRule{Matches: []gwapiv1.HTTPRouteMatch{{Headers: []gwapiv1.HTTPHeaderMatch{{Name: "X-A", Value: strings.Repeat("x", 1<<20)}}}}})
	return []client.Object{r, big}
}
