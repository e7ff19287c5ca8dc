package trust

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"flexinfer.ai/gateway/pkg/publish"
)

// Audience is the audience of gateway pods' tokens.
const Audience = "flexinfer-gateway"

// What the API server says of the pod that a token is bound to.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// reviewTime bounds one TokenReview.
const reviewTime = 10 * time.Second

// ErrBusy says that too many tokens were presented; the client tries again later.
var ErrBusy = errors.New("too many tokens are being reviewed: try again later")

// ReviewerOptions is what a Reviewer needs; all but Now are required.
type ReviewerOptions struct {
	// Client creates TokenReviews.
	Client client.Client
	// Gateway names the Gateway ("namespace/name") whose pods run as a
	// ServiceAccount; false: no Gateway's do.
	Gateway func(Account) (string, bool)
	Logger  *slog.Logger
	Now     func() time.Time // nil: time.Now
}

// Reviewer tells from tokens which Gateway's pod it is that connects. Safe for
// concurrent use.
type Reviewer struct {
	o       ReviewerOptions
	limits  *limits
	refused *refusalLog

	mu    sync.Mutex
	cache map[[sha256.Size]byte]verdict
}

// verdict is what the API server said of a token, until when it is believed.
type verdict struct {
	account Account
	pod     string
	refusal *Refusal
	until   time.Time
}

// Verdicts are kept only so that a client in a hurry does not become one of the
// API server's.
const (
	maxVerdicts = 1024
	verdictTime = 10 * time.Second
)

// NewReviewer makes a Reviewer.
func NewReviewer(o ReviewerOptions) *Reviewer {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reviewer{o: o, limits: newLimits(), refused: &refusalLog{logger: o.Logger}, cache: map[[sha256.Size]byte]verdict{}}
}

// Authenticate says whose pod presents a token, in a connection from peer (an IP
// address; empty: unknown). A *Refusal says why it is nobody's; ErrBusy and
// other errors are for trying again. Refusals are logged, the token never is.
func (r *Reviewer) Authenticate(ctx context.Context, token, peer string) (publish.Identity, error) {
	id, err := r.authenticate(ctx, token, peer)
	var refusal *Refusal
	if errors.As(err, &refusal) {
		r.refused.log(r.o.Now(), peer, refusal.Reason)
	}
	return id, err
}

func (r *Reviewer) authenticate(ctx context.Context, token, peer string) (publish.Identity, error) {
	account, refusal := claimed(token, r.o.Now())
	if refusal != nil {
		return publish.Identity{}, refusal
	}
	if _, ok := r.o.Gateway(account); !ok {
		return publish.Identity{}, refuse("ServiceAccount %s is not the one of a Gateway's pods", account)
	}
	v, err := r.verdict(ctx, token, peer)
	if err != nil {
		return publish.Identity{}, err
	}
	if v.refusal != nil {
		return publish.Identity{}, v.refusal
	}
	// The verdict's account, not the claimed one, is verified.
	gateway, ok := r.o.Gateway(v.account)
	if !ok {
		return publish.Identity{}, refuse("ServiceAccount %s is not the one of a Gateway's pods", v.account)
	}
	return publish.Identity{Gateway: gateway, Pod: v.pod}, nil
}

// verdict is the API server's, or the one of a moment ago.
func (r *Reviewer) verdict(ctx context.Context, token, peer string) (verdict, error) {
	key := sha256.Sum256([]byte(token))
	now := r.o.Now()
	r.mu.Lock()
	v, ok := r.cache[key]
	r.mu.Unlock()
	if ok && now.Before(v.until) {
		return v, nil
	}
	if !r.limits.allow(peer, now) {
		return verdict{}, ErrBusy
	}
	v, err := r.review(ctx, token)
	if err != nil {
		return verdict{}, err
	}
	v.until = now.Add(verdictTime)
	r.remember(key, v, now)
	return v, nil
}

func (r *Reviewer) remember(key [sha256.Size]byte, v verdict, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache) >= maxVerdicts {
		for k, old := range r.cache {
			if !now.Before(old.until) {
				delete(r.cache, k)
			}
		}
	}
	if len(r.cache) >= maxVerdicts {
		return // the API server's limits hold all the same
	}
	r.cache[key] = v
}

// review asks the API server.
func (r *Reviewer) review(ctx context.Context, token string) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}}}
	if err := r.o.Client.Create(ctx, review); err != nil {
		return verdict{}, fmt.Errorf("cannot have a token reviewed: %s", without(token, err.Error()))
	}
	status := review.Status
	if !status.Authenticated {
		why := status.Error
		if why == "" {
			why = "it is not valid, or its pod or ServiceAccount is gone"
		}
		return verdict{refusal: refuse("the API server does not accept the token: %s", without(token, why))}, nil
	}
	account, ok := parseAccount(status.User.Username)
	pod, uid := first(status.User.Extra[extraPodName]), first(status.User.Extra[extraPodUID])
	switch {
	case !slices.Contains(status.Audiences, Audience):
		return verdict{refusal: refuse("the token of %s is not for audience %s", status.User.Username, Audience)}, nil
	case !ok:
		return verdict{refusal: refuse("%s is no ServiceAccount", status.User.Username)}, nil
	case pod == "" || uid == "":
		return verdict{refusal: refuse("the token of ServiceAccount %s is not bound to a pod", account)}, nil
	}
	return verdict{account: account, pod: pod}, nil
}

func first(values authenticationv1.ExtraValue) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// without is a text of foreign origin in which the token does not occur.
func without(token, text string) string { return strings.ReplaceAll(text, token, "[token]") }
