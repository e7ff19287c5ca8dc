package routing_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

type noHeaders struct{}

func (noHeaders) Value(string) []byte { return nil }

// oneModel is a Config with one Model of n replicas behind one route.
func oneModel(generation uint64, n int) *routing.Config {
	list := routing.EndpointList{Key: "Model/ns/m"}
	for i := range n {
		list.Endpoints = append(list.Endpoints, routing.Endpoint{
			Address: fmt.Sprintf("10.0.0.%d:8000", 100+i), State: routing.EndpointReady,
		})
	}
	return &routing.Config{
		Generation: generation,
		Listeners:  []routing.Listener{{Key: "ns/gw/http", Gateway: "ns/gw", Port: 80, Protocol: routing.ProtocolHTTP}},
		Routes: []routing.Route{{
			Key: "HTTPRoute/ns/r", Listeners: []routing.Attachment{{Listener: "ns/gw/http"}},
			Rules: []routing.Rule{{Backends: []routing.BackendRef{{Backend: "Model/ns/m", Weight: 1}}}},
		}},
		Backends: []routing.Backend{{
			Key: "Model/ns/m", Kind: routing.BackendModel, Namespace: "ns", Name: "m",
			Strategy: routing.StrategyLeastLoaded, Endpoints: "Model/ns/m", Service: "10.96.0.1:80",
		}},
		EndpointLists: []routing.EndpointList{list},
	}
}

// One pointer to the Snapshot, loaded once a request: the way a data plane uses
// this package.
func ExampleCompile() {
	options := routing.DefaultOptions()
	registry := routing.NewRegistry(routing.Hooks{})
	var live atomic.Pointer[routing.Snapshot]

	publish := func(cfg *routing.Config) error {
		next, err := routing.Compile(cfg, &options, live.Load(), registry)
		if err != nil {
			return err // the old Snapshot goes on serving
		}
		live.Store(next)
		registry.Sweep(next)
		return nil
	}
	serve := func() string {
		snapshot := live.Load()
		listener := snapshot.Socket(80).Listener([]byte("example.com"))
		matched := listener.Match(&routing.Request{Method: []byte("GET"), Path: []byte("/")})
		var lease routing.Lease
		var decision routing.Decision
		matched.Rule.PickBackend(0).Backend.Decide(&routing.RouteInput{
			Headers: noHeaders{}, Facts: &routing.Facts{}, Options: &options, Now: 1,
		}, &lease, &decision)
		lease.Start()
		defer lease.Release(1, routing.ResultOK)
		return decision.Target.Address
	}

	fmt.Println(publish(oneModel(1, 2)))
	fmt.Println(serve())
	fmt.Println(serve())
	fmt.Println(publish(oneModel(2, 0)))
	fmt.Println(serve())
	// Output:
	// <nil>
	// 10.0.0.100:8000
	// 10.0.0.101:8000
	// <nil>
	// 10.96.0.1:80
}

// Requests run while Snapshots are swapped under them: none is lost, and every
// count is zero in the end.
func TestSwapUnderLoad(t *testing.T) {
	options := routing.DefaultOptions()
	var targets sync.Map
	registry := routing.NewRegistry(routing.Hooks{
		Target: func(target *routing.Target) any { targets.Store(target, true); return nil },
	})
	var live atomic.Pointer[routing.Snapshot]
	publish := func(generation uint64, n int) {
		next, err := routing.Compile(oneModel(generation, n), &options, live.Load(), registry)
		if err != nil {
			t.Error(err)
			return
		}
		live.Store(next)
		registry.Sweep(next)
	}
	publish(0, 4)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var served atomic.Int64
	for worker := range 4 {
		wg.Go(func() {
			var lease routing.Lease
			var decision routing.Decision
			facts := &routing.Facts{}
			for i := uint64(worker); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				now := time.Now().UnixNano()
				rule := live.Load().Socket(80).Listener(nil).Match(&routing.Request{Path: []byte("/")}).Rule
				rule.PickBackend(uint32(i)).Backend.Decide(&routing.RouteInput{
					Headers: noHeaders{}, Facts: facts, Options: &options, Now: now, Rand: i,
				}, &lease, &decision)
				if decision.Target == nil {
					t.Error("a request found no target")
					return
				}
				lease.Start()
				lease.Release(now, routing.ResultOK)
				served.Add(1)
			}
		})
	}
	for generation := uint64(1); generation < 300; generation++ {
		publish(generation, int(generation*7%9))
	}
	for deadline := time.Now().Add(20 * time.Second); served.Load() < 1_000 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	wg.Wait()
	if served.Load() < 1_000 {
		t.Errorf("only %d requests were served", served.Load())
	}
	targets.Range(func(key, _ any) bool {
		if target := key.(*routing.Target); target.Active() != 0 || target.Reserved() != 0 {
			t.Errorf("%s has %d active and %d reserved", target.Address, target.Active(), target.Reserved())
		}
		return true
	})
}
