package publish

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// How long certificates last. They begin some time ago, for clocks that differ.
const (
	authorityLife = 2 * 365 * 24 * time.Hour
	servingLife   = 24 * time.Hour
	clientLife    = time.Hour
	backdated     = 5 * time.Minute
)

// Authority signs the certificates of one installation and says what it trusts.
type Authority struct {
	cert  *x509.Certificate
	key   any
	trust *x509.CertPool
	chain []byte // PEM of cert
}

// GenerateAuthority makes a new certificate authority: certificate and key, PEM.
func GenerateAuthority() (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := newTemplate("FlexInfer Gateway CA", authorityLife)
	if err != nil {
		return nil, nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// NewAuthority takes a CA over: certificate and key that sign, and the bundle of
// certificates that are trusted, all PEM. No part of the key is in an error.
func NewAuthority(certPEM, keyPEM, bundlePEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("CA certificate and key do not make a pair: %w", err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	trust := x509.NewCertPool()
	if !trust.AppendCertsFromPEM(bundlePEM) {
		return nil, errors.New("the CA bundle holds no certificate")
	}
	return &Authority{cert: cert, key: pair.PrivateKey, trust: trust, chain: certPEM}, nil
}

// String keeps the key out of logs.
func (a *Authority) String() string { return "CA " + a.cert.SerialNumber.String() }

func newTemplate(name string, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-backdated),
		NotAfter:     now.Add(life),
	}, nil
}

// servingCertificate is a server certificate for names.
func (a *Authority) servingCertificate(names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate("FlexInfer Gateway controller", servingLife)
	if err != nil {
		return nil, err
	}
	template.DNSNames = names
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// signClient makes the client certificate of a gateway pod for the public key of
// csr. Everything else in csr is ignored. The answer is PEM, with the CA behind.
func (a *Authority) signClient(csr *x509.CertificateRequest, who Identity) ([]byte, error) {
	identity, err := who.uri()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate("FlexInfer Gateway pod", clientLife)
	if err != nil {
		return nil, err
	}
	template.URIs = []*url.URL{identity}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, csr.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	leaf := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(leaf, a.chain...), nil
}

// identityScheme is that of the URI in client certificates:
// flexinfer-gateway://NAMESPACE/NAME/POD.
const identityScheme = "flexinfer-gateway"

// uri is how an Identity stands in a certificate.
func (i Identity) uri() (*url.URL, error) {
	namespace, name, ok := strings.Cut(i.Gateway, "/")
	for _, part := range []string{namespace, name, i.Pod} {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			ok = false
		}
	}
	if !ok {
		return nil, fmt.Errorf("%q and %q are no Gateway and pod", i.Gateway, i.Pod)
	}
	return &url.URL{Scheme: identityScheme, Host: namespace, Path: "/" + name + "/" + i.Pod}, nil
}

// identityOf reads the Identity of a verified client certificate.
func identityOf(cert *x509.Certificate) (Identity, error) {
	for _, u := range cert.URIs {
		parts := strings.Split(u.Path, "/")
		if u.Scheme == identityScheme && len(parts) == 3 {
			return Identity{Gateway: u.Host + "/" + parts[1], Pod: parts[2]}, nil
		}
	}
	return Identity{}, errors.New("the client certificate names no gateway pod")
}
