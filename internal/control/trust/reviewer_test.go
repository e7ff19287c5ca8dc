package trust

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/publish"
)

// apiServer answers TokenReviews as one does, for unsigned tokens: by the
// claims, and by which pods there are.
type apiServer struct {
	pods    map[string]string // UID by "namespace/name"
	reviews atomic.Int64
	fails   bool
}

// pod is a claim as the API server writes it.
type podClaim struct{ Name, UID string }

type testClaims struct {
	Sub        string   `json:"sub"`
	Aud        []string `json:"aud"`
	Exp        int64    `json:"exp"`
	Kubernetes struct {
		Pod podClaim `json:"pod"`
	} `json:"kubernetes.io"`
}

func (a *apiServer) client() client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			a.reviews.Add(1)
			review := obj.(*authenticationv1.TokenReview)
			if a.fails {
				return fmt.Errorf("the server is away, it was asked about %s", review.Spec.Token)
			}
			review.Status = a.review(review.Spec)
			return nil
		},
	}).Build()
}

func (a *apiServer) review(spec authenticationv1.TokenReviewSpec) (s authenticationv1.TokenReviewStatus) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(spec.Token, ".")[1])
	var c testClaims
	if err != nil || json.Unmarshal(raw, &c) != nil {
		s.Error = "invalid bearer token " + spec.Token
		return s
	}
	for _, want := range spec.Audiences {
		if slices.Contains(c.Aud, want) {
			s.Audiences = append(s.Audiences, want)
		}
	}
	account, _ := parseAccount(c.Sub)
	pod := c.Kubernetes.Pod
	if pod.Name != "" && a.pods[account.Namespace+"/"+pod.Name] != pod.UID {
		s.Error = "the pod is gone"
		return s
	}
	if !strings.HasSuffix(spec.Token, ".signed") || len(s.Audiences) == 0 {
		return s
	}
	s.Authenticated = true
	s.User.Username = c.Sub
	if pod.Name != "" {
		s.User.Extra = map[string]authenticationv1.ExtraValue{extraPodName: {pod.Name}, extraPodUID: {pod.UID}}
	}
	return s
}

// token is one as the API server issues it, but for its signature.
func token(t *testing.T, change func(*testClaims)) string {
	t.Helper()
	c := testClaims{Sub: "system:serviceaccount:team-a:chat-0b1f6f6d", Aud: []string{Audience}, Exp: time.Now().Add(time.Hour).Unix()}
	c.Kubernetes.Pod = podClaim{"chat-1", "uid-1"}
	if change != nil {
		change(&c)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(raw) + ".signed"
}

func newTestReviewer(server *apiServer, clock *clock, log *testrig.Log) *Reviewer {
	gateways := map[Account]string{
		{"team-a", "chat-0b1f6f6d"}:  "team-a/chat",
		{"team-a", "other-0b1f6f6d"}: "team-a/other",
	}
	return NewReviewer(ReviewerOptions{
		Client:  server.client(),
		Gateway: func(a Account) (string, bool) { g, ok := gateways[a]; return g, ok },
		Logger:  slog.New(slog.NewTextHandler(log, nil)), Now: clock.Now,
	})
}

func newServer() *apiServer {
	return &apiServer{pods: map[string]string{"team-a/chat-1": "uid-1", "team-a/stranger": "uid-2"}}
}

func TestAuthenticate(t *testing.T) {
	f := func(name string, want publish.Identity, refusal string, change func(*testClaims)) {
		t.Run(name, func(t *testing.T) {
			log := &testrig.Log{}
			r := newTestReviewer(newServer(), newClock(), log)
			tok := token(t, change)
			got, err := r.Authenticate(t.Context(), tok, "10.0.0.1")
			checkRefusal(t, err, refusal, log.String(), tok)
			if got != want {
				t.Errorf("identity %v instead of %v", got, want)
			}
		})
	}
	chat := publish.Identity{Gateway: "team-a/chat", Pod: "chat-1"}
	f("a Gateway's pod", chat, "", nil)
	f("several audiences", chat, "", func(c *testClaims) { c.Aud = append(c.Aud, "other") })
	f("another Gateway's account", publish.Identity{Gateway: "team-a/other", Pod: "chat-1"}, "", func(c *testClaims) { c.Sub = "system:serviceaccount:team-a:other-0b1f6f6d" })
	f("wrong audience", publish.Identity{}, "other audiences", func(c *testClaims) { c.Aud = []string{"https://kubernetes.default.svc"} })
	f("no audience", publish.Identity{}, "other audiences", func(c *testClaims) { c.Aud = nil })
	f("another ServiceAccount of the namespace", publish.Identity{}, "team-a/default is not the one", func(c *testClaims) {
		c.Sub, c.Kubernetes.Pod = "system:serviceaccount:team-a:default", podClaim{"stranger", "uid-2"}
	})
	f("the same name elsewhere", publish.Identity{}, "team-b/chat-0b1f6f6d is not the one", func(c *testClaims) { c.Sub = "system:serviceaccount:team-b:chat-0b1f6f6d" })
	f("a user", publish.Identity{}, "no ServiceAccount token", func(c *testClaims) { c.Sub = "admin" })
	f("not bound to a pod", publish.Identity{}, "not bound to a pod", func(c *testClaims) { c.Kubernetes.Pod = podClaim{} })
	f("deleted pod", publish.Identity{}, "the pod is gone", func(c *testClaims) { c.Kubernetes.Pod.Name = "chat-0" })
	f("a pod of the same name, recreated", publish.Identity{}, "the pod is gone", func(c *testClaims) { c.Kubernetes.Pod.UID = "uid-0" })
	f("expired", publish.Identity{}, "has expired", func(c *testClaims) { c.Exp = time.Now().Add(-time.Hour).Unix() })
}

// checkRefusal compares an error and the log with what is expected of them.
func checkRefusal(t *testing.T, err error, want, log, tok string) {
	t.Helper()
	var refusal *Refusal
	if want == "" {
		if err != nil || log != "" {
			t.Fatalf("error %v, log %q", err, log)
		}
		return
	}
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, want) {
		t.Fatalf("error %v instead of %q", err, want)
	}
	if !strings.Contains(log, want) {
		t.Errorf("the log does not say why: %q", log)
	}
	if tok != "" && (strings.Contains(log, tok) || strings.Contains(err.Error(), tok)) {
		t.Errorf("the token is told: %v, %s", err, log)
	}
}

func TestRefusedWithoutAsking(t *testing.T) {
	f := func(name, tok, want string) {
		t.Run(name, func(t *testing.T) {
			log, server := &testrig.Log{}, newServer()
			_, err := newTestReviewer(server, newClock(), log).Authenticate(t.Context(), tok, "")
			checkRefusal(t, err, want, log.String(), tok)
			if n := server.reviews.Load(); n != 0 {
				t.Errorf("the API server was asked %d times", n)
			}
		})
	}
	f("nothing", "", "no token")
	f("rubbish", "rubbish", "no ServiceAccount token")
	f("not base64", "a.%%%.c", "no ServiceAccount token")
	f("not JSON", "a.YWJj.c", "no ServiceAccount token")
	f("huge", strings.Repeat("x", maxToken+1), "no ServiceAccount token has more")
	f("an audience that is no string", "a."+base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:a:b","aud":7}`))+".c", "no ServiceAccount token")
}

func TestForgedToken(t *testing.T) {
	log := &testrig.Log{}
	tok := strings.TrimSuffix(token(t, nil), "signed") + "forged"
	_, err := newTestReviewer(newServer(), newClock(), log).Authenticate(t.Context(), tok, "")
	checkRefusal(t, err, "does not accept", log.String(), tok)
}

func TestServerAway(t *testing.T) {
	log, server := &testrig.Log{}, newServer()
	server.fails = true
	r := newTestReviewer(server, newClock(), log)
	tok := token(t, nil)
	_, err := r.Authenticate(t.Context(), tok, "")
	var refusal *Refusal
	if err == nil || errors.As(err, &refusal) || strings.Contains(err.Error(), tok) {
		t.Fatalf("error %v", err)
	}
	server.fails = false
	if _, err := r.Authenticate(t.Context(), tok, ""); err != nil {
		t.Errorf("a failure was kept: %v", err)
	}
}

func TestVerdictsAreKeptForAMoment(t *testing.T) {
	log, server, clock := &testrig.Log{}, newServer(), newClock()
	r := newTestReviewer(server, clock, log)
	tok := token(t, nil)
	for range 100 {
		if _, err := r.Authenticate(t.Context(), tok, "10.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.reviews.Load(); n != 1 {
		t.Errorf("%d reviews of one token", n)
	}
	delete(server.pods, "team-a/chat-1")
	clock.pass(verdictTime)
	if _, err := r.Authenticate(t.Context(), tok, "10.0.0.1"); err == nil {
		t.Error("a deleted pod's token is still good")
	}
}

func TestBadClientsAreBounded(t *testing.T) {
	log, server, clock := &testrig.Log{}, newServer(), newClock()
	r := newTestReviewer(server, clock, log)
	for i := range 5000 {
		tok := token(t, func(c *testClaims) { c.Kubernetes.Pod.UID = fmt.Sprint("made up ", i) })
		if _, err := r.Authenticate(t.Context(), tok, "10.6.6.6"); err == nil {
			t.Fatal("a made-up pod was let in")
		}
	}
	if n := server.reviews.Load(); n != peerBurst {
		t.Errorf("one peer caused %d reviews at once instead of %d", n, peerBurst)
	}
	if _, err := r.Authenticate(t.Context(), token(t, nil), "10.0.0.1"); err != nil {
		t.Errorf("another peer pays for it: %v", err)
	}
	for i := range 20_000 {
		tok := token(t, func(c *testClaims) { c.Kubernetes.Pod.UID = fmt.Sprint("made up too ", i) })
		_, _ = r.Authenticate(t.Context(), tok, fmt.Sprint("peer ", i))
	}
	if n := server.reviews.Load(); n > peerBurst+allBurst+1 {
		t.Errorf("all peers together caused %d reviews at once", n)
	}
	if len(r.cache) > maxVerdicts || len(r.limits.peers) > maxPeers {
		t.Errorf("%d verdicts, %d peers are kept", len(r.cache), len(r.limits.peers))
	}
	if n := strings.Count(log.String(), "\n"); n > maxRefusals {
		t.Errorf("%d lines were logged", n)
	}
	clock.pass(time.Hour)
	if _, err := r.Authenticate(t.Context(), token(t, nil), "10.6.6.6"); err != nil {
		t.Errorf("it never ends: %v", err)
	}
}
