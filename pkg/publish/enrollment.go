package publish

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// Bounds of one enrollment and of one connect.
const (
	enrollTime  = 15 * time.Second
	connectTime = 5 * time.Second
)

// enrollment gets this pod its client certificate, which all sessions share.
type enrollment struct {
	caFile, tokenFile, serverName string

	mu   sync.Mutex
	have *credential
}

// credential is a client certificate and from when on it is due for renewal.
type credential struct {
	cert  tls.Certificate
	renew time.Time
}

// signedBy reports whether one of the trusted CAs has signed the certificate: the
// controller trusts the same ones.
func (c *credential) signedBy(trust *x509.CertPool) bool {
	_, err := c.cert.Leaf.Verify(x509.VerifyOptions{
		Roots: trust, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		CurrentTime: c.cert.Leaf.NotBefore, // whether it has expired is for the controller's clock to say
	})
	return err == nil
}

// current is a credential that is good for some time; it is got from the replica
// at address if need be.
func (e *enrollment) current(ctx context.Context, address string) (*credential, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	trust, err := e.trust()
	if err != nil {
		return nil, err
	}
	if e.have != nil && time.Now().Before(e.have.renew) && e.have.signedBy(trust) {
		return e.have, nil
	}
	ctx, cancel := context.WithTimeout(ctx, enrollTime)
	defer cancel()
	c, err := e.enroll(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("cannot enroll: %w", err)
	}
	e.have = c
	return c, nil
}

// drop forgets a credential that was refused.
func (e *enrollment) drop(c *credential) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.have == c {
		e.have = nil
	}
}

func (e *enrollment) enroll(ctx context.Context, address string) (*credential, error) {
	token, err := os.ReadFile(e.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("the ServiceAccount token cannot be read: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	conn, err := e.dial(address, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token)))
	var response enrollResponse
	if err := conn.Invoke(ctx, enrollMethod, &enrollRequest{CSR: csr}, &response); err != nil {
		return nil, err
	}
	return newCredential(key, response.Chain)
}

func newCredential(key *ecdsa.PrivateKey, chain []byte) (*credential, error) {
	c := &credential{cert: tls.Certificate{PrivateKey: key}}
	for {
		var block *pem.Block
		if block, chain = pem.Decode(chain); block == nil {
			break
		}
		c.cert.Certificate = append(c.cert.Certificate, block.Bytes)
	}
	if len(c.cert.Certificate) == 0 {
		return nil, errors.New("the controller sent no certificate")
	}
	leaf, err := x509.ParseCertificate(c.cert.Certificate[0])
	if err != nil {
		return nil, err
	}
	c.cert.Leaf = leaf
	c.renew = renewAt(leaf)
	return c, nil
}

// leastLife is how long a credential is used at least, unless it is refused.
const leastLife = 10 * time.Second

// renewAt is when a certificate that was made a moment ago is due for renewal,
// whatever the clock of this machine says of its times.
func renewAt(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore) - backdated
	return time.Now().Add(max(life*3/4, leastLife))
}

// trust reads the certificates by which the controller is known.
func (e *enrollment) trust() (*x509.CertPool, error) {
	bundle, err := os.ReadFile(e.caFile)
	if err != nil {
		return nil, fmt.Errorf("the controller's CA cannot be read: %w", err)
	}
	trust := x509.NewCertPool()
	if !trust.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s holds no certificate", e.caFile)
	}
	return trust, nil
}

// dial prepares a connection to one replica; c is nil before enrollment.
func (e *enrollment) dial(address string, c *credential) (*grpc.ClientConn, error) {
	trust, err := e.trust()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trust, ServerName: e.serverName}
	if c != nil {
		config.Certificates = []tls.Certificate{c.cert}
	}
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxUpdateBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTime}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithNoProxy(),
		grpc.WithUserAgent("flexinfer-gateway"))
}
