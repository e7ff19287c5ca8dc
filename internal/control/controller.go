package control

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"flexinfer.ai/gateway/internal/control/provision"
	"flexinfer.ai/gateway/internal/control/scale"
	"flexinfer.ai/gateway/internal/control/status"
	"flexinfer.ai/gateway/internal/control/trust"
	"flexinfer.ai/gateway/internal/control/watch"
	"flexinfer.ai/gateway/pkg/publish"
)

// Options are the settings of a Controller; all but IdleTimeout are required.
type Options struct {
	API *rest.Config
	// Namespace is the controller's own, Service its Service in there, by which
	// gateway pods reach the snapshots.
	Namespace, Service string
	// Instance names this replica: its pod.
	Instance       string
	ControllerName string
	// SnapshotAddress is where gateway pods connect, AdminAddress where metrics and
	// health are served ("host:port").
	SnapshotAddress, AdminAddress string
	GatewayImage                  string
	// LeaderElect: several replicas may run. Without it this one leads.
	LeaderElect bool
	// IdleTimeout is that of Models that set none; 0: they are never scaled down.
	IdleTimeout time.Duration
	Pprof       bool
	Logger      *slog.Logger
}

// Controller is one replica of the controller.
type Controller struct {
	o        Options
	registry *prometheus.Registry
	stage    atomic.Pointer[string] // why it is not ready; "": it is
	starting atomic.Bool            // the source is, which knows better

	cache, owned cache.Cache
	source       *watch.Source
	loop         *Loop
	keeper       *trust.Keeper
	publisher    *publish.Publisher
	provisioner  *provision.Reconciler
	scaler       *scale.Scaler
	statuses     *status.Writer
	recorder     record.EventRecorder
	events       *announcer
	recording    func(ctx context.Context) // of events, until ctx ends
	leadership   *leadership
	reach        *reach
}

// New makes a Controller; Run brings it to life.
func New(o Options) *Controller {
	libraries := importantOnly{o.Logger.Handler()}
	klog.SetSlogLogger(slog.New(libraries))
	ctrllog.SetLogger(logr.FromSlogHandler(libraries))
	c := &Controller{o: o, registry: prometheus.NewRegistry()}
	c.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.setStage("starting")
	return c
}

// serverRetry is how often an API server that does not answer is asked again.
const serverRetry = 2 * time.Second

// assemble makes the parts. It waits for the API server, and returns an error for
// what waiting does not mend.
func (c *Controller) assemble(ctx context.Context) error {
	scheme, err := watch.Scheme()
	if err != nil {
		return err
	}
	direct, err := client.New(c.o.API, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("cannot make a client of the API server: %w", err)
	}
	clients, err := kubernetes.NewForConfig(c.o.API)
	if err != nil {
		return fmt.Errorf("cannot make a client of the API server: %w", err)
	}
	for last := ""; ; {
		if err = c.makeCaches(scheme, clients); err == nil {
			break
		}
		if err.Error() != last {
			last = err.Error()
			c.o.Logger.Error("waiting for the API server", "error", last)
		}
		c.setStage("the API server does not answer: " + last)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(serverRetry):
		}
	}
	if err := c.makeTrust(direct); err != nil {
		return err
	}
	c.makeEvents(scheme, clients)
	if err := c.makeScaler(scheme); err != nil {
		return err
	}
	return c.makeLoop(direct, clients)
}

func (c *Controller) makeCaches(scheme *runtime.Scheme, clients *kubernetes.Clientset) (err error) {
	options := watch.CacheOptions()
	options.Scheme = scheme
	if c.cache, err = cache.New(c.o.API, options); err != nil {
		return err
	}
	options = provision.CacheOptions(c.o.ControllerName)
	options.Scheme = scheme
	if c.owned, err = cache.New(c.o.API, options); err != nil {
		return err
	}
	c.source = watch.New(watch.Options{
		Cache: c.cache, Discovery: clients.Discovery(), MayWatch: mayWatch(clients), Logger: c.o.Logger,
		Also:    []types.NamespacedName{{Namespace: c.o.Namespace, Name: c.o.Service}},
		Changed: func() { c.loop.Changed() }, StatusChanged: func() { c.loop.StatusChanged() },
	})
	return nil
}

// mayWatch asks the API server whether this controller may watch a resource.
func mayWatch(clients *kubernetes.Clientset) func(context.Context, schema.GroupResource) (bool, error) {
	return func(ctx context.Context, r schema.GroupResource) (bool, error) {
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: r.Group, Resource: r.Resource, Verb: verb},
			}}
			answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil || !answer.Status.Allowed {
				return false, err
			}
		}
		return true, nil
	}
}

func (c *Controller) makeTrust(direct client.Client) (err error) {
	c.keeper = trust.NewKeeper(trust.KeeperOptions{
		Client: direct, Namespace: c.o.Namespace, Generate: publish.GenerateAuthority, Logger: c.o.Logger,
	})
	reviewer := trust.NewReviewer(trust.ReviewerOptions{
		Client: direct, Logger: c.o.Logger,
		Gateway: func(a trust.Account) (string, bool) { return c.loop.GatewayOf(a) },
	})
	c.publisher, err = publish.New(publish.Options{
		Logger: c.o.Logger, Instance: c.o.Instance, ServerNames: []string{c.host()},
		Authenticate: reviewer.Authenticate,
		Changed:      func(gateway string) { c.loop.Heard(gateway) },
		Demand:       c.demand,
		Registerer:   c.registry,
	})
	return err
}

// host is the name by which gateway pods know the controller.
func (c *Controller) host() string { return c.o.Service + "." + c.o.Namespace + ".svc" }

func (c *Controller) snapshotPort() int {
	_, port, _ := net.SplitHostPort(c.o.SnapshotAddress)
	n, _ := strconv.Atoi(port)
	return n
}

func (c *Controller) makeEvents(scheme *runtime.Scheme, clients *kubernetes.Clientset) {
	broadcaster := record.NewBroadcaster()
	c.recorder = broadcaster.NewRecorder(scheme, corev1.EventSource{Component: status.FieldOwner})
	c.events = newAnnouncer(c.recorder)
	c.recording = func(ctx context.Context) {
		defer broadcaster.Shutdown()
		watching := broadcaster.StartRecordingToSink(sink{&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events("")}})
		defer watching.Stop()
		<-ctx.Done()
	}
}

// makeScaler gives the scaler a client of its own, lest waking a Model wait for
// statuses.
func (c *Controller) makeScaler(scheme *runtime.Scheme) error {
	direct, err := client.New(c.o.API, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("cannot make a client of the API server: %w", err)
	}
	metrics, err := scale.NewMetrics(c.registry)
	if err != nil {
		return err
	}
	c.scaler = scale.NewScaler(scale.Options{Client: direct, Models: c.cache, Recorder: c.recorder, Logger: c.o.Logger, Metrics: metrics})
	return nil
}

// demand hands what a gateway pod reports to the scaler.
func (c *Controller) demand(r publish.Report) {
	if r.Gone {
		c.scaler.Lost(r.Gateway, r.Pod)
		return
	}
	demand := make([]scale.Demand, len(r.Models))
	for i, m := range r.Models {
		demand[i] = scale.Demand(m)
	}
	c.scaler.Report(r.Gateway, r.Pod, demand)
}

func (c *Controller) makeLoop(direct client.Client, clients *kubernetes.Clientset) error {
	metrics, err := NewMetrics(c.registry)
	if err != nil {
		return err
	}
	written, err := status.NewMetrics(c.registry)
	if err != nil {
		return err
	}
	again := func() { c.loop.Changed() }
	c.statuses = status.NewWriter(status.Options{Client: direct.Status(), Again: again, Metrics: written, Logger: c.o.Logger})
	provisioned, err := provision.NewMetrics(c.registry)
	if err != nil {
		return err
	}
	c.provisioner = provision.New(provision.Options{Client: direct, Cache: c.owned, Changed: again, Metrics: provisioned, Logger: c.o.Logger})
	c.reach = newReach(func(ctx context.Context) error {
		return clients.Discovery().RESTClient().Get().AbsPath("/livez").MaxRetries(0).Do(ctx).Error()
	}, c.publisher.SetStale, c.o.Logger)
	service := types.NamespacedName{Namespace: c.o.Namespace, Name: c.o.Service}
	c.loop = NewLoop(LoopOptions{
		Source: c.source, Publisher: c.publisher, ControllerName: c.o.ControllerName, IdleTimeout: c.o.IdleTimeout,
		Settings: c.settings, Statuses: c.statuses, Provision: c.provisioner, Events: c.events, Scale: c.scaler,
		Peers: func(slices []*discoveryv1.EndpointSlice) {
			c.publisher.SetPeers(peers(slices, service, c.o.Instance, c.snapshotPort()))
		},
		Metrics: metrics, Logger: c.o.Logger,
	})
	c.leadership = &leadership{namespace: c.o.Namespace, identity: c.o.Instance, metrics: metrics, logger: c.o.Logger}
	if c.o.LeaderElect {
		c.leadership.leases = clients.CoordinationV1()
	}
	return nil
}

// settings are what every Gateway's objects share. They are asked for once the CA
// is known.
func (c *Controller) settings() provision.Settings {
	return provision.Settings{
		Image:      c.o.GatewayImage,
		Controller: net.JoinHostPort(c.host(), strconv.Itoa(c.snapshotPort())),
		Audience:   trust.Audience,

		ControllerName: c.o.ControllerName,
		CA:             c.keeper.CA().BundlePEM,
	}
}

func (c *Controller) setStage(why string) { c.stage.Store(&why) }

// notReady says why this replica does not serve snapshots, "" if it does.
func (c *Controller) notReady() string {
	if c.starting.Load() {
		if missing := c.source.Missing(); missing != "" {
			return missing
		}
	}
	return *c.stage.Load()
}

// Run works until ctx ends, or until something fails without which there is no
// going on.
func (c *Controller) Run(ctx context.Context) error {
	admin, err := net.Listen("tcp", c.o.AdminAddress)
	if err != nil {
		return fmt.Errorf("cannot serve metrics and health: %w", err)
	}
	snapshots, err := net.Listen("tcp", c.o.SnapshotAddress)
	if err != nil {
		_ = admin.Close()
		return fmt.Errorf("cannot serve snapshots: %w", err)
	}
	defer snapshots.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveAdmin(ctx, admin, adminHandler(c.registry, c.notReady, c.o.Pprof)) })
	group.Go(func() error { return ended(ctx, c.work(ctx, group, snapshots)) })
	err = group.Wait()
	c.o.Logger.Info("stopped")
	return err
}

// ended is err, unless ctx has ended.
func ended(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// work brings everything up in order: the CA, the caches, a first translation,
// and only then gateway pods and leadership.
func (c *Controller) work(ctx context.Context, group *errgroup.Group, snapshots net.Listener) error {
	if err := c.assemble(ctx); err != nil {
		return err
	}
	group.Go(func() error { return ended(ctx, c.cache.Start(ctx)) })
	group.Go(func() error { return ended(ctx, c.owned.Start(ctx)) })
	group.Go(func() error { c.recording(ctx); return nil })
	c.setStage("the certificate authority is not known yet: see the log")
	known := make(chan struct{})
	var once sync.Once
	group.Go(func() error {
		c.keeper.Run(ctx, func(ca *trust.CA) {
			if c.setAuthority(ca) {
				once.Do(func() { close(known) })
				c.loop.Changed()
			}
		})
		return nil
	})
	select {
	case <-known:
	case <-ctx.Done():
		return nil
	}
	c.setStage("the caches are not synced yet")
	c.starting.Store(true)
	err := c.source.Start(ctx)
	c.starting.Store(false)
	if err != nil {
		return err
	}
	if err := c.provisioner.Start(ctx); err != nil {
		return err
	}
	c.setStage("nothing has been translated yet: see the log")
	c.loop.Run(ctx, func() {
		group.Go(func() error { return ended(ctx, c.publisher.Serve(ctx, snapshots)) })
		group.Go(func() error { c.reach.run(ctx); return nil })
		group.Go(func() error { c.scaler.Run(ctx); return nil })
		group.Go(func() error { return c.leadership.run(ctx, c.lead) })
		c.setStage("")
		c.o.Logger.Info("serving snapshots", "address", c.o.SnapshotAddress, "as", c.host())
	})
	return nil
}

func (c *Controller) setAuthority(ca *trust.CA) bool {
	authority, err := publish.NewAuthority(ca.CertPEM, ca.KeyPEM, ca.BundlePEM)
	if err != nil {
		c.o.Logger.Error("cannot use the certificate authority", "error", err)
		return false
	}
	c.publisher.SetAuthority(authority)
	return true
}

// lead is the leader's work. It returns when ctx has ended and nothing is being
// written any more.
func (c *Controller) lead(ctx context.Context) {
	c.scaler.SetLeader(true)
	defer c.scaler.SetLeader(false)
	var work sync.WaitGroup
	for _, part := range []func(){
		func() { _ = c.statuses.Run(ctx) },
		func() { _ = c.provisioner.Run(ctx) },
		func() { c.events.run(ctx) },
	} {
		work.Go(part)
	}
	work.Wait()
}
