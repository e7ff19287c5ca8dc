package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/publish"
	"flexinfer.ai/gateway/pkg/routing"
)

// audience is that of gateway pods' tokens.
const audience = "flexinfer-gateway"

// What is no gateway pod gets nothing from the controller, and what is one gets its
// own Gateway's configuration, by the tokens that the API server gives out.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	c := watchController(t, w)
	w.model(engines{model: "own", replicas: 1})
	w.create(pathRoute("one", "one", "/one", modelRef("", "own")), pathRoute("two", "two", "/two", modelRef("", "own")))
	w.gateway("one", 1)
	w.gateway("two", 1)
	one, two, engine := w.gatewayPods("one")[0], w.gatewayPods("two")[0], w.pods(map[string]string{"app": "own"})[0]
	client := tokenClient{w: w, controller: c.pods[0], ca: w.authority(one.Spec.ServiceAccountName)}

	var secrets []string
	refused := func(token, want string) {
		t.Helper()
		secrets = append(secrets, token)
		if config, said := client.subscribe(token, 3*time.Second); config != nil || !strings.Contains(said, want) {
			t.Errorf("the controller sent %+v and said %q, want nothing and %q", config, said, want)
		}
	}
	refused("", "no token was sent")
	refused("nonsense", "no ServiceAccount token")
	refused(w.token(one.Spec.ServiceAccountName, nil, audience), "not bound to a pod")
	refused(w.token(one.Spec.ServiceAccountName, &one), "for other audiences")
	refused(w.token(one.Spec.ServiceAccountName, &one, "another"), "for other audiences")
	refused(w.token(engine.Spec.ServiceAccountName, &engine, audience), "is not the one of a Gateway's pods")
	forged := w.token(one.Spec.ServiceAccountName, &one, audience)
	refused(forged[:len(forged)-6]+"AAAAAA", "does not accept the token")

	for pod, path := range map[*corev1.Pod]string{&one: "/one", &two: "/two"} {
		token := w.token(pod.Spec.ServiceAccountName, pod, audience)
		secrets = append(secrets, token)
		config, said := client.subscribe(token, patience)
		if config == nil || len(config.Routes) != 1 || config.Routes[0].Rules[0].Matches[0].Path != path {
			t.Errorf("the token of %s gets %+v (%s), want the route for %s", pod.Name, config, said, path)
		}
	}

	// A wrong authority is not trusted, so that no token is sent to it.
	client.ca = []byte(unrelatedCA(t))
	if config, said := client.subscribe(w.token(one.Spec.ServiceAccountName, &one, audience), 3*time.Second); config != nil || !strings.Contains(said, "x509") {
		t.Errorf("with another CA: %+v %q", config, said)
	}

	for _, line := range c.log() {
		for _, secret := range secrets {
			if len(secret) > 20 && (strings.Contains(line, secret) || strings.Contains(line, secret[len(secret)-40:])) {
				t.Error("the controller has logged a token")
			}
		}
	}
	c.unharmed()
}

// token has the API server make a token of a ServiceAccount, bound to a pod if any.
func (w *world) token(account string, pod *corev1.Pod, audiences ...string) string {
	w.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: new(int64(600))}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := clients.CoreV1().ServiceAccounts(w.namespace).CreateToken(w.t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.Status.Token
}

// authority is the controller's CA as a Gateway's pods see it.
func (w *world) authority(name string) []byte {
	w.t.Helper()
	var m corev1.ConfigMap
	w.get(name, &m)
	return []byte(m.Data["ca.crt"])
}

func unrelatedCA(t *testing.T) string {
	t.Helper()
	certificate, _ := testrig.SelfSigned(t, "elsewhere.example.com")
	return string(certificate)
}

// tokenClient subscribes as a gateway pod does.
type tokenClient struct {
	w          *world
	controller corev1.Pod
	ca         []byte
}

// subscribe presents a token until a configuration comes or the time is over. It
// returns what came, nil: nothing did, and what was logged.
func (c tokenClient) subscribe(token string, patience time.Duration) (got *routing.Config, said string) {
	c.w.t.Helper()
	dir := c.w.t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			c.w.t.Fatal(err)
		}
		return path
	}
	var log testrig.Log
	configs := make(chan *routing.Config, 16)
	subscriber, err := publish.NewSubscriber(publish.SubscriberOptions{
		Logger:     slog.New(slog.NewTextHandler(&log, nil)),
		Controller: c.controller.Status.PodIP + ":8443",
		ServerName: fmt.Sprintf("%s.%s.svc", controllerName, systemNamespace),
		CAFile:     write("ca.crt", c.ca), TokenFile: write("token", []byte(token)),
		Apply: func(cfg *routing.Config) publish.Applied {
			select {
			case configs <- cfg:
			default:
			}
			return publish.Applied{}
		},
	})
	if err != nil {
		c.w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.w.t.Context(), patience)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		subscriber.Run(ctx)
	}()
	select {
	case got = <-configs:
	case <-ctx.Done():
	}
	cancel()
	<-ended
	return got, log.String()
}
