package watch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// someKinds is an API server that knows a few kinds.
type someKinds struct{}

func (someKinds) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	if gv != "example.com/v1" {
		return nil, errors.New("not known")
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "engines", Kind: "Engine", Namespaced: true},
		{Name: "engines/scale", Kind: "Scale", Namespaced: true},
		{Name: "guarded", Kind: "Guarded", Namespaced: true},
		{Name: "guarded/scale", Kind: "Scale", Namespaced: true},
		{Name: "plain", Kind: "Plain", Namespaced: true},
		{Name: "nodes", Kind: "Wide"},
		{Name: "nodes/scale", Kind: "Scale"},
	}}, nil
}

// noInformers notes what is to be watched.
type noInformers struct {
	cache.Cache
	asked []string
}

func (n *noInformers) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	n.asked = append(n.asked, o.GetObjectKind().GroupVersionKind().Kind)
	return nil, errors.New("none here")
}

// Only what has a scale, has a namespace and may be watched is watched, however
// many kinds users name; they are looked at one after the other.
func TestWatchWorkload(t *testing.T) {
	var log strings.Builder
	informers := &noInformers{}
	s := New(Options{
		Cache: informers, Discovery: someKinds{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		MayWatch: func(_ context.Context, r schema.GroupResource) (bool, error) {
			return r == schema.GroupResource{Group: "example.com", Resource: "engines"}, nil
		},
		StatusChanged: func() {},
	})
	ask := func(apiVersion, kind string) { s.ask(t.Context(), schema.FromAPIVersionAndKind(apiVersion, kind)) }
	ask("example.com/v1", "Engine")
	ask("example.com/v1", "Guarded")
	ask("example.com/v1", "Plain")
	ask("example.com/v1", "Wide")
	ask("example.com/v1", "Scale")
	ask("example.com/v2", "Engine")
	ask("../../api/v1", "Secret")
	if len(informers.asked) != 1 || informers.asked[0] != "Engine" {
		t.Errorf("%v are watched, want Engine", informers.asked)
	}
	if !strings.Contains(log.String(), "Guarded") || strings.Contains(log.String(), "Plain") {
		t.Errorf("log: %s", log.String())
	}

	for _, kind := range []string{"Plain", "Wide", "Scale"} {
		s.watchWorkload(t.Context(), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind})
	}
	s.mu.Lock()
	more := s.more || len(s.unknown) == 3
	s.mu.Unlock()
	if !more {
		t.Error("the second kind is neither looked at nor waits")
	}
}
