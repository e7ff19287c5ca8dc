package control

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/translate"
)

// notebook is an EventRecorder.
type notebook struct {
	record.EventRecorder
	lines []string
}

func (n *notebook) Event(o runtime.Object, _, reason, message string) {
	ref := o.(*corev1.ObjectReference)
	n.lines = append(n.lines, fmt.Sprintf("%s %s %s/%s %s: %s", ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, reason, message))
}

func routeNamed(name string) *gwapiv1.HTTPRoute {
	return &gwapiv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
}

// Events are told on change alone, by the leader, at a bounded rate.
func TestAnnouncer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &notebook{}
		a := newAnnouncer(book)
		tell := func(list ...notice) string {
			a.Submit(list)
			time.Sleep(patienceWithUsers)
			synctest.Wait()
			lines := strings.Join(book.lines, "\n")
			book.lines = nil
			return lines
		}
		want := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		one := notice{routeNamed("r"), "HTTPRoute", reasonInvalid, "no such Service"}
		want(tell(one), "")
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx)
		want(tell(one), "gateway.networking.k8s.io/v1 HTTPRoute ns/r Invalid: no such Service")
		want(tell(one), "")
		want(tell(one, notice{routeNamed("r"), "HTTPRoute", reasonRefused, "no"}), "gateway.networking.k8s.io/v1 HTTPRoute ns/r ResourceRefused: no")
		want(tell(), "")
		want(tell(one), "gateway.networking.k8s.io/v1 HTTPRoute ns/r Invalid: no such Service")
		one.text = "another"
		want(tell(one), "gateway.networking.k8s.io/v1 HTTPRoute ns/r Invalid: another")

		one.text = "for a moment"
		a.Submit([]notice{one})
		time.Sleep(patienceWithUsers / 2)
		one.text = "another"
		want(tell(one), "gateway.networking.k8s.io/v1 HTTPRoute ns/r Invalid: another")

		var many []notice
		for i := range 1000 {
			many = append(many, notice{routeNamed(fmt.Sprint(i)), "HTTPRoute", reasonInvalid, "x"})
		}
		a.Submit(many)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n, most := len(book.lines), newsBurst+10*int(newsRate); n > most || n < most/2 {
			t.Errorf("%d events in 10 s, want at most %d", n, most)
		}
		cancel()
		synctest.Wait()
	})
}

// Only objects of ours are told about, each once with all that is wrong with it.
func TestNotices(t *testing.T) {
	res := decode(t, classManifest, gatewayManifest, routeManifest, strings.ReplaceAll(strings.ReplaceAll(gatewayManifest, "name: gw", "name: other"), "flexinfer", "foreign"),
		strings.ReplaceAll(routeManifest, "name: r1", "name: r2")+`
  - backendRefs: [{name: nothing, port: 80}]`,
		strings.NewReplacer("name: flexinfer", "name: foreign", "flexinfer.ai/gateway-controller", "example.com/controller").Replace(classManifest),
		strings.NewReplacer("name: gw", "name: nobodys", "flexinfer", "flexinferr").Replace(gatewayManifest),
		strings.NewReplacer("name: r1", "name: r3", "name: gw", "name: gv").Replace(routeManifest),
		strings.NewReplacer("name: r1", "name: r4", "name: gw", "name: other").Replace(routeManifest))
	result := translate.Translate(res, translate.Options{})
	var got []string
	for _, n := range notices(res, result, nil) {
		got = append(got, n.kind+" "+n.about.GetName()+" "+n.reason+": "+n.text)
	}
	want := []string{
		"Gateway nobodys Invalid: spec.gatewayClassName: GatewayClass flexinferr does not exist: correct the name, or create it with spec.controllerName flexinfer.ai/gateway-controller",
		"HTTPRoute r1 Invalid: spec.rules[0].backendRefs[0]: ns/m is neither a service label that a Model claims nor a Model: create the Model or correct the name",
		"HTTPRoute r2 Invalid: spec.rules[0].backendRefs[0]: ns/m is neither a service label that a Model claims nor a Model: create the Model or correct the name; " +
			"spec.rules[1].backendRefs[0]: Service ns/nothing does not exist: create it or correct the name",
		"HTTPRoute r3 Invalid: spec.parentRefs[0]: Gateway ns/gv does not exist: create it or correct the reference",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("notices:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCut(t *testing.T) {
	long := strings.Repeat("é", 600)
	for _, most := range []int{1023, 1024} {
		got := cut(long, most)
		if len(got) > most || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("cut to %d: %d bytes, %q at the end", most, len(got), got[len(got)-6:])
		}
	}
	if cut("short", 1024) != "short" {
		t.Error("a short text is cut")
	}
}
