package cluster

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/testrig"
)

// mistake is one that users make: what kubectl describe of the object says about
// it, and that it stops saying so when its advice is followed. The objects are in
// testdata/mistakes/NAME.yaml, mended in testdata/mistakes/NAME-mended.yaml, with
// $NS and $OTHER for the two namespaces of the test.
type mistake struct {
	name     string
	describe string   // what is described, as KIND/NAME
	tells    []string // the first is told as an event too, and gone once the mistake is mended
}

//go:embed testdata/mistakes
var mistakeFiles embed.FS

var mistakes = []mistake{
	{"unknown-model", "httproute/unknown-model", []string{
		"$NS/chatt is neither a service label that a Model claims nor a Model: create the Model or correct the name", "BackendNotFound",
	}},
	{"missing-grant", "httproute/missing-grant", []string{
		"Model $OTHER/remote is in another namespace, and no ReferenceGrant there permits it: create one in namespace $OTHER from kind HTTPRoute in namespace $NS to kind Model", "RefNotPermitted",
	}},
	{"alias-conflict", "model/alias-two", []string{
		`"gpt-4o" already belongs to Model $NS/alias-one and is left out: remove it from one of them`, "AliasConflict", "spec.aliases[1]",
	}},
	{"alias-is-a-name", "model/alias-is-a-name", []string{`"chat" already belongs to Model $NS/chat`, "AliasConflict"}},
	{"missing-service", "model/missing-service", []string{
		"the Model's Service $NS/missing-service does not exist: create it, or name another one in spec.serviceName", "BackendNotFound",
	}},
	{"route-to-missing-service", "httproute/route-to-missing-service", []string{
		"Model $NS/routed-without-service cannot be reached: the Model's Service $NS/routed-without-service does not exist: create it",
	}},
	{"two-ports", "model/two-ports", []string{"Service $NS/two-ports has no port named http and not just one port: set spec.port to one of", "8001", "8002"}},
	{"wrong-port", "model/wrong-port", []string{"Service $NS/chat has no port 9999: set spec.port to one of 8000"}},
	{"external-name", "model/external-name", []string{"Service $NS/external-name is of type ExternalName, which leads to a name outside the cluster and is not served: use a Service without selector and an EndpointSlice"}},
	{"strategy", "model/strategy", []string{
		`"sticky" is no routing strategy, so the default is used: use session-affinity, prefix or least-loaded, or remove the annotation`,
		`"high" is no priority, so 0 is used: write an integer`, "InvalidValue",
		"metadata.annotations[flexinfer.ai/service-label]: no annotation of this name is read, so it has no effect: write flexinfer.ai/service-labels",
	}},
	{"service-label", "model/service-label", []string{`"TTS voices" cannot be a service label: use lower-case letters, digits, '-' and '.'`}},
	{"no-scale-target", "model/no-scale-target", []string{"there is no Deployment no-scale-target in the namespace: create it, or name the workload in spec.scaleTargetRef", "TargetNotFound"}},
	{"unknown-scale-kind", "model/unknown-scale-kind", []string{"the API server knows no kind Deploymnet of apps/v1: correct spec.scaleTargetRef"}},
	{"port-without-listener", "httproute/port-without-listener", []string{"Gateway $NS/inference has no listener with port 8080: its listeners are", "NoMatchingParent"}},
	{"no-such-section", "httproute/no-such-section", []string{"Gateway $NS/inference has no listener with name htttp: its listeners are", "NoMatchingParent"}},
	{"no-such-gateway", "httproute/no-such-gateway", []string{"Gateway $NS/inferense does not exist: create it or correct the reference"}},
	{"foreign-hostname", "httproute/foreign-hostname", []string{"none of the hostnames fits the listeners of Gateway $NS/inference that the reference selects", "NoMatchingListenerHostname"}},
	{"other-namespace", "httproute/other-namespace -n $OTHER", []string{
		"no listener of Gateway $NS/inference that the reference selects allows HTTPRoutes of namespace $OTHER: change allowedRoutes of the listener", "NotAllowedByListeners",
	}},
	{"backend-service", "httproute/backend-service", []string{"Service $NS/nowhere does not exist: create it or correct the name", "Service $NS/chat has no such port: use one of 8000", "spec.rules[1].backendRefs[0]"}},
	{"backend-kind", "httproute/backend-kind", []string{"a backend of kind apps/Deployment is not known: use inference.flexinfer.ai/Model or Service", "InvalidKind"}},
	{"regular-expression", "httproute/regular-expression", []string{"the regular expression cannot be used", "use RE2 syntax", "UnsupportedValue"}},
	{"unknown-filter", "httproute/unknown-filter", []string{"no filters of kind example.com/RateLimit slow are known, so requests of this rule get an error: remove the filter"}},
	{"no-such-class", "gateway/no-such-class", []string{"GatewayClass flexinferr does not exist: correct the name, or create it with spec.controllerName"}},
	{"class-parameters", "gatewayclass/$NS", []string{"GatewayParameters $NS/not-there does not exist: create it, or remove the field", "InvalidParameters"}},
	{"refused-class", "gateway/refused-class", []string{"GatewayClass $NS-too is not accepted: mend what its condition Accepted says"}},
	{"missing-parameters", "gateway/missing-parameters", []string{"GatewayParameters $NS/not-there does not exist: create it, or remove the field", "InvalidParameters"}},
	{"image-in-parameters", "gateway/image-in-parameters", []string{"spec.image: counts only in the parameters of a GatewayClass: remove it here", "InvalidParameters"}},
	{"missing-certificate", "gateway/missing-certificate", []string{"Secret $NS/not-there does not exist, or is not of type kubernetes.io/tls: create it with that type", "InvalidCertificateRef"}},
	{"protocol", "gateway/protocol", []string{"protocol TCP is not supported: use HTTP or HTTPS", "UnsupportedProtocol"}},
	{"protocol-conflict", "gateway/protocol-conflict", []string{"port 443 is HTTPS here and HTTP on listener plain: give one of them another port", "ProtocolConflict"}},
	{"address-type", "gateway/address-type", []string{"addresses of type Hostname are not supported: use IPAddress"}},
}

// Every mistake shows in kubectl describe, with what is wrong and how to mend it,
// and its remedy works.
func TestMistakes(t *testing.T) {
	w := newWorld(t)
	other := newWorld(t)
	certificate, key := testrig.SelfSigned(t, "models.example.com")
	named := strings.NewReplacer("$NS", w.namespace, "$OTHER", other.namespace, "$CERTIFICATE", base64.StdEncoding.EncodeToString(certificate), "$KEY", base64.StdEncoding.EncodeToString(key))
	w.model(engines{model: "chat", replicas: 1})
	other.model(engines{model: "remote", replicas: 1})
	g := newTarget(t, w.gateway("inference", 1))
	change(w, "inference", &gwapiv1.Gateway{}, func(g *gwapiv1.Gateway) {
		named, open := g.Spec.Listeners[0], g.Spec.Listeners[0]
		named.Name, named.Hostname = "named", new(gwapiv1.Hostname("models.example.com"))
		open.Name, open.Hostname = "open", new(gwapiv1.Hostname("open.example.com"))
		open.AllowedRoutes = &gwapiv1.AllowedRoutes{Namespaces: &gwapiv1.RouteNamespaces{From: new(gwapiv1.NamespacesFromAll)}}
		g.Spec.Listeners = append(g.Spec.Listeners, named, open)
	})
	apply := func(file string) {
		t.Helper()
		text, err := mistakeFiles.ReadFile("testdata/mistakes/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := kubectlWith(t, named.Replace(string(text)), "apply", "-f", "-"); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, out)
		}
	}
	t.Cleanup(func() {
		_, _ = kubectlBackground("delete", "gatewayclass", w.namespace, w.namespace+"-too", "--ignore-not-found")
	})
	for _, m := range mistakes {
		apply(m.name)
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			target := strings.Fields("-n " + w.namespace + " " + named.Replace(m.describe))
			eventually(t, func() string {
				return m.missing(kubectl(t, append([]string{"describe"}, target...)...), named)
			})
		})
	}
	g.refuses(t, "remote")
	for _, m := range mistakes {
		apply(m.name + "-mended")
	}
	for _, m := range mistakes {
		t.Run(m.name+" mended", func(t *testing.T) {
			target := strings.Fields("-n " + w.namespace + " " + named.Replace(m.describe))
			eventually(t, func() string {
				return amiss(t, kubectl(t, append([]string{"get", "-o", "json"}, target...)...))
			})
		})
	}
	g.reaches(t, "remote")
	kubectl(t, "-n", other.namespace, "delete", "referencegrant", "routes-to-models")
	g.refuses(t, "remote")
}

// refuses waits until a Gateway answers requests for a Model with 500, as it does
// for references that do not resolve.
func (g *target) refuses(t *testing.T, model string) {
	t.Helper()
	eventually(t, func() string {
		if a, err := g.ask(t.Context(), model, "", ""); err != nil || a.status != http.StatusInternalServerError {
			return fmt.Sprintf("%s is answered with %d %s %v, want 500", model, a.status, a.body, err)
		}
		return ""
	})
}

// missing says what a description lacks, "": nothing.
func (m mistake) missing(description string, named *strings.Replacer) string {
	status, events, _ := strings.Cut(description, "\nEvents:")
	if m.name == "no-such-gateway" || m.name == "no-such-class" {
		status = events // there is nobody whose status it could be
	}
	for i, text := range m.tells {
		text = named.Replace(text)
		if !strings.Contains(status, text) {
			return fmt.Sprintf("the status does not say %q:\n%s", text, description)
		}
		if i == 0 && !strings.Contains(events, text) {
			return fmt.Sprintf("no event says %q:\n%s", text, description)
		}
	}
	return ""
}

// amiss is what the conditions of an object still complain about.
func amiss(t *testing.T, object string) string {
	t.Helper()
	var o struct {
		Status struct {
			Conditions []metav1.Condition
			Parents    []struct{ Conditions []metav1.Condition }
			Listeners  []struct{ Conditions []metav1.Condition }
		}
	}
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		t.Fatal(err)
	}
	conditions := o.Status.Conditions
	for _, p := range o.Status.Parents {
		conditions = append(conditions, p.Conditions...)
	}
	for _, l := range o.Status.Listeners {
		conditions = append(conditions, l.Conditions...)
	}
	if len(conditions) == 0 {
		return "no conditions"
	}
	for _, c := range conditions {
		// A Gateway without pods is never programmed.
		wanted := metav1.ConditionTrue
		if c.Type == "Conflicted" {
			wanted = metav1.ConditionFalse
		}
		if c.Type != "Programmed" && c.Status != wanted {
			return fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
	return ""
}

// What can be known to be wrong from an object alone is refused when it is
// applied, with the same kind of answer.
func TestRefusedAtAdmission(t *testing.T) {
	w := newWorld(t)
	f := func(want, kind, spec string) {
		t.Helper()
		text := fmt.Sprintf("apiVersion: inference.flexinfer.ai/v1alpha2\nkind: %s\nmetadata: {name: wrong}\nspec: %s\n", kind, spec)
		out, err := kubectlWith(t, text, "-n", w.namespace, "apply", "-f", "-")
		if err == nil {
			t.Errorf("%s %s was taken", kind, spec)
			kubectl(t, "-n", w.namespace, "delete", kind, "wrong")
		}
		if !strings.Contains(out, want) {
			t.Errorf("%s %s: %s, want %q", kind, spec, out, want)
		}
	}
	f("source must be a URL with a scheme, such as ollama://llama3:8b", "Model", `{backend: vllm, source: qwen}`)
	f("servedModelName rewrites the request body and needs it decoded: remove servedModelName or set requestDecoding to Decode",
		"Model", `{backend: vllm, source: "HF://a", servedModelName: b, requestDecoding: Passthrough}`)
	f(`Unsupported value: "Decoded"`, "Model", `{backend: vllm, source: "HF://a", requestDecoding: Decoded}`)
	f("must have at most 10 items", "Model", `{backend: vllm, source: "HF://a", serviceLabels: [a, b, c, d, e, f, g, h, i, j, k]}`)
	f("spec.serverless.idleTimeout", "Model", `{backend: vllm, source: "HF://a", serverless: {idleTimeout: soon}}`)
	f(`Unsupported value: "SEND"`, "Model", `{backend: vllm, source: "HF://a", serverless: {wakeMethods: [SEND]}}`)
	f("spec.port", "Model", `{backend: vllm, source: "HF://a", port: 70000}`)
	f(`unknown field "spec.sourc"`, "Model", `{backend: vllm, source: "HF://a", sourc: b}`)
	f("replicas and autoscaling exclude each other: remove replicas to let the autoscaler choose", "GatewayParameters", `{replicas: 2, autoscaling: {maxReplicas: 3}}`)
	f("minReplicas is greater than maxReplicas: lower minReplicas or raise maxReplicas", "GatewayParameters", `{autoscaling: {minReplicas: 4, maxReplicas: 3}}`)
	f("externalTrafficPolicy does not go with type ClusterIP: remove it", "GatewayParameters", `{service: {type: ClusterIP, externalTrafficPolicy: Local}}`)
	f("queueTimeout must be longer than 0s: write a duration such as 60s", "GatewayParameters", `{proxy: {queueTimeout: 0s}}`)
	f(`Unsupported value: "fastest"`, "GatewayParameters", `{proxy: {routing: {labelGroupMode: fastest}}}`)
	f("labels of gateway.networking.k8s.io/, app.kubernetes.io/ and flexinfer.ai/ are set by the controller: remove them",
		"GatewayParameters", `{pod: {labels: {flexinfer.ai/x: z}}}`)
}
