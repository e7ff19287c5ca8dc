package provision

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// cluster is an API server in memory and a Reconciler that works on it. Its
// informers are the stores that sync fills.
type cluster struct {
	t      *testing.T
	client client.WithWatch
	*Reconciler
	clock   time.Time
	changed int

	mu      sync.Mutex
	applied []string // kinds, since the last turn
	deleted []string
	refuse  func(kind string) error
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, gwapiv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{t: t, clock: time.Unix(1_700_000_000, 0)}
	c.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().
		WithStatusSubresource(&corev1.Service{}, &appsv1.Deployment{}).
		WithIndex(&gwapiv1.Gateway{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{Apply: c.apply, Delete: c.delete}).Build()
	c.Reconciler = New(Options{
		Client: c.client, Changed: func() { c.changed++ }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	c.now = func() time.Time { return c.clock }
	c.owned.stores = map[schema.GroupVersionKind]toolscache.Store{}
	for gvk := range ownedKinds() {
		c.owned.stores[gvk] = toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	}
	c.sync()
	return c
}

func (c *cluster) apply(ctx context.Context, under client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	u := o.(interface{ GetKind() string })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse(u.GetKind()); err != nil {
			return err
		}
	}
	c.applied = append(c.applied, u.GetKind())
	// A real API server gives each object a uid.
	m := o.(metav1.Object)
	if err := under.Apply(ctx, o, opts...); err != nil {
		return err
	}
	if m.GetUID() == "" {
		held := metadataOf(o.(runtime.Object).GetObjectKind().GroupVersionKind())
		if err := under.Get(ctx, types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, held); err != nil {
			return err
		}
		m.SetUID(types.UID(u.GetKind() + m.GetName()))
		return under.Patch(ctx, held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"`+string(m.GetUID())+`"}}`)))
	}
	return nil
}

func (c *cluster) delete(ctx context.Context, under client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	c.deleted = append(c.deleted, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
	return under.Delete(ctx, o, opts...)
}

// sync is what informers do.
func (c *cluster) sync() {
	c.t.Helper()
	selector := CacheOptions("").DefaultLabelSelector
	lists := map[string]client.ObjectList{
		"Service": &corev1.ServiceList{}, "Deployment": &appsv1.DeploymentList{}, "ServiceAccount": &corev1.ServiceAccountList{},
		"ConfigMap": &corev1.ConfigMapList{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
		"HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscalerList{},
	}
	for gvk, store := range c.owned.stores {
		if err := c.client.List(c.t.Context(), lists[gvk.Kind], client.MatchingLabelsSelector{Selector: selector}); err != nil {
			c.t.Fatal(err)
		}
		var objects []any
		items, err := meta.ExtractList(lists[gvk.Kind])
		if err != nil {
			c.t.Fatal(err)
		}
		for _, item := range items {
			o := item.(client.Object)
			if !selector.Matches(labels.Set(o.GetLabels())) {
				continue
			}
			stripped, err := strip(o)
			if err != nil {
				c.t.Fatal(err)
			}
			objects = append(objects, stripped)
		}
		if err := store.Replace(objects, ""); err != nil {
			c.t.Fatal(err)
		}
	}
}

// turn is a pass and the news of what it did. It returns what was applied and
// deleted.
func (c *cluster) turn() (applied, deleted string) {
	c.t.Helper()
	c.applied, c.deleted = nil, nil
	c.pass(c.t.Context())
	c.sync()
	slices.Sort(c.deleted)
	return strings.Join(c.applied, " "), strings.Join(c.deleted, ", ")
}

// expect takes a turn and compares what it did.
func (c *cluster) expect(what, applied, deleted string) {
	c.t.Helper()
	gotApplied, gotDeleted := c.turn()
	if gotApplied != applied || gotDeleted != deleted {
		c.t.Errorf("%s: applied %q and deleted %q, want %q and %q", what, gotApplied, gotDeleted, applied, deleted)
	}
}

// submit submits Gateways that exist.
func (c *cluster) submit(gateways ...Gateway) {
	c.t.Helper()
	w := Wanted{Settings: settings, Gateways: gateways}
	for _, g := range gateways {
		held := &gwapiv1.Gateway{}
		if err := c.client.Get(c.t.Context(), g.key(), held); client.IgnoreNotFound(err) != nil {
			c.t.Fatal(err)
		}
		if held.UID != g.Object.UID {
			c.remove(g.Object)
			if err := c.client.Create(c.t.Context(), g.Object.DeepCopy()); err != nil {
				c.t.Fatal(err)
			}
		}
		w.All = append(w.All, g.Object)
	}
	c.Submit(w)
}

func (c *cluster) get(o client.Object, name string) {
	c.t.Helper()
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Namespace: "tenant", Name: name}, o); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) update(o client.Object) {
	c.t.Helper()
	if err := c.client.Update(c.t.Context(), o, client.FieldOwner("somebody")); err != nil {
		c.t.Fatal(err)
	}
	c.sync()
}

func (c *cluster) remove(o client.Object) {
	c.t.Helper()
	if err := c.client.Delete(c.t.Context(), o.DeepCopyObject().(client.Object)); client.IgnoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
	c.sync()
}

const allKinds = "ServiceAccount ConfigMap Service PodDisruptionBudget Deployment"

func TestReconcileWritesOnlyWhatDiffers(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `{}`, 80)
	c.expect("before the first Submit", "", "")
	c.submit(g)
	c.expect("first", allKinds, "")
	c.expect("second", "", "")

	again := *g.Object
	again.Status.Conditions = []metav1.Condition{{Type: "Accepted"}}
	g.Object = &again
	c.submit(g)
	c.expect("after a status of the Gateway", "", "")

	changed := settings
	changed.CA = []byte("another")
	c.Submit(Wanted{Settings: changed, Gateways: []Gateway{g}, All: []*gwapiv1.Gateway{g.Object}})
	c.expect("after another CA", "ConfigMap", "")

	g.Ports = []int32{80, 443}
	c.Submit(Wanted{Settings: changed, Gateways: []Gateway{g}, All: []*gwapiv1.Gateway{g.Object}})
	c.expect("after another listener", "Service", "")
	c.expect("after that", "", "")
}

func TestReconcileUndoesEdits(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `{}`, 80)
	c.submit(g)
	c.turn()

	service := &corev1.Service{}
	c.get(service, g.name())
	service.Spec.Type = corev1.ServiceTypeNodePort
	service.Annotations = map[string]string{"provider.example/id": "lb-1"}
	c.update(service)
	c.expect("after the type of the Service was edited", "Service", "")
	c.get(service, g.name())
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Annotations["provider.example/id"] != "lb-1" {
		t.Errorf("type %s, annotations %v: want our type and the provider's annotation", service.Spec.Type, service.Annotations)
	}
	c.expect("after that", "", "")

	account := &corev1.ServiceAccount{}
	c.get(account, g.name())
	account.AutomountServiceAccountToken = nil
	c.update(account)
	c.expect("after a field was removed", "ServiceAccount", "")

	c.get(account, g.name())
	account.OwnerReferences = nil
	c.update(account)
	c.expect("after the owner was removed", "ServiceAccount", "")
	if c.get(account, g.name()); !belongs(account, g.Object.UID) {
		t.Errorf("owners %v", account.OwnerReferences)
	}

	deployment := &appsv1.Deployment{}
	c.get(deployment, g.name())
	deployment.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	c.update(deployment)
	c.expect("after a restart was asked for", "", "")

	if err := c.client.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: g.name()}}); err != nil {
		t.Fatal(err)
	}
	c.sync()
	c.expect("after an object was deleted", "PodDisruptionBudget", "")
}

func TestReconcileLeavesForeignObjectsAlone(t *testing.T) {
	g, other := gateway("inference", `{}`, 80), gateway("other", `{}`, 80)
	other.Object.UID = "other"
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: g.name(), UID: "foreign"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.7", ClusterIPs: []string{"10.0.0.7"}},
	}
	c := newCluster(t, foreign)
	c.submit(g, other)
	c.turn()
	outcomes := c.Outcomes()
	err := outcomes[g.key()].Err
	if err == nil || !strings.Contains(err.Error(), "Service tenant/"+g.name()+" exists and was not made for this Gateway: delete it") {
		t.Errorf("error %v, want one that names the Service", err)
	}
	if err := outcomes[other.key()].Err; err != nil {
		t.Errorf("the other Gateway has error %v", err)
	}
	if got := outcomes[g.key()].Addresses; got != nil {
		t.Errorf("addresses %v of a foreign Service", got)
	}
	held := &corev1.Service{}
	c.get(held, g.name())
	if held.Labels != nil || held.Spec.Type != "" || held.UID != "foreign" {
		t.Errorf("the foreign Service became %+v", held)
	}
	if c.changed == 0 {
		t.Error("Changed was not called for the error")
	}

	if err := c.client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	c.expect("before the next attempt is due", "", "")
	c.clock = c.clock.Add(firstBackoff)
	c.expect("once it is due", "Service PodDisruptionBudget Deployment", "")
	if err := c.Outcomes()[g.key()].Err; err != nil {
		t.Errorf("error %v is left", err)
	}
}

func TestReconcileWaitsForThePredecessor(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `{}`, 80)
	c.submit(g)
	c.turn()
	g.Object = g.Object.DeepCopy()
	g.Object.UID = "another"
	c.submit(g)
	c.expect("objects of a deleted Gateway of the same name", "", "")
	if err := c.Outcomes()[g.key()].Err; err == nil || !strings.Contains(err.Error(), "of another time") {
		t.Errorf("error %v, want that the objects belong to another Gateway", err)
	}
}

func TestReconcileTriesAgain(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `{}`, 80)
	c.refuse = func(kind string) error {
		if kind != "Deployment" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, g.name(), context.DeadlineExceeded)
	}
	c.submit(g)
	c.expect("first", "ServiceAccount ConfigMap Service PodDisruptionBudget", "")
	if err := c.Outcomes()[g.key()].Err; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot apply Deployment tenant/") {
		t.Errorf("error %v", err)
	}
	for _, wait := range []int{1, 2, 4, 8, 16, 30, 30} {
		due := c.pass(t.Context())
		if got := due.Sub(c.clock); got != time.Duration(wait)*time.Second {
			t.Errorf("the next attempt is due in %s, want %d s", got, wait)
		}
		c.clock = due
	}
	c.refuse = nil
	c.changed = 0
	c.expect("when it is allowed", "Deployment", "")
	if err := c.Outcomes()[g.key()].Err; err != nil || c.changed == 0 {
		t.Errorf("error %v, Changed called %d times", err, c.changed)
	}

	// What others write meanwhile is no error to tell.
	c.refuse = func(string) error { return apierrors.NewConflict(schema.GroupResource{}, "", context.Canceled) }
	g.Ports = []int32{81}
	c.submit(g)
	c.turn()
	if err := c.Outcomes()[g.key()].Err; err != nil {
		t.Errorf("one conflict is told: %v", err)
	}

	// Nor is it that its namespace is going.
	terminating := apierrors.NewForbidden(schema.GroupResource{}, "", context.Canceled)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	c.refuse = func(string) error { return terminating }
	for range 4 {
		c.clock = c.clock.Add(longestBackoff)
		c.turn()
	}
	if err := c.Outcomes()[g.key()].Err; err != nil {
		t.Errorf("the end of the namespace is told: %v", err)
	}
}

// Of a Gateway that was deleted after the last Submit, the garbage collector removes
// everything, and nothing is made again.
func TestReconcileMakesNothingForADeletedGateway(t *testing.T) {
	f := func(what string, change func(c *cluster, g *gwapiv1.Gateway), applied string) {
		t.Helper()
		c := newCluster(t)
		g := gateway("inference", `{}`, 80)
		c.submit(g)
		c.turn()
		change(c, g.Object)
		c.remove(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: g.name()}})
		c.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: g.name()}})
		c.expect(what, applied, "")
		if next := c.pass(t.Context()); !next.IsZero() {
			t.Errorf("%s: another attempt is due at %s", what, next)
		}
		if err := c.Outcomes()[g.key()].Err; err != nil {
			t.Errorf("%s: error %v", what, err)
		}
	}
	f("it exists", func(*cluster, *gwapiv1.Gateway) {}, "Service Deployment")
	f("it is gone", func(c *cluster, g *gwapiv1.Gateway) { c.remove(g) }, "")
	f("it is gone, after an attempt that failed", func(c *cluster, g *gwapiv1.Gateway) {
		c.remove(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: Name(types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, string(g.Spec.GatewayClassName))}})
		c.refuse = func(string) error { return apierrors.NewConflict(schema.GroupResource{}, "", context.Canceled) }
		c.turn()
		c.refuse, c.clock = nil, c.clock.Add(firstBackoff)
		c.remove(g)
	}, "")
	f("one of its name came after it", func(c *cluster, g *gwapiv1.Gateway) {
		c.remove(g)
		after := g.DeepCopy()
		after.UID = "another"
		if err := c.client.Create(t.Context(), after); err != nil {
			t.Fatal(err)
		}
	}, "")
	f("it goes once its dependents are gone", func(c *cluster, g *gwapiv1.Gateway) {
		held := &gwapiv1.Gateway{}
		c.get(held, g.Name)
		held.Finalizers = []string{metav1.FinalizerDeleteDependents}
		c.update(held)
		c.remove(held)
		if c.get(held, g.Name); held.DeletionTimestamp == nil {
			t.Error("the Gateway is not being deleted")
		}
	}, "")
}

// TestReconcileLeavesReplicasToTheAutoscaler: at no time is their number any other
// than the one that somebody chose.
func TestReconcileLeavesReplicasToTheAutoscaler(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `replicas: 5`, 80)
	is := func(what string, want int32) {
		t.Helper()
		deployment := &appsv1.Deployment{}
		c.get(deployment, g.name())
		if got := or(deployment.Spec.Replicas, 1); got != want {
			t.Errorf("%s: %d replicas, want %d", what, got, want)
		}
	}
	c.submit(g)
	c.turn()
	is("fixed", 5)

	g.Parameters = v1alpha2.GatewayParametersSpec{Autoscaling: &v1alpha2.Autoscaling{MinReplicas: new(int32(3))}}
	c.submit(g)
	c.expect("with an autoscaler", "Deployment Deployment HorizontalPodAutoscaler", "")
	is("with an autoscaler", 5)
	c.expect("then", "", "")

	deployment := &appsv1.Deployment{}
	c.get(deployment, g.name())
	deployment.Spec.Replicas = new(int32(7))
	c.update(deployment)
	c.expect("scaled", "", "")
	is("scaled", 7)

	g.Ports = []int32{80, 19090} // the metrics port moves
	c.submit(g)
	c.expect("another Deployment", "Service Deployment", "")
	is("another Deployment", 7)

	g.Parameters = v1alpha2.GatewayParametersSpec{}
	c.submit(g)
	c.expect("without autoscaler", "Deployment", "HorizontalPodAutoscaler "+g.name())
	is("without autoscaler", defaultReplicas)

	g = gateway("new", `autoscaling: {minReplicas: 3}`, 80)
	g.Object.UID = "new"
	c.submit(g)
	c.turn()
	is("begun with an autoscaler", 3)
}

func TestReconcileDeletesWhatIsNotWanted(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `autoscaling: {maxReplicas: 5}`, 80)
	c.submit(g)
	c.expect("first", allKinds+" Deployment HorizontalPodAutoscaler", "")
	g.Parameters.Autoscaling = nil
	c.submit(g)
	c.expect("without autoscaling", "Deployment", "HorizontalPodAutoscaler "+g.name())

	// Held, or of a class that is gone: it stays.
	c.Submit(Wanted{Settings: settings, Held: []types.NamespacedName{g.key()}, All: []*gwapiv1.Gateway{g.Object}})
	c.expect("held", "", "")
	c.Submit(Wanted{Settings: settings, All: []*gwapiv1.Gateway{g.Object}})
	c.expect("class gone", "", "")
	c.Submit(Wanted{Settings: settings})
	c.expect("Gateway gone", "", "")

	before := g.name()
	g.Object = g.Object.DeepCopy()
	g.Object.Spec.GatewayClassName = "another"
	g.Object.Generation++
	c.refuse = func(kind string) error {
		if kind == "Deployment" {
			return apierrors.NewForbidden(schema.GroupResource{}, "", context.Canceled)
		}
		return nil
	}
	c.submit(g)
	c.expect("another class of ours, but no quota", "ServiceAccount ConfigMap Service PodDisruptionBudget", "")
	c.refuse, c.clock = nil, c.clock.Add(firstBackoff)
	c.expect("another class of ours", "Deployment", allOf(before))
	c.expect("after that", "", "")

	before = g.name()
	g.Object = g.Object.DeepCopy()
	g.Object.Spec.GatewayClassName = "foreign"
	c.Submit(Wanted{Settings: settings, All: []*gwapiv1.Gateway{g.Object}})
	c.expect("a class of somebody else", "", allOf(before))
}

// allOf are the objects of a name as deleted.
func allOf(name string) string {
	kinds := strings.Fields(allKinds)
	slices.Sort(kinds)
	return strings.Join(kinds, " "+name+", ") + " " + name
}

// A leader that does not know yet that it is none writes in our name.
func TestReconcileUndoesAnotherLeader(t *testing.T) {
	c := newCluster(t)
	g := gateway("inference", `{}`, 80)
	c.submit(g)
	c.turn()
	for began := time.Now().Unix(); time.Now().Unix() == began; time.Sleep(10 * time.Millisecond) {
		// managed fields tell whole seconds
	}
	stale := settings
	stale.CA = []byte("stale")
	for _, o := range Desired(g, stale) {
		if _, ok := o.(*corev1.ConfigMap); !ok {
			continue // this API server, unlike others, takes the time of every write
		}
		content := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: newDesired(o).content})
		if err := c.client.Apply(t.Context(), content, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	c.sync()
	c.mu.Lock()
	c.applied = nil
	c.mu.Unlock()
	c.expect("after another leader", "ConfigMap", "")
	ca := &corev1.ConfigMap{}
	if c.get(ca, g.name()); ca.Data[caFile] != string(settings.CA) {
		t.Errorf("the CA is %q", ca.Data[caFile])
	}
	c.expect("after that", "", "")
}
