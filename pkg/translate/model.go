package translate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// modelState is one Model and what became of it.
type modelState struct {
	obj    *v1alpha2.Model
	name   types.NamespacedName
	labels []string // service labels that it claims

	backend routing.Backend
	list    routing.EndpointList

	steering   []finding // unusable annotations and labels: RoutingValid
	unserved   *finding  // why a data plane does not serve it: ResolvedRefs
	unresolved *finding  // why requests cannot reach it: ResolvedRefs
	names      []finding // aliases that belong to others: NamesValid
}

// resolveModels reads every Model, with its Service and replicas.
func (t *translation) resolveModels() {
	t.models = make(map[types.NamespacedName]*modelState, len(t.in.models))
	for _, obj := range t.in.models {
		m := t.resolveModel(obj)
		t.models[m.name] = m
	}
	t.assignAliases()
	for _, obj := range t.in.models {
		m := t.models[nameOf(obj)]
		t.warnAll("Model", m.name, m.steering)
		t.warnAll("Model", m.name, m.names)
		if m.unresolved != nil {
			t.warn("Model", m.name, m.unresolved.field, m.unresolved.message)
		}
	}
}

func (t *translation) resolveModel(obj *v1alpha2.Model) *modelState {
	m := &modelState{obj: obj, name: nameOf(obj)}
	key := "Model/" + m.name.String()
	m.list.Key = key
	m.backend = routing.Backend{
		Key:             key,
		Kind:            routing.BackendModel,
		Namespace:       m.name.Namespace,
		Name:            m.name.Name,
		Endpoints:       key,
		ServedModelName: obj.Spec.ServedModelName,
		DecodeRequests:  obj.Spec.RequestDecoding != v1alpha2.RequestDecodingPassthrough,
	}
	serviceName := m.serviceName()
	svc := t.in.services[serviceName]
	m.readAnnotations(serviceName, svc)
	m.readServerless()
	t.resolveModelService(m, serviceName, svc)
	switch t.foreignPhase(obj) {
	case "", v1alpha2.PhaseReady:
	case v1alpha2.PhaseFailed:
		m.backend.Phase = routing.PhaseFailed
	default:
		m.backend.Phase = routing.PhaseNotReady
	}
	return m
}

// serviceName is the Service whose EndpointSlices are the Model's replicas.
func (m *modelState) serviceName() types.NamespacedName {
	return types.NamespacedName{Namespace: m.name.Namespace, Name: m.obj.Service()}
}

// readAnnotations reads what steers routing from the Model and its Service.
func (m *modelState) readAnnotations(serviceName types.NamespacedName, svc *corev1.Service) {
	sources := []annotationSource{{annotations: m.obj.Annotations}}
	if svc != nil {
		sources = append(sources, annotationSource{where: fmt.Sprintf("Service %s ", serviceName), annotations: svc.Annotations})
	}
	note := func(f *finding) {
		if f != nil {
			m.steering = append(m.steering, *f)
		}
	}
	var f *finding
	m.backend.Strategy, f = readStrategy(sources...)
	note(f)
	m.backend.Priority, f = readPriority(sources...)
	note(f)
	labels, found := readServiceLabels(m.obj.Spec.ServiceLabels, sources...)
	m.labels = labels
	m.steering = append(m.steering, found...)
	m.steering = append(m.steering, readUnknown(sources...)...)
}

// readServerless reads the scale-from-zero policy.
func (m *modelState) readServerless() {
	spec := m.obj.Spec.Serverless
	if spec == nil || spec.Enabled != nil && !*spec.Enabled {
		return
	}
	policy := &routing.Serverless{}
	if spec.ColdStartTimeout != nil {
		d, ok := parseDuration(string(*spec.ColdStartTimeout))
		if !ok {
			m.steering = append(m.steering, invalidDuration("spec.serverless.coldStartTimeout", string(*spec.ColdStartTimeout)))
		}
		policy.ColdStartTimeout = d
	}
	for _, method := range spec.WakeMethods {
		policy.WakeMethods = append(policy.WakeMethods, string(method))
	}
	slices.Sort(policy.WakeMethods)
	policy.WakeMethods = slices.Compact(policy.WakeMethods)
	m.backend.Serverless = policy
}

// resolveModelService finds the replicas and the address to fall back to.
func (t *translation) resolveModelService(m *modelState, name types.NamespacedName, svc *corev1.Service) {
	if svc == nil {
		m.unresolved = &finding{
			reason:  v1alpha2.ReasonBackendNotFound,
			field:   "spec.serviceName",
			message: fmt.Sprintf("the Model's Service %s does not exist: create it, or name another one in spec.serviceName", name),
		}
		return
	}
	if problem := checkService(name, svc); problem != "" {
		m.unresolved = &finding{reason: v1alpha2.ReasonUnsupported, field: "spec.serviceName", message: problem}
		return
	}
	port, f := modelPort(m.obj, name, svc)
	if f != nil {
		m.unresolved = f
		return
	}
	m.list.Endpoints = t.endpoints(name, svc, port)
	m.backend.Service = serviceAddress(name, svc, port)
}
