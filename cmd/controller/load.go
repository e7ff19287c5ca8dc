package main

import (
	"strings"

	"flexinfer.ai/gateway/pkg/routing"
	"flexinfer.ai/gateway/pkg/translate"
)

// impliedClass is the GatewayClass that files need not declare.
const impliedClass = "flexinfer"

// loaded is what files mean.
type loaded struct {
	// config is the Configs of all Gateways, merged.
	config   *routing.Config
	findings []finding
	decoder  *translate.Decoder
	short    []finding // what could not be read just now; see readManifests
}

// load reads, decodes and translates files and directories. All Gateways share
// one address, that of the process.
func load(roots []string) loaded {
	files, findings, short := readManifests(roots)
	l := loaded{decoder: &translate.Decoder{}, findings: findings, short: short}
	for _, f := range files {
		for _, p := range l.decoder.Add(f.path, f.content) {
			l.findings = append(l.findings, finding{
				File: p.File, Line: p.Line, Object: object(p.Kind, p.Namespace, p.Name), Field: p.Field, Message: p.Message,
			})
		}
	}
	result := translate.Translate(l.decoder.Resources, translate.Options{
		ImpliedClass:  impliedClass,
		SharedAddress: true,
	})
	for _, w := range result.Warnings {
		l.findings = append(l.findings, l.finding(w))
	}
	configs := make([]*routing.Config, len(result.Configs))
	for i := range result.Configs {
		configs[i] = &result.Configs[i].Config
	}
	l.config = routing.Merge(configs...)
	if len(l.config.Listeners) == 0 {
		l.findings = append(l.findings, finding{Message: "nothing is served: no Gateway has a listener that can be; " +
			"write a Gateway with gatewayClassName " + impliedClass + ", or mend the one reported above"})
	}
	return l
}

// finding places a warning in its file.
func (l *loaded) finding(w translate.Warning) finding {
	f := finding{Object: object(w.Kind, w.Namespace, w.Name), Field: w.Field, Message: w.Message}
	if file, line, ok := l.decoder.Where(w); ok {
		f.File, f.Line = file, line
	}
	return f
}

// findingAt is a finding on the resource of a Config with that Key: "Kind/ns/name",
// "Service/ns/name:port" or a listener's "ns/gateway/listener".
func (l *loaded) findingAt(key, message string) finding {
	w := translate.Warning{Message: message}
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return finding{Object: key, Message: message}
	}
	switch parts[0] {
	case "HTTPRoute", "Model", "Secret", "Group":
		w.Kind, w.Namespace, w.Name = parts[0], parts[1], parts[2]
	case "Service":
		w.Kind, w.Namespace = parts[0], parts[1]
		w.Name, _, _ = strings.Cut(parts[2], ":")
	default:
		w.Kind, w.Namespace, w.Name = "Gateway", parts[0], parts[1]
		w.Message = "listener " + parts[2] + " " + message
	}
	return l.finding(w)
}

// object names an object as people write it; empty where nothing is known of it.
func object(kind, namespace, name string) string {
	if kind == "" {
		return ""
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}
