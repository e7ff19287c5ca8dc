package translate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

func completeGatewayParameters(p *v1alpha2.GatewayParameters, v *validator) {
	validateParameters(&p.Spec, v)
}

// validateParameters checks what the schema and the CEL rules of the CRD check,
// and what they cannot: they see one object, Translate also the merged one.
func validateParameters(spec *v1alpha2.GatewayParametersSpec, v *validator) {
	if spec.Replicas != nil && spec.Autoscaling != nil {
		v.refuse("spec.replicas", "does not go with autoscaling: remove one of them")
	}
	inRange(v, "spec.replicas", spec.Replicas, 0, 1000)
	if a := spec.Autoscaling; a != nil {
		validateAutoscaling(a, v)
	}
	if spec.Image != nil && !imageName.MatchString(*spec.Image) {
		v.refuse("spec.image", "%q is no image: write a name such as registry.example.com/gateway:1.0", *spec.Image)
	}
	choice(v, "spec.imagePullPolicy", spec.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	if r := spec.Resources; r != nil {
		validateResources(r, v)
	}
	if s := spec.Service; s != nil {
		validateServiceParameters(s, v)
	}
	if p := spec.Pod; p != nil {
		validatePod(p, v)
	}
	if p := spec.Proxy; p != nil {
		validateProxy(p, v)
	}
}

var imageName = regexp.MustCompile(`^\S+$`)

func validateAutoscaling(a *v1alpha2.Autoscaling, v *validator) {
	inRange(v, "spec.autoscaling.minReplicas", a.MinReplicas, 1, 1000)
	inRange(v, "spec.autoscaling.maxReplicas", a.MaxReplicas, 1, 1000)
	inRange(v, "spec.autoscaling.targetCPUUtilizationPercentage", a.TargetCPUUtilizationPercentage, 1, 1000)
	if a.MinReplicas != nil && a.MaxReplicas != nil && *a.MinReplicas > *a.MaxReplicas {
		v.refuse("spec.autoscaling.minReplicas", "%d is greater than maxReplicas, %d: lower it or raise maxReplicas", *a.MinReplicas, *a.MaxReplicas)
	}
}

func validateResources(r *v1alpha2.Resources, v *validator) {
	for _, list := range []struct {
		field string
		list  corev1.ResourceList
	}{{"spec.resources.requests", r.Requests}, {"spec.resources.limits", r.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(list.list)) {
			if q := list.list[name]; q.Sign() < 0 {
				v.refuse(fmt.Sprintf("%s[%s]", list.field, name), "%s is negative: write a positive amount", q.String())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			v.refuse(fmt.Sprintf("spec.resources.requests[%s]", name), "%s is more than the limit, %s: lower it or raise the limit", request.String(), limit.String())
		}
	}
}

func validateServiceParameters(s *v1alpha2.ServiceParameters, v *validator) {
	choice(v, "spec.service.type", s.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
	choice(v, "spec.service.externalTrafficPolicy", s.ExternalTrafficPolicy,
		corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	if s.ExternalTrafficPolicy != nil && deref(s.Type, "") == string(corev1.ServiceTypeClusterIP) {
		v.refuse("spec.service.externalTrafficPolicy", "does not go with type ClusterIP: remove it, or use type LoadBalancer or NodePort")
	}
	metadataKeys(v, "spec.service.annotations", s.Annotations, false)
}

func validatePod(p *v1alpha2.PodParameters, v *validator) {
	metadataKeys(v, "spec.pod.labels", p.Labels, true)
	metadataKeys(v, "spec.pod.annotations", p.Annotations, false)
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			v.refuse("spec.pod.nodeSelector["+key+"]", "%s", problems[0])
		}
	}
	v.atMost("spec.pod.tolerations", len(p.Tolerations), 32)
	v.atMost("spec.pod.topologySpreadConstraints", len(p.TopologySpreadConstraints), 16)
}

// reservedPrefixes belong to the controller; labels of the second kind too.
var reservedPrefixes = []string{"gateway.networking.k8s.io/", "flexinfer.ai/", "app.kubernetes.io/"}

func metadataKeys[T ~string](v *validator, field string, set map[string]T, labels bool) {
	v.atMost(field, len(set), 64)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		at := field + "[" + key + "]"
		reserved := reservedPrefixes
		if !labels {
			reserved = reserved[:2]
		}
		for _, prefix := range reserved {
			if strings.HasPrefix(key, prefix) {
				v.refuse(at, "is set by the controller: remove it")
			}
		}
		problems := validation.IsQualifiedName(key)
		if labels {
			problems = append(problems, validation.IsValidLabelValue(string(set[key]))...)
		}
		if len(problems) > 0 {
			v.refuse(at, "%s", problems[0])
		}
	}
}

func validateProxy(p *v1alpha2.ProxyParameters, v *validator) {
	if r := p.Routing; r != nil {
		validateRouting(r, v)
	}
	inRange(v, "spec.proxy.maxQueueSize", p.MaxQueueSize, 1, 1000000)
	duration(v, "spec.proxy.queueTimeout", p.QueueTimeout, shortest, longest)
	duration(v, "spec.proxy.coldStartTimeout", p.ColdStartTimeout, shortest, longest)
	duration(v, "spec.proxy.gracefulShutdownTimeout", p.GracefulShutdownTimeout, shortest, 24*time.Hour)
	duration(v, "spec.proxy.shutdownDrainDelay", p.ShutdownDrainDelay, 0, time.Hour)
	if l := p.Log; l != nil {
		choice(v, "spec.proxy.log.level", l.Level, "debug", "info", "warn", "error")
		choice(v, "spec.proxy.log.format", l.Format, "text", "json")
	}
	if l := p.Limits; l != nil {
		inRange(v, "spec.proxy.limits.headerBytes", l.HeaderBytes, 1024, 16777216)
		inRange(v, "spec.proxy.limits.bodyBytes", l.BodyBytes, 1024, 1<<62)
		inRange(v, "spec.proxy.limits.bufferedBytes", l.BufferedBytes, 1024, 1<<62)
		inRange(v, "spec.proxy.limits.connections", l.Connections, 1, 1<<31-1)
		duration(v, "spec.proxy.limits.connectionAge", l.ConnectionAge, 0, longest)
		inRange(v, "spec.proxy.limits.endpointConnections", l.EndpointConnections, 1, 1<<31-1)
		inRange(v, "spec.proxy.limits.mirrors", l.Mirrors, 1, 1<<31-1)
	}
	if t := p.Timeouts; t != nil {
		for _, d := range []struct {
			name  string
			value *v1alpha2.Duration
		}{
			{"header", t.Header}, {"body", t.Body}, {"clientIdle", t.ClientIdle}, {"writeStall", t.WriteStall},
			{"handshake", t.Handshake}, {"connect", t.Connect}, {"firstByte", t.FirstByte}, {"idle", t.Idle},
			{"poolIdle", t.PoolIdle}, {"tunnel", t.Tunnel},
		} {
			duration(v, "spec.proxy.timeouts."+d.name, d.value, shortest, longest)
		}
	}
}

func validateRouting(r *v1alpha2.RoutingParameters, v *validator) {
	const field = "spec.proxy.routing."
	inRange(v, field+"explicitKeyMaxLength", r.ExplicitKeyMaxLength, 1, 1<<31-1)
	inRange(v, field+"systemSegmentMaxLength", r.SystemSegmentMaxLength, 1, 1<<31-1)
	inRange(v, field+"documentSegmentMaxLength", r.DocumentSegmentMaxLength, 1, 1<<31-1)
	inRange(v, field+"virtualNodes", r.VirtualNodes, 1, 65536)
	inRange(v, field+"keyCardinalityLimit", r.KeyCardinalityLimit, 1, 1<<31-1)
	duration(v, field+"leastLoadedReservationTTL", r.LeastLoadedReservationTTL, 0, longest)
	if r.LabelGroupMode != nil {
		if _, err := routing.ParseMode(string(*r.LabelGroupMode)); err != nil {
			v.refuse(field+"labelGroupMode", "%s", err)
		}
	}
	if r.SessionHeaders == nil {
		return
	}
	v.atMost(field+"sessionHeaders", len(*r.SessionHeaders), 32)
	for i, h := range *r.SessionHeaders {
		v.pattern(fmt.Sprintf("%ssessionHeaders[%d]", field, i), string(h), headerToken, "write the name of an HTTP header")
	}
}

var headerToken = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+\\-.^_`|~]{1,256}$")

// The bounds of durations that must be positive.
const (
	shortest = time.Millisecond
	longest  = 1 << 62
)

func duration(v *validator, field string, d *v1alpha2.Duration, least, most time.Duration) {
	if d == nil {
		return
	}
	value, ok := parseDuration(string(*d))
	switch {
	case !ok:
		v.found = append(v.found, invalidDuration(field, string(*d)))
	case value < least:
		v.refuse(field, "must be longer than 0s: write a duration such as 10s")
	case value > most:
		v.refuse(field, "%s is too long: use at most %s", *d, most)
	}
}

func inRange[T int32 | int64](v *validator, field string, value *T, least, most T) {
	if value != nil && (*value < least || *value > most) {
		v.refuse(field, "%d is out of range: use %d to %d", *value, least, most)
	}
}

func choice[T ~string](v *validator, field string, value *T, allowed ...T) {
	if value != nil {
		oneOf(v, field, *value, allowed...)
	}
}
