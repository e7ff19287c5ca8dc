package translate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// usualPorts are the ports that the engines listen on unless told otherwise.
var usualPorts = map[string]int32{
	"ollama":    11434,
	"vllm":      8000,
	"sglang":    8000,
	"mlc-llm":   8000,
	"diffusers": 8000,
	"llamacpp":  8080,
}

// modelPort finds the port of a Model's Service: spec.port, else the port named
// http, else the only one, else the backend's usual one. A number means a port
// that the Service declares, or a target port of it; on a headless Service that
// declares none, the number itself.
func modelPort(m *v1alpha2.Model, name types.NamespacedName, svc *corev1.Service) (servicePort, *finding) {
	number := m.Spec.Port
	if number == 0 {
		if i := defaultPort(svc); i >= 0 {
			return usablePort(name, svc.Spec.Ports[i])
		}
		number = usualPorts[m.Spec.Backend]
	}
	if number == 0 {
		return servicePort{}, portNotFound(fmt.Sprintf("Service %s has no port named http and not just one port: set spec.port to one of %s", name, listPorts(svc)))
	}
	if len(svc.Spec.Ports) == 0 && isHeadless(svc) {
		return servicePort{number: number, direct: number}, nil
	}
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == number })
	if i < 0 {
		i = slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal == number
		})
	}
	if i < 0 {
		return servicePort{}, portNotFound(fmt.Sprintf("Service %s has no port %d: set spec.port to one of %s", name, number, listPorts(svc)))
	}
	return usablePort(name, svc.Spec.Ports[i])
}

// defaultPort is the index of the port named http, else of the only port.
func defaultPort(svc *corev1.Service) int {
	ports := svc.Spec.Ports
	i := slices.IndexFunc(ports, func(p corev1.ServicePort) bool { return p.Name == "http" })
	if i < 0 && len(ports) == 1 {
		return 0
	}
	return i
}

func usablePort(name types.NamespacedName, p corev1.ServicePort) (servicePort, *finding) {
	if problem := checkPort(name, p); problem != "" {
		return servicePort{}, &finding{reason: v1alpha2.ReasonUnsupported, field: "spec.port", message: problem}
	}
	return portOf(p), nil
}

func portNotFound(message string) *finding {
	return &finding{reason: v1alpha2.ReasonBackendNotFound, field: "spec.port", message: message}
}
