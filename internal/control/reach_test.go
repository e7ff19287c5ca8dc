package control

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestReach(t *testing.T) {
	var failure atomic.Pointer[error]
	set := func(err error) { failure.Store(&err) }
	set(nil)
	said := make(chan bool, 10)
	var asked atomic.Int32
	r := newReach(func(ctx context.Context) error {
		asked.Add(1)
		if err := *failure.Load(); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		<-ctx.Done() // it does not answer
		return ctx.Err()
	}, func(lost bool) { said <- lost }, slog.New(slog.DiscardHandler))
	r.every, r.patience = time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()

	quiet := func(what string) {
		t.Helper()
		for target := asked.Load() + 5; asked.Load() < target; time.Sleep(time.Millisecond) {
			if t.Context().Err() != nil {
				t.Fatal("not asked")
			}
		}
		select {
		case lost := <-said:
			t.Errorf("%s: said lost=%v", what, lost)
		default:
		}
	}
	heard := func(what string, want bool) {
		t.Helper()
		select {
		case lost := <-said:
			if lost != want {
				t.Errorf("%s: said lost=%v", what, lost)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nothing said", what)
		}
	}
	quiet("all is well")
	set(apierrors.NewTooManyRequests("later", 1))
	quiet("the API server is busy")
	set(context.DeadlineExceeded)
	heard("no answer", true)
	set(errors.New("connection refused"))
	quiet("still none")
	set(nil)
	heard("an answer", false)
	quiet("all is well again")
	cancel()
	<-done
}
