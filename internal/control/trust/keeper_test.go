package trust

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"flexinfer.ai/gateway/internal/testrig"
)

// lifetime is that of the tests' CAs.
const lifetime = 300 * 24 * time.Hour

// clock is a time that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now().Truncate(time.Second)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// generate makes a CA that begins now.
func (c *clock) generate() (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	now := c.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "test"}, NotBefore: now, NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

func newTestKeeper(c client.Client, clock *clock, log *testrig.Log) *Keeper {
	return NewKeeper(KeeperOptions{
		Client: c, Namespace: "flexinfer-system", Generate: clock.generate,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Now: clock.Now,
	})
}

func ensure(t *testing.T, k *Keeper, changed bool) *CA {
	t.Helper()
	got, err := k.Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got != changed {
		t.Fatalf("changed: %t instead of %t", got, changed)
	}
	return k.CA()
}

// trusts says whether a bundle trusts what a CA signs.
func trusts(t *testing.T, bundle, certPEM []byte, now time.Time) bool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("an empty bundle")
	}
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now})
	return err == nil
}

func TestReplicasAgreeOnOneCA(t *testing.T) {
	for range 5 {
		c, clock, log := fake.NewClientBuilder().Build(), newClock(), &testrig.Log{}
		keepers := make([]*Keeper, 8)
		var wg sync.WaitGroup
		for i := range keepers {
			keepers[i] = newTestKeeper(c, clock, log)
			wg.Go(func() {
				if _, err := keepers[i].Ensure(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for _, k := range keepers {
			if !bytes.Equal(k.CA().CertPEM, keepers[0].CA().CertPEM) || !bytes.Equal(k.CA().KeyPEM, keepers[0].CA().KeyPEM) {
				t.Fatal("two replicas have two CAs")
			}
		}
		// Those who renew at once agree too.
		clock.pass(lifetime*2/3 + time.Minute)
		for _, k := range keepers {
			wg.Go(func() {
				if _, err := k.Ensure(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, k := range keepers {
			if !bytes.Equal(k.CA().BundlePEM, keepers[0].CA().BundlePEM) {
				t.Fatal("two replicas have two successors")
			}
		}
	}
}

func TestRenewal(t *testing.T) {
	c, clock, log := fake.NewClientBuilder().Build(), newClock(), &testrig.Log{}
	k, other := newTestKeeper(c, clock, log), newTestKeeper(c, clock, log)
	first := ensure(t, k, true)
	ensure(t, k, false)
	clock.pass(lifetime / 2)
	ensure(t, k, false)

	clock.pass(lifetime/6 + time.Minute)
	announced := ensure(t, k, true)
	if !bytes.Equal(announced.CertPEM, first.CertPEM) {
		t.Fatal("a successor signs before pods can trust it")
	}
	if n := bytes.Count(announced.BundlePEM, []byte("BEGIN")); n != 2 {
		t.Fatalf("%d certificates are trusted instead of 2", n)
	}
	clock.pass(spread - time.Second)
	ensure(t, k, false)
	clock.pass(time.Second)
	second := ensure(t, k, true)
	if bytes.Equal(second.CertPEM, first.CertPEM) {
		t.Fatal("the successor does not sign")
	}
	now := clock.Now()
	if !trusts(t, announced.BundlePEM, second.CertPEM, now) {
		t.Error("a pod that has the bundle of an hour ago does not trust the new CA")
	}
	if !trusts(t, second.BundlePEM, first.CertPEM, now) {
		t.Error("what the old CA signed is not trusted any more")
	}
	if trusts(t, first.BundlePEM, second.CertPEM, now) {
		t.Error("the test shows nothing")
	}
	if got := ensure(t, other, true); !bytes.Equal(got.BundlePEM, second.BundlePEM) {
		t.Error("another replica has another CA")
	}

	clock.pass(lifetime / 3)
	if got := ensure(t, k, true); bytes.Count(got.BundlePEM, []byte("BEGIN")) != 1 {
		t.Error("a certificate that has expired is still in the bundle")
	}
	checkNoKeys(t, c, log.String())
}

func TestExpiredWhileNobodyLooked(t *testing.T) {
	c, clock, log := fake.NewClientBuilder().Build(), newClock(), &testrig.Log{}
	first := ensure(t, newTestKeeper(c, clock, log), true)
	clock.pass(2 * lifetime)
	got := ensure(t, newTestKeeper(c, clock, log), true)
	if bytes.Equal(got.CertPEM, first.CertPEM) || !trusts(t, got.BundlePEM, got.CertPEM, clock.Now()) {
		t.Error("an expired CA still signs")
	}
}

func TestDeletedSecretMakesANewCA(t *testing.T) {
	c, clock, log := fake.NewClientBuilder().Build(), newClock(), &testrig.Log{}
	k := newTestKeeper(c, clock, log)
	first := ensure(t, k, true)
	if err := c.Delete(t.Context(), readSecret(t, c)); err != nil {
		t.Fatal(err)
	}
	if second := ensure(t, k, true); trusts(t, second.BundlePEM, first.CertPEM, clock.Now()) {
		t.Error("a CA whose Secret was deleted is still trusted")
	}
}

func TestUnusableSecret(t *testing.T) {
	f := func(name, want string, damage func(map[string][]byte)) {
		t.Run(name, func(t *testing.T) {
			c, clock, log := fake.NewClientBuilder().Build(), newClock(), &testrig.Log{}
			k := newTestKeeper(c, clock, log)
			ca := ensure(t, k, true)
			s := readSecret(t, c)
			damage(s.Data)
			if err := c.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			_, err := k.Ensure(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "flexinfer-system/flexinfer-ca") || !strings.Contains(err.Error(), "delete it") {
				t.Errorf("error %v", err)
			}
			if k.CA() != ca {
				t.Error("the CA in use was given up")
			}
			checkNoKeys(t, c, log.String()+err.Error())
		})
	}
	f("no certificate", "tls.crt", func(d map[string][]byte) { delete(d, keyCert) })
	f("another key", "do not make a pair", func(d map[string][]byte) { _, d[keyKey], _ = newClock().generate() })
	f("no key", "tls.key", func(d map[string][]byte) { d[keyKey] = []byte("x") })
	f("a bundle of rubbish", "ca.crt", func(d map[string][]byte) {
		d[keyBundle] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	})
	f("half a successor", "next.crt", func(d map[string][]byte) { d[keyNextCert] = d[keyCert] })
}

func TestRunFollows(t *testing.T) {
	c, clock, log := fake.NewClientBuilder().Build(), newClock(), &testrig.Log{}
	k := newTestKeeper(c, clock, log)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got := make(chan *CA, 8)
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx, func(ca *CA) { got <- ca }) }()
	select {
	case ca := <-got:
		if !bytes.Equal(ca.CertPEM, readSecret(t, c).Data[keyCert]) {
			t.Error("Run hands out another CA than the Secret's")
		}
	case <-ctx.Done():
		t.Fatal("Run hands out nothing")
	}
	cancel()
	<-done
}

func TestCAIsNotPrinted(t *testing.T) {
	c, clock, log := fake.NewClientBuilder().Build(), newClock(), &testrig.Log{}
	ca := ensure(t, newTestKeeper(c, clock, log), true)
	slog.New(slog.NewTextHandler(log, nil)).Info("a careless line", "ca", ca)
	checkNoKeys(t, c, log.String())
}

func readSecret(t *testing.T, c client.Client) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "flexinfer-system", Name: SecretName}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkNoKeys fails where a line of a private key stands in a text.
func checkNoKeys(t *testing.T, c client.Client, text string) {
	t.Helper()
	s := readSecret(t, c)
	for _, name := range []string{keyKey, keyNextKey} {
		for line := range strings.Lines(string(s.Data[name])) {
			if line = strings.TrimSpace(line); len(line) > 20 && strings.Contains(text, line) {
				t.Fatalf("a line of %s in: %s", name, text)
			}
		}
	}
	if strings.Contains(text, "PRIVATE KEY") {
		t.Fatalf("a private key in: %s", text)
	}
}
