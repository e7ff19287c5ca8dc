package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/translate"
)

// kindRetry is how often an API server is asked anew for kinds that it lacks.
const kindRetry = 5 * time.Second

// Discovery is what is asked of an API server's discovery.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Options are the parts of a Source.
type Options struct {
	Cache     cache.Cache // made with CacheOptions
	Discovery Discovery
	// MayWatch says whether the controller may watch a resource in all namespaces.
	MayWatch func(ctx context.Context, r schema.GroupResource) (bool, error)
	// Also are Services whose EndpointSlices matter though nothing refers to them.
	Also []types.NamespacedName
	// Changed is called after a change that calls for a translation. It must not
	// block.
	Changed func()
	// StatusChanged is called after one that touched the status of a class, a
	// Gateway or a route alone: no pod serves otherwise for it. It must not block.
	StatusChanged func()
	Logger        *slog.Logger
}

// Source hands out the objects of a cluster.
type Source struct {
	opts     Options
	interest atomic.Pointer[interest]
	missing  atomic.Pointer[string]

	mu      sync.Mutex
	stores  map[schema.GroupVersionKind]toolscache.Store
	unknown map[schema.GroupVersionKind]time.Time // workload kinds, last asked for
	asking  bool                                  // for a workload kind
	more    bool                                  // others wait to be asked for
}

// New makes a Source; Start brings it to life.
func New(o Options) *Source {
	return &Source{opts: o, stores: map[schema.GroupVersionKind]toolscache.Store{}, unknown: map[schema.GroupVersionKind]time.Time{}}
}

// Start begins to watch and returns when every cache is synced, or with ctx's
// error. While the API server does not know a kind it says so and waits.
func (s *Source) Start(ctx context.Context) error {
	if err := s.awaitKinds(ctx); err != nil {
		return err
	}
	for _, k := range kinds() {
		// Those that are started first sync while the others are started.
		if err := s.register(ctx, k.gvk, k.new(), cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("cannot watch %s: %w", k.gvk.Kind, err)
		}
	}
	if !s.opts.Cache.WaitForCacheSync(ctx) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return errors.New("cannot read the objects from the API server: see the messages above")
	}
	return nil
}

// Missing says which kinds the API server lacks and how to install them; empty
// where it has all that are needed.
func (s *Source) Missing() string {
	if m := s.missing.Load(); m != nil {
		return *m
	}
	return ""
}

func (s *Source) awaitKinds(ctx context.Context) error {
	last := ""
	for {
		missing := s.findMissing()
		s.missing.Store(&missing)
		if missing == "" {
			return nil
		}
		if missing != last {
			s.opts.Logger.Error("waiting: " + missing)
			last = missing
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(kindRetry):
		}
	}
}

// findMissing names the kinds that cannot be watched, by what installs them.
func (s *Source) findMissing() string {
	known := map[schema.GroupVersion][]string{}
	byInstall := map[string][]string{}
	for _, k := range kinds() {
		gv := k.gvk.GroupVersion()
		if _, asked := known[gv]; !asked {
			names, err := s.kindsOf(gv)
			if err != nil {
				return fmt.Sprintf("the API server does not answer: %v", err)
			}
			known[gv] = names
		}
		if !slices.Contains(known[gv], k.gvk.Kind) {
			byInstall[k.install] = append(byInstall[k.install], k.gvk.Kind+"."+gv.String())
		}
	}
	var parts []string
	for _, install := range []string{installGatewayAPI, installOwn, ""} {
		if names := byInstall[install]; len(names) > 0 {
			parts = append(parts, strings.TrimSuffix(fmt.Sprintf("the API server does not know %s: %s", strings.Join(names, ", "), install), ": "))
		}
	}
	return strings.Join(parts, "; ")
}

func (s *Source) kindsOf(gv schema.GroupVersion) ([]string, error) {
	list, err := s.opts.Discovery.ServerResourcesForGroupVersion(gv.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			names = append(names, r.Kind)
		}
	}
	return names, nil
}

// scaled names the resource of a kind if the API server knows it with a scale.
func (s *Source) scaled(gvk schema.GroupVersionKind) (resource string, ok bool) {
	list, err := s.opts.Discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return "", false
	}
	scales := map[string]bool{}
	for _, r := range list.APIResources {
		if of, ok := strings.CutSuffix(r.Name, "/scale"); ok {
			scales[of] = true
		}
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && r.Namespaced && scales[r.Name] {
			return r.Name, true
		}
	}
	return "", false
}

// register watches a kind.
func (s *Source) register(ctx context.Context, gvk schema.GroupVersionKind, object client.Object, o ...cache.InformerGetOption) error {
	informer, err := s.opts.Cache.GetInformer(ctx, object, o...)
	if err != nil {
		return err
	}
	stored, ok := informer.(interface{ GetStore() toolscache.Store })
	if !ok {
		return fmt.Errorf("BUG: informer %T has no store", informer)
	}
	if _, err := informer.AddEventHandler(handler{s}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores[gvk] = stored.GetStore()
	return nil
}

func (s *Source) store(gvk schema.GroupVersionKind) toolscache.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stores[gvk]
}

// Resources is the state of the cluster as far as the caches have it. It must
// not be called before Start has returned. The objects belong to the cache.
func (s *Source) Resources(ctx context.Context) translate.Resources {
	gateway := schema.GroupVersion(gwapiv1.GroupVersion).WithKind
	r := translate.Resources{
		GatewayClasses:    list[*gwapiv1.GatewayClass](s.store(gateway("GatewayClass"))),
		Gateways:          list[*gwapiv1.Gateway](s.store(gateway("Gateway"))),
		HTTPRoutes:        list[*gwapiv1.HTTPRoute](s.store(gateway("HTTPRoute"))),
		ReferenceGrants:   list[*gwapiv1.ReferenceGrant](s.store(gateway("ReferenceGrant"))),
		Models:            list[*v1alpha2.Model](s.store(v1alpha2.GroupVersion.WithKind(v1alpha2.KindModel))),
		GatewayParameters: list[*v1alpha2.GatewayParameters](s.store(v1alpha2.GroupVersion.WithKind(v1alpha2.KindGatewayParameters))),
		Namespaces:        s.namespaces(),
	}
	// A store has a change before its handler hears of it. So what is settled as
	// of interest here and read below is either read as changed or announced.
	in := newInterest(r.Gateways, r.HTTPRoutes, r.Models)
	for _, name := range s.opts.Also {
		in.services[name] = true
	}
	s.interest.Store(in)
	r.Services = list[*corev1.Service](s.store(corev1.SchemeGroupVersion.WithKind("Service")))
	r.EndpointSlices = list[*discoveryv1.EndpointSlice](s.store(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")))
	r.Secrets = list[*corev1.Secret](s.store(corev1.SchemeGroupVersion.WithKind("Secret")))
	r.ScaleTargets = s.scaleTargets(ctx, in)
	return r
}

func (s *Source) namespaces() []*corev1.Namespace {
	metadata := list[*metav1.PartialObjectMetadata](s.store(corev1.SchemeGroupVersion.WithKind("Namespace")))
	out := make([]*corev1.Namespace, len(metadata))
	for i, m := range metadata {
		out[i] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: m.Labels}}
	}
	return out
}

// list is everything in a store.
func list[T any](store toolscache.Store) []T {
	all := store.List()
	out := make([]T, 0, len(all))
	for _, o := range all {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
