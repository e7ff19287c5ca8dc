package routing

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The cost of a match must not grow with the number of routes and hostnames.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		s := mustCompile(b, manyRoutes(n, 10), testOptions(), nil, NewRegistry(Hooks{}))
		socket := s.Socket(80)
		// As many requests in both cases, so that only the tables differ.
		requests := requestsFor(n)
		for len(requests) < 30_000 {
			requests = append(requests, requests...)
		}
		requests = requests[:30_000]
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r := &requests[i]
				if i++; i == len(requests) {
					i = 0
				}
				if socket.Listener(r.Host).Match(r) == nil {
					b.Fatal("no match")
				}
			}
		})
	}
}

func BenchmarkRingLookup(b *testing.B) {
	for _, n := range []int{16, 1_000} {
		r := ringOf(podIDs(n)...)
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			h := uint64(1)
			for b.Loop() {
				h = mix(h)
				r.Lookup(h)
			}
		})
	}
}

func BenchmarkNewRing(b *testing.B) {
	members := make([]RingMember, 1_000)
	for i, id := range podIDs(len(members)) {
		members[i].ID = id
	}
	for b.Loop() {
		NewRing(members, DefaultVirtualNodes)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, s := range []Strategy{StrategyDefault, StrategySession, StrategyLeastLoaded} {
		for _, n := range []int{8, 1_000} {
			var w world
			w.model("m", s, pods(n)...)
			o := testOptions()
			backend := backendOf(b, &w, o, "Model/ns/m")
			in := RouteInput{Headers: &oneField{"X-Session-Id", []byte("session-1")}, Facts: &Facts{}, Options: o, Now: startOfTime}
			b.Run(fmt.Sprintf("%s/pods=%d", s, n), func(b *testing.B) {
				b.ReportAllocs()
				var l Lease
				var d Decision
				for b.Loop() {
					backend.Decide(&in, &l, &d)
					l.Start()
					l.Release(in.Now, ResultOK)
				}
			})
		}
	}
}

func BenchmarkLeastLoadedParallel(b *testing.B) {
	var w world
	w.model("m", StrategyLeastLoaded, pods(16)...)
	o := testOptions()
	backend := backendOf(b, &w, o, "Model/ns/m")
	b.RunParallel(func(pb *testing.PB) {
		in := RouteInput{Headers: &oneField{}, Facts: &Facts{}, Options: o, Now: startOfTime}
		var l Lease
		var d Decision
		for pb.Next() {
			backend.Decide(&in, &l, &d)
			l.Start()
			l.Release(in.Now, ResultOK)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	cfg := manyRoutes(2_000, 5_000)
	o := testOptions()
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			mustCompile(b, cfg, o, nil, NewRegistry(Hooks{}))
		}
	})
	b.Run("one-endpoint", func(b *testing.B) {
		reg := NewRegistry(Hooks{})
		prev := mustCompile(b, cfg, o, nil, reg)
		other := *cfg
		other.EndpointLists = append([]EndpointList(nil), cfg.EndpointLists...)
		l := &other.EndpointLists[17]
		l.Endpoints = l.Endpoints[1:]
		var longest time.Duration
		configs := [2]*Config{&other, cfg}
		i := 0
		for b.Loop() {
			start := time.Now()
			prev = mustCompile(b, configs[i&1], o, prev, reg)
			longest = max(longest, time.Since(start))
			i++
		}
		b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
	})
}
