package control

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseName is the Lease, in the controller's namespace, that its leader holds.
const LeaseName = "flexinfer-controller"

// How long a leader that vanished without a word remains one, when a leader that
// cannot renew its Lease gives up, and how often all of them try.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// leadership lets one replica of several lead.
type leadership struct {
	leases              coordination.LeasesGetter // nil: there is one replica, which leads
	namespace, identity string
	metrics             *Metrics
	logger              *slog.Logger

	leads atomic.Bool
}

// run calls lead whenever this replica leads, with a context that ends when it no
// longer does, until ctx ends. lead must return soon after its context has ended:
// only then is the Lease released.
func (l *leadership) run(ctx context.Context, lead func(context.Context)) error {
	if l.leases == nil {
		l.lead(ctx, lead)
		return nil
	}
	for ctx.Err() == nil {
		if err := l.campaign(ctx, lead); err != nil {
			return err
		}
	}
	return nil
}

func (l *leadership) lead(ctx context.Context, lead func(context.Context)) {
	l.leads.Store(true)
	l.metrics.setLeader(true)
	lead(ctx)
	l.leads.Store(false)
	l.metrics.setLeader(false)
}

// campaign waits for its turn and leads once. The Lease is held until the leader's
// work has ended.
func (l *leadership) campaign(ctx context.Context, lead func(context.Context)) error {
	started := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.namespace, Name: LeaseName},
			Client:     l.leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Name:            LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { started <- held },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("BUG: leader election: %w", err)
	}
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		elector.Run(electing)
	}()
	select {
	case held := <-started:
		leading, end := context.WithCancel(held)
		unhook := context.AfterFunc(ctx, end)
		l.logger.Info("this replica leads: it writes statuses, provisions and scales down")
		l.lead(leading, lead)
		l.logger.Info("this replica no longer leads")
		unhook()
		end()
	case <-ctx.Done():
	case <-stopped:
	}
	stop()
	<-stopped
	return nil
}
