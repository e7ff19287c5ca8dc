package cluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// notReady keeps an engine from becoming ready; it serves all the same.
const notReady = `{"kind":"status","status":503,"path":"/health"}`

// fault breaks an engine as internal/enginesim describes it; "": heals it.
func (w *world) fault(engine corev1.Pod, fault string) {
	w.t.Helper()
	method := http.MethodPost
	if fault == "" {
		method = http.MethodDelete
	}
	// A container that was just created does not listen yet.
	eventually(w.t, func() string {
		if problem := request(w.t, method, "http://"+net.JoinHostPort(engine.Status.PodIP, "8000")+"/debug/fault", fault); problem != "" {
			return "engine " + engine.Name + ": " + problem
		}
		return ""
	})
}

// request sends a request that is to be answered with 200, else it says how not.
func request(t *testing.T, method, url, body string) (problem string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return response.Status + ": " + string(text)
	}
	return ""
}

// readiness is how many endpoints of a Service are ready, as of a moment.
type readiness struct {
	at    time.Time
	ready int
}

// watchReadiness tells each change of the number of a Service's ready endpoints
// when the API server tells it, beginning with what is.
func (w *world) watchReadiness(service string) <-chan readiness {
	w.t.Helper()
	slices, err := clients.DiscoveryV1().EndpointSlices(w.namespace).Watch(w.t.Context(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(slices.Stop)
	changes := make(chan readiness, 1000)
	go func() {
		defer close(changes)
		counts, last := map[string]int{}, -1
		for event := range slices.ResultChan() {
			s, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				continue
			}
			counts[s.Name] = 0
			if event.Type != watch.Deleted {
				counts[s.Name] = readyIn(s)
			}
			total := 0
			for _, n := range counts {
				total += n
			}
			if total != last {
				last = total
				changes <- readiness{time.Now(), total}
			}
		}
	}()
	return changes
}

func readyIn(s *discoveryv1.EndpointSlice) (n int) {
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n++
		}
	}
	return n
}

// await is when the number of ready endpoints became n.
func await(t *testing.T, changes <-chan readiness, n int) time.Time {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case c, ok := <-changes:
			if !ok {
				t.Fatal("the watch of endpoints ended")
			}
			if c.ready == n {
				return c.at
			}
		case <-timeout:
			t.Fatalf("there were not %d ready endpoints within %v", n, patience)
		}
	}
}

// readAll reads an answer's body and ends it.
func readAll(response *http.Response) (string, error) {
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
