package status

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func routes(names ...string) []Update {
	out := make([]Update, len(names))
	for i, n := range names {
		namespace, name, _ := strings.Cut(n, "/")
		out[i] = Update{Kind: "HTTPRoute", Held: &gwapiv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
	}
	return out
}

func order(q *queue, names ...string) string {
	var out []string
	for _, u := range q.order(routes(names...)) {
		out = append(out, u.Held.GetNamespace()+"/"+u.Held.GetName())
	}
	return strings.Join(out, " ")
}

func TestQueue(t *testing.T) {
	var q queue
	f := func(want string, names ...string) {
		t.Helper()
		if got := order(&q, names...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f("")
	f("a/2 b/1 a/3", "a/2", "a/3", "b/1")
	// a/1 comes later, and waits behind a/3.
	f("a/2 b/1 a/3 a/1", "a/1", "a/2", "a/3", "b/1")
	// a/2 has been written and wants to be written again: it waits from now on.
	q.written(Key{Kind: "HTTPRoute", NamespacedName: routes("a/2")[0].Key().NamespacedName})
	f("a/3 a/1 a/2", "a/1", "a/2", "a/3")
	// What no longer waits is forgotten.
	f("a/1", "a/1")
	f("a/1 a/2 a/3", "a/1", "a/2", "a/3")
}

// A Gateway waits for no route of its namespace.
func TestQueueGatewaysFirst(t *testing.T) {
	var q queue
	order(&q, "a/1", "a/2")
	gateway := Update{Kind: "Gateway", Held: &gwapiv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g"}}}
	if got := q.order(append(routes("a/1", "a/2"), gateway)); got[0].Kind != "Gateway" {
		t.Errorf("the first is %s", got[0].Kind)
	}
}

// However many objects of one namespace wait, another's few are among the first.
func TestQueueIsFair(t *testing.T) {
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprint("a/", i))
	}
	var q queue
	got := strings.Fields(order(&q, append(many, "z/1", "z/2")...))
	if got[1] != "z/1" || got[3] != "z/2" {
		t.Errorf("the first are %q", got[:6])
	}
}

func BenchmarkQueue(b *testing.B) {
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("n%d/%d", i%10, i))
	}
	var q queue
	updates := routes(names...)
	for b.Loop() {
		q.order(updates)
	}
}
