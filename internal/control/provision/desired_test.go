package provision

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

var settings = Settings{
	Image:      "flexinfer.ai/gateway:dev",
	Controller: "flexinfer-controller.flexinfer-system.svc:8443",
	Audience:   "flexinfer-gateway",
	CA:         []byte("-----BEGIN CERTIFICATE-----\n"),
}

func gateway(name string, parameters string, ports ...int32) Gateway {
	g := Gateway{
		Object: &gwapiv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, UID: "11111111-2222-3333-4444-555555555555"},
			Spec:       gwapiv1.GatewaySpec{GatewayClassName: "flexinfer"},
		},
		Ports: ports,
	}
	if err := yaml.UnmarshalStrict([]byte(parameters), &g.Parameters); err != nil {
		panic(err)
	}
	return g
}

// TestDesired compares the objects of some Gateways with testdata/NAME.yaml.
func TestDesired(t *testing.T) {
	f := func(name string, g Gateway) {
		t.Helper()
		var got strings.Builder
		for _, o := range Desired(g, settings) {
			content, err := toApply(o)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := yaml.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString("---\n")
			got.Write(raw)
		}
		path := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	f("plain", gateway("inference", `{}`, 80, 443))

	infra := gateway("infrastructure", `
service: {annotations: {both: parameters}}
pod:
  labels: {tier: parameters}
  annotations: {pod-only: "1"}
`, 80)
	infra.Object.Spec.Infrastructure = &gwapiv1.GatewayInfrastructure{
		Labels:      map[gwapiv1.LabelKey]gwapiv1.LabelValue{"team": "a", "tier": "infrastructure", LabelGateway: "other", LabelManagedBy: "somebody"},
		Annotations: map[gwapiv1.AnnotationKey]gwapiv1.AnnotationValue{"both": "infrastructure", "note": "x"},
	}
	f("infrastructure", infra)

	f("everything", gateway("everything", everything, 19090, 19091))
}

// everything sets every field of the parameters.
const everything = `
autoscaling: {minReplicas: 3, maxReplicas: 9, targetCPUUtilizationPercentage: 60}
image: registry.example.com/gateway:1
imagePullPolicy: Always
resources:
  requests: {cpu: "1", memory: 1Gi}
  limits: {cpu: "2", memory: 3Gi}
service:
  type: NodePort
  externalTrafficPolicy: Local
  annotations: {lb.example.com/class: fast}
pod:
  labels: {team: a}
  annotations: {note: x}
  nodeSelector: {pool: edge}
  tolerations: [{key: edge, operator: Exists, effect: NoSchedule}]
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}
  priorityClassName: important
proxy:
  maxQueueSize: 10
  queueTimeout: 11s
  coldStartTimeout: 12s
  gracefulShutdownTimeout: 1m30s500ms
  shutdownDrainDelay: 15s
  routing:
    explicitKeyMaxLength: 16
    systemSegmentMaxLength: 17
    documentSegmentMaxLength: 18
    sessionHeaders: [X-One, X-Two]
    labelGroupMode: prefix-or-rr
    leastLoadedReservationTTL: 19s
    virtualNodes: 20
    keyCardinalityLimit: 21
  log: {level: debug, format: text, access: true}
  limits:
    headerBytes: 2048
    bodyBytes: 2049
    bufferedBytes: 2050
    connections: 22
    connectionAge: 23s
    endpointConnections: 24
    mirrors: 25
  timeouts:
    header: 26s
    body: 27s
    clientIdle: 28s
    writeStall: 29s
    handshake: 30s
    connect: 31s
    firstByte: 32s
    idle: 33s
    poolIdle: 34s
    tunnel: 35s
`

// A change of listeners changes the Service and nothing else.
func TestListenersAreOnTheServiceOnly(t *testing.T) {
	before := Desired(gateway("g", `{}`, 80), settings)
	after := Desired(gateway("g", `{}`, 80, 443, 8443), settings)
	for i := range before {
		kind := before[i].GetObjectKind().GroupVersionKind().Kind
		if same := cmp.Equal(before[i], after[i]); same == (kind == "Service") {
			t.Errorf("%s: equal %v", kind, same)
		}
	}
}

func TestResources(t *testing.T) {
	f := func(given, want string) {
		t.Helper()
		var spec v1alpha2.Resources
		var wanted corev1.ResourceRequirements
		for text, into := range map[string]any{given: &spec, want: &wanted} {
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(wanted, resources(&spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", given, diff)
		}
	}
	f(`{}`, `{requests: {cpu: 250m, memory: 256Mi}, limits: {memory: 1Gi}}`)
	f(`{requests: {memory: 4Gi}}`, `{requests: {cpu: 250m, memory: 4Gi}, limits: {memory: 4Gi}}`)
	f(`{limits: {cpu: 100m, memory: 128Mi}}`, `{requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: 100m, memory: 128Mi}}`)
	f(`{limits: {example.com/nic: "1"}}`, `{requests: {cpu: 250m, memory: 256Mi}, limits: {example.com/nic: "1", memory: 1Gi}}`)
}

func TestScaling(t *testing.T) {
	f := func(given string, least, most, utilization int32) {
		t.Helper()
		var a v1alpha2.Autoscaling
		if err := yaml.UnmarshalStrict([]byte(given), &a); err != nil {
			t.Fatal(err)
		}
		if l, m, u := scaling(&a); l != least || m != most || u != utilization {
			t.Errorf("%s: %d to %d at %d, want %d to %d at %d", given, l, m, u, least, most, utilization)
		}
	}
	f(`{}`, 2, 10, 70)
	f(`{minReplicas: 20}`, 20, 20, 70)
	f(`{maxReplicas: 1, targetCPUUtilizationPercentage: 50}`, 1, 1, 50)
	f(`{minReplicas: 3, maxReplicas: 4}`, 3, 4, 70)
}
