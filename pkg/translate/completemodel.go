package translate

import (
	"fmt"
	"regexp"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

var (
	sourceURL    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://.+`)
	serviceLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
)

// completeModel mirrors the schema and the CEL rules of the Model's CRD.
func completeModel(m *v1alpha2.Model, v *validator) {
	spec := &m.Spec
	v.textLength("spec.backend", spec.Backend, 1, 63)
	v.textLength("spec.source", spec.Source, 1, 2048)
	if spec.Source != "" {
		v.pattern("spec.source", spec.Source, sourceURL, "write a URL with a scheme, such as ollama://llama3:8b or HF://Qwen/Qwen3-8B")
	}
	if spec.ServiceName != "" {
		v.label("spec.serviceName", spec.ServiceName)
	}
	if spec.Port != 0 {
		v.port("spec.port", spec.Port)
	}
	v.atMost("spec.serviceLabels", len(spec.ServiceLabels), maxServiceLabels)
	unique(v, "spec.serviceLabels", spec.ServiceLabels)
	for i, l := range spec.ServiceLabels {
		field := fmt.Sprintf("spec.serviceLabels[%d]", i)
		v.textLength(field, string(l), 1, 63)
		v.pattern(field, string(l), serviceLabel, "use lower-case letters, digits, '-' and '.'")
	}
	v.textLength("spec.servedModelName", spec.ServedModelName, 0, 256)
	v.atMost("spec.aliases", len(spec.Aliases), 32)
	unique(v, "spec.aliases", spec.Aliases)
	for i, a := range spec.Aliases {
		v.textLength(fmt.Sprintf("spec.aliases[%d]", i), string(a), 1, 256)
	}
	completeDecoding(spec, v)
	completeServerless(spec, v)
}

func completeDecoding(spec *v1alpha2.ModelSpec, v *validator) {
	if spec.RequestDecoding == "" {
		spec.RequestDecoding = v1alpha2.RequestDecodingDecode
	}
	oneOf(v, "spec.requestDecoding", spec.RequestDecoding, v1alpha2.RequestDecodingDecode, v1alpha2.RequestDecodingPassthrough)
	if spec.ServedModelName != "" && spec.RequestDecoding == v1alpha2.RequestDecodingPassthrough {
		v.refuse("spec.servedModelName", "rewrites the request body and needs it decoded: remove it or set requestDecoding to Decode")
	}
}

func completeServerless(spec *v1alpha2.ModelSpec, v *validator) {
	if ref := spec.ScaleTargetRef; ref != nil {
		v.name("spec.scaleTargetRef.name", ref.Name)
		if ref.APIVersion == "" {
			ref.APIVersion = "apps/v1"
		}
		if ref.Kind == "" {
			ref.Kind = "Deployment"
		}
	}
	s := spec.Serverless
	if s == nil {
		return
	}
	if s.Enabled == nil {
		s.Enabled = new(true)
	}
	if s.MinReplicas < 0 || s.MinReplicas > 1000 {
		v.refuse("spec.serverless.minReplicas", "%d is out of range: use 0 to 1000", s.MinReplicas)
	}
	checkModelDuration(v, "spec.serverless.coldStartTimeout", s.ColdStartTimeout)
	checkModelDuration(v, "spec.serverless.idleTimeout", s.IdleTimeout)
	unique(v, "spec.serverless.wakeMethods", s.WakeMethods)
	for i, m := range s.WakeMethods {
		oneOf(v, fmt.Sprintf("spec.serverless.wakeMethods[%d]", i), string(m), httpMethods...)
	}
}

func checkModelDuration(v *validator, field string, d *v1alpha2.Duration) {
	if d == nil {
		return
	}
	if _, ok := parseDuration(string(*d)); !ok {
		v.found = append(v.found, invalidDuration(field, string(*d)))
	}
}
