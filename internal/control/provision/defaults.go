package provision

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// What holds where no parameters say otherwise. A limit of cpu is not among it:
// throttling a proxy costs more than it saves.
const (
	defaultReplicas    = 2
	defaultMaxReplicas = 10
	defaultUtilization = 70
)

var (
	defaultRequests = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("250m"),
		corev1.ResourceMemory: resource.MustParse("256Mi"),
	}
	defaultMemoryLimit = resource.MustParse("1Gi")
)

// resources are the container's requests and limits. A default never
// contradicts what is set: a default request is lowered to a limit, the default
// limit is raised to a request.
func resources(spec *v1alpha2.Resources) corev1.ResourceRequirements {
	if spec == nil {
		spec = &v1alpha2.Resources{}
	}
	out := corev1.ResourceRequirements{Requests: maps.Clone(defaultRequests), Limits: corev1.ResourceList{}}
	maps.Copy(out.Limits, spec.Limits)
	for name, request := range out.Requests {
		if limit, ok := out.Limits[name]; ok && request.Cmp(limit) > 0 {
			out.Requests[name] = limit
		}
	}
	maps.Copy(out.Requests, spec.Requests)
	if _, ok := out.Limits[corev1.ResourceMemory]; !ok {
		out.Limits[corev1.ResourceMemory] = larger(defaultMemoryLimit, out.Requests[corev1.ResourceMemory])
	}
	return out
}

func larger(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// scaling returns the bounds and the target of the autoscaler.
func scaling(a *v1alpha2.Autoscaling) (least, most, utilization int32) {
	least, most, utilization = defaultReplicas, defaultMaxReplicas, defaultUtilization
	switch {
	case a.MinReplicas != nil && a.MaxReplicas != nil:
		least, most = *a.MinReplicas, *a.MaxReplicas
	case a.MinReplicas != nil:
		least, most = *a.MinReplicas, max(most, *a.MinReplicas)
	case a.MaxReplicas != nil:
		least, most = min(least, *a.MaxReplicas), *a.MaxReplicas
	}
	if a.TargetCPUUtilizationPercentage != nil {
		utilization = *a.TargetCPUUtilizationPercentage
	}
	return least, most, utilization
}

// or is the value that a pointer has, or another.
func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// seconds rounds a duration of parameters up to seconds; otherwise is what holds
// where it is not set. Durations were checked when the parameters were.
func seconds(d *v1alpha2.Duration, otherwise time.Duration) int64 {
	value := otherwise
	if d != nil {
		if parsed, err := time.ParseDuration(string(*d)); err == nil {
			value = parsed
		}
	}
	return int64((value + time.Second - 1) / time.Second)
}
