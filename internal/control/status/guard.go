package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Bounds on how often one object is written.
const (
	burst          = 10              // writes in a row
	refill         = time.Second     // for each further one
	firstBackoff   = time.Second     // before a status is written that was changed back
	longestBackoff = 5 * time.Minute // between two such writes
	forgetAfter    = 15 * time.Minute
)

// guard remembers the writes of one object, so that they never become a loop.
type guard struct {
	uid      types.UID
	from     string // resourceVersion of the object that was written last, before that
	want     any    // status last written, without transition times
	returned any    // status that the API server answered with
	repeats  int    // writes of the same want in a row
	failures int    // in a row
	tokens   int    // writes that may follow at once
	last     time.Time
	notYet   time.Time // nothing is written before
	told     bool      // that writing is pointless
}

// verdict is what a guard says of an update.
type verdict int

const (
	writeNow verdict = iota
	writeLater
	// neverWrite: it was written, and the API server made of it what the object
	// holds now; writing it again would change nothing.
	neverWrite
	// outdated: the object is held as it was before it was written; news of that
	// are on their way.
	outdated
)

// judge says whether an update may be written now.
func (g *guard) judge(u Update, now time.Time) verdict {
	switch {
	case g.want != nil && equality.Semantic.DeepEqual(g.want, timeless(u.Want)) &&
		equality.Semantic.DeepEqual(g.returned, statusOf(u.Held)):
		return neverWrite
	case g.from != "" && g.from == u.Held.GetResourceVersion():
		return outdated
	case now.Before(g.notYet):
		return writeLater
	}
	return writeNow
}

// written records an update and the object that the API server answered with.
func (g *guard) written(u Update, answer client.Object, now time.Time) {
	g.failures = 0
	g.refill(now)
	g.tokens--
	want := timeless(u.Want)
	if g.want != nil && equality.Semantic.DeepEqual(g.want, want) {
		g.repeats++
		g.notYet = now.Add(backoff(g.repeats))
	} else {
		g.repeats = 0
		g.notYet = time.Time{}
	}
	g.want, g.returned, g.told = want, statusOf(answer), false
	if g.from = u.Held.GetResourceVersion(); g.from == answer.GetResourceVersion() {
		g.from = "" // nothing has changed, so no news will come
	}
	if g.tokens <= 0 && g.notYet.Before(now.Add(refill)) {
		g.notYet = now.Add(refill)
	}
	g.last = now
}

// failed records a write that the API server refused or did not answer.
func (g *guard) failed(now time.Time) {
	g.failures++
	g.refill(now)
	g.last = now
	g.notYet = now.Add(backoff(g.failures))
}

func (g *guard) refill(now time.Time) {
	g.tokens = int(min(burst, int64(g.tokens)+int64(now.Sub(g.last)/refill)))
}

// backoff is 1 s doubled with each repetition.
func backoff(n int) time.Duration {
	return min(longestBackoff, firstBackoff<<min(n-1, 20))
}

// wants reports whether an update asks for another status than the one written
// last.
func (g *guard) wants(u Update) bool { return !equality.Semantic.DeepEqual(g.want, timeless(u.Want)) }

// statusOf is an object's status.
func statusOf(o client.Object) any {
	switch o := o.(type) {
	case *gwapiv1.GatewayClass:
		return o.Status
	case *gwapiv1.Gateway:
		return o.Status
	case *gwapiv1.HTTPRoute:
		return o.Status
	case *v1alpha2.Model:
		return o.Status
	}
	return nil
}

// timeless is an object's status without the transition times, which differ
// with every translation where the API server keeps a condition otherwise than
// it was written.
func timeless(o client.Object) any {
	clearTimes := func(conditions []metav1.Condition) {
		for i := range conditions {
			conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	switch o := o.(type) {
	case *gwapiv1.GatewayClass:
		status := o.Status.DeepCopy()
		clearTimes(status.Conditions)
		return *status
	case *gwapiv1.Gateway:
		status := o.Status.DeepCopy()
		clearTimes(status.Conditions)
		for i := range status.Listeners {
			clearTimes(status.Listeners[i].Conditions)
		}
		return *status
	case *gwapiv1.HTTPRoute:
		status := o.Status.DeepCopy()
		for i := range status.Parents {
			clearTimes(status.Parents[i].Conditions)
		}
		return *status
	case *v1alpha2.Model:
		status := o.Status.DeepCopy()
		clearTimes(status.Conditions)
		return *status
	}
	return nil
}
