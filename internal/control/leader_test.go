package control

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// replica is one of several that want to lead.
type replica struct {
	leadership
	stop  context.CancelFunc
	ended chan struct{}
}

func startReplica(ctx context.Context, leases coordination.LeasesGetter, name string, lead func(context.Context)) *replica {
	r := &replica{ended: make(chan struct{})}
	r.leases, r.namespace, r.identity, r.logger = leases, "system", name, slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		defer close(r.ended)
		_ = r.run(ctx, lead)
	}()
	return r
}

// One replica leads at a time. One that ends lets its work end first, and the
// other takes over at once; a single replica leads without a Lease.
func TestLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := fake.NewClientset().CoordinationV1()
		var leading, most atomic.Int32
		lead := func(ctx context.Context) {
			most.Store(max(most.Load(), leading.Add(1)))
			<-ctx.Done()
			time.Sleep(time.Second) // the last write
			leading.Add(-1)
		}
		a := startReplica(t.Context(), leases, "a", lead)
		time.Sleep(time.Second)
		b := startReplica(t.Context(), leases, "b", lead)
		time.Sleep(time.Minute)
		if !a.leads.Load() || b.leads.Load() {
			t.Fatalf("a leads: %v, b leads: %v; want a", a.leads.Load(), b.leads.Load())
		}
		a.stop()
		<-a.ended
		if leading.Load() != 0 {
			t.Error("the Lease was given up before the work had ended")
		}
		time.Sleep(3 * retryPeriod)
		if !b.leads.Load() {
			t.Error("nobody took over from a leader that has ended")
		}
		b.stop()
		<-b.ended
		if most.Load() != 1 {
			t.Errorf("%d led at a time", most.Load())
		}
		single := startReplica(t.Context(), nil, "c", lead)
		synctest.Wait()
		if !single.leads.Load() {
			t.Error("a single replica does not lead")
		}
		single.stop()
		<-single.ended
	})
}
