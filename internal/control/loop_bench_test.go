package control

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/publish"
	"flexinfer.ai/gateway/pkg/translate"
)

// bigWorld is 500 Models of 10 endpoints, each with 4 routes.
func bigWorld(b *testing.B) translate.Resources {
	var d translate.Decoder
	var text strings.Builder
	text.WriteString(classManifest + "\n---" + gatewayManifest)
	for i := range 500 {
		fmt.Fprintf(&text, "\n---%s", strings.ReplaceAll(strings.ReplaceAll(modelManifest, "name: m,", fmt.Sprintf("name: m%d,", i)), "10.0.0.9", fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)))
		fmt.Fprintf(&text, `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: m%d-1, namespace: ns, labels: {kubernetes.io/service-name: m%d}}
addressType: IPv4
ports: [{name: http, port: 8000}]
endpoints:`, i, i)
		for j := range 10 {
			fmt.Fprintf(&text, "\n- {addresses: [10.2.%d.%d], conditions: {ready: true}}", i/25, i%25*10+j+1)
		}
		for j := range 4 {
			fmt.Fprintf(&text, "\n---%s", strings.NewReplacer("name: r1", fmt.Sprintf("name: r%d-%d", i, j), "name: m}", fmt.Sprintf("name: m%d}", i),
				"value: /a", fmt.Sprintf("value: /a/%d/%d", i, j)).Replace(routeManifest))
		}
	}
	for _, problem := range d.Add("in.yaml", []byte(text.String())) {
		b.Fatal(problem)
	}
	return d.Resources
}

// One endpoint changes in a world of 2,000 routes, 500 Models and 5,000 endpoints:
// the whole round, and of it the time until it is published.
func BenchmarkRound(b *testing.B) {
	s := &scene{board: newBoard(), objects: bigWorld(b)}
	p, err := publish.New(publish.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	s.Loop = NewLoop(LoopOptions{
		Source: s, Publisher: p, Settings: func() provision.Settings { return provision.Settings{} },
		Statuses: statusSink{s}, Provision: provisionSink{s}, Events: eventSink{s}, Scale: scaleSink{s},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	s.round(b.Context(), time.Now(), time.Now())
	s.written()
	n := 0
	for b.Loop() {
		n++
		slice := s.objects.EndpointSlices[n%500].DeepCopy()
		slice.Endpoints[0].Addresses = []string{fmt.Sprintf("10.3.%d.%d", n/250%250, n%250+1)}
		s.objects.EndpointSlices[n%500] = slice
		s.round(b.Context(), time.Now(), time.Now())
	}
	if len(s.updates) > 0 {
		b.Errorf("%d statuses are asked for, though none has changed, %v first", len(s.updates), s.updates[0].Key())
	}
}

// written makes the objects hold the statuses that are asked for.
func (s *scene) written() {
	for _, u := range s.updates {
		switch want := u.Want.(type) {
		case *gwapiv1.GatewayClass:
			u.Held.(*gwapiv1.GatewayClass).Status = want.Status
		case *gwapiv1.Gateway:
			u.Held.(*gwapiv1.Gateway).Status = want.Status
		case *gwapiv1.HTTPRoute:
			u.Held.(*gwapiv1.HTTPRoute).Status = want.Status
		case *v1alpha2.Model:
			u.Held.(*v1alpha2.Model).Status = want.Status
		}
	}
}
