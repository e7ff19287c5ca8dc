package provision

import (
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// deployment runs the gateway pods. Old pods go only when new ones are ready.
func deployment(g Gateway, s Settings) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(g),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector(g.key(), g.class())},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(0)),
					MaxSurge:       new(intstr.FromString("25%")),
				},
			},
			RevisionHistoryLimit: new(int32(3)),
			Template:             podTemplate(g, s),
		},
	}
	if g.Parameters.Autoscaling == nil {
		d.Spec.Replicas = new(or(g.Parameters.Replicas, defaultReplicas))
	}
	return d
}

func podTemplate(g Gateway, s Settings) corev1.PodTemplateSpec {
	p := or(g.Parameters.Pod, v1alpha2.PodParameters{})
	labels, annotations := infrastructure(g)
	for key, value := range p.Labels {
		labels[key] = string(value)
	}
	for key, value := range p.Annotations {
		annotations[key] = string(value)
	}
	maps.Copy(labels, identity(g))
	spec := corev1.PodSpec{
		ServiceAccountName:            g.name(),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(gracePeriod(g.Parameters.Proxy)),
		SecurityContext:               podSecurity(),
		Containers:                    []corev1.Container{container(g, s)},
		Volumes:                       volumes(g, s),
		Tolerations:                   p.Tolerations,
		TopologySpreadConstraints:     spread(g, p.TopologySpreadConstraints),
		PriorityClassName:             or(p.PriorityClassName, ""),
	}
	for key, value := range p.NodeSelector {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[key] = string(value)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: *spec.DeepCopy()}
}

// gracePeriod covers the drain delay, the running exchanges and 5 s for the end
// itself. The gateway drains on SIGTERM by itself, so there is no preStop hook.
func gracePeriod(p *v1alpha2.ProxyParameters) int64 {
	if p == nil {
		p = &v1alpha2.ProxyParameters{}
	}
	usual := routing.DefaultSettings()
	return seconds(p.ShutdownDrainDelay, usual.ShutdownDrainDelay) +
		seconds(p.GracefulShutdownTimeout, usual.GracefulShutdownTimeout) + 5
}

// nonRoot is the user and group that the process runs as.
const nonRoot = 65532

// podSecurity is what the restricted Pod Security Standard asks for. The sysctl
// is one of those that it allows; by it pods bind listener ports below 1024.
func podSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		RunAsUser:      new(int64(nonRoot)),
		RunAsGroup:     new(int64(nonRoot)),
		FSGroup:        new(int64(nonRoot)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		Sysctls:        []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
	}
}

func container(g Gateway, s Settings) corev1.Container {
	need := resources(g.Parameters.Resources)
	return corev1.Container{
		Name:            "gateway",
		Image:           or(g.Parameters.Image, s.Image),
		ImagePullPolicy: or(g.Parameters.ImagePullPolicy, corev1.PullIfNotPresent),
		Args:            arguments(g, s, need.Limits),
		Env:             environment(),
		Resources:       need,
		// Ports of listeners are not here: they change without a restart.
		Ports: []corev1.ContainerPort{{
			Name: "metrics", ContainerPort: adminPort(g.Ports), Protocol: corev1.ProtocolTCP,
		}},
		ReadinessProbe: probe("/readyz", 2, 2),
		LivenessProbe:  probe("/healthz", 10, 6),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			RunAsNonRoot:             new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "trust", MountPath: trustDirectory, ReadOnly: true},
			{Name: "token", MountPath: tokenDirectory, ReadOnly: true},
			{Name: "snapshot", MountPath: snapshotDirectory},
		},
	}
}

// environment hands the memory limit to the Go runtime: the limit in Mi, read as
// millions of bytes, is 95 % of it, which leaves room for what the runtime does
// not count. The number of processors it finds by itself and follows.
func environment() []corev1.EnvVar {
	const limit = "MEMORY_LIMIT_MI"
	return []corev1.EnvVar{
		{Name: limit, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
			ContainerName: "gateway", Resource: "limits.memory", Divisor: resource.MustParse("1Mi"),
		}}},
		{Name: "GOMEMLIMIT", Value: "$(" + limit + ")000000"},
	}
}

func probe(path string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString("metrics"), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 2, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

// tokenLifetime is that of the token for the controller; the kubelet renews it
// in time.
const tokenLifetime = time.Hour

// volumes are the CA, the token and the place of the last good snapshot, which
// is in memory because the snapshot holds private keys.
func volumes(g Gateway, s Settings) []corev1.Volume {
	readable := new(int32(0o444))
	return []corev1.Volume{
		{Name: "trust", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: g.name()}, DefaultMode: readable,
		}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(0o440)),
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: s.Audience, ExpirationSeconds: new(int64(tokenLifetime / time.Second)), Path: tokenFile,
			}}},
		}}},
		{Name: "snapshot", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse(strconv.Itoa(snapshotMi) + "Mi")),
		}}},
	}
}

// snapshotMi bounds the snapshot on disk, in Mi; it counts as the container's
// memory.
const snapshotMi = 64

// spread keeps pods on different nodes and in different zones where that is
// possible. A constraint without selector is about the Gateway's pods.
func spread(g Gateway, given []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	own := &metav1.LabelSelector{MatchLabels: selector(g.key(), g.class())}
	if given == nil {
		soft := func(key string) corev1.TopologySpreadConstraint {
			return corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: own, MatchLabelKeys: []string{"pod-template-hash"},
			}
		}
		return []corev1.TopologySpreadConstraint{soft(corev1.LabelHostname), soft(corev1.LabelTopologyZone)}
	}
	out := make([]corev1.TopologySpreadConstraint, len(given))
	for i, c := range given {
		c.DeepCopyInto(&out[i])
		if out[i].LabelSelector == nil {
			out[i].LabelSelector = own
		}
	}
	return out
}
