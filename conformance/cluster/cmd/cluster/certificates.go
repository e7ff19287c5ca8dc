package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// identity is one certificate of the cluster. The groups are the ones that
// Kubernetes' built-in roles are bound to.
type identity struct {
	file   string // pki/FILE.crt and pki/FILE.key
	user   string
	group  string
	server []string // DNS names and addresses; none: a client certificate
}

var identities = []identity{
	{file: "apiserver", user: "kube-apiserver", server: []string{
		"localhost", "127.0.0.1", nodeAddress, apiService, "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}},
	{file: "kubelet-server", user: "system:node:" + nodeName, group: "system:nodes", server: []string{nodeName, nodeAddress, "127.0.0.1"}},
	{file: "apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", group: "system:masters"},
	{file: "admin", user: "cluster-admin", group: "system:masters"},
	{file: "kubelet", user: "system:node:" + nodeName, group: "system:nodes"},
	{file: "kube-controller-manager", user: "system:kube-controller-manager"},
	{file: "kube-scheduler", user: "system:kube-scheduler"},
	{file: "kube-proxy", user: "system:kube-proxy"},
}

// writePKI makes the authority, all certificates and the key that signs
// ServiceAccount tokens, unless a run of this cluster has made them.
func (l layout) writePKI() error {
	complete := l.pki("complete")
	if _, err := os.Stat(complete); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(complete), 0o700); err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := l.writePair("ca", ca.certificate.Raw, ca.key); err != nil {
		return err
	}
	for _, id := range identities {
		der, key, err := ca.issue(id)
		if err != nil {
			return fmt.Errorf("certificate of %s: %w", id.file, err)
		}
		if err := l.writePair(id.file, der, key); err != nil {
			return err
		}
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writeKey(l.pki("service-account.key"), signer); err != nil {
		return err
	}
	return os.WriteFile(complete, nil, 0o600)
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	draft := newTemplate(clusterName, "")
	draft.IsCA, draft.BasicConstraintsValid = true, true
	draft.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, draft, draft, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate, key}, err
}

func (a *authority) issue(id identity) (der []byte, key *ecdsa.PrivateKey, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	draft := newTemplate(id.user, id.group)
	draft.KeyUsage = x509.KeyUsageDigitalSignature
	draft.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.server) > 0 {
		draft.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, name := range id.server {
		if address := net.ParseIP(name); address != nil {
			draft.IPAddresses = append(draft.IPAddresses, address)
		} else {
			draft.DNSNames = append(draft.DNSNames, name)
		}
	}
	der, err = x509.CreateCertificate(rand.Reader, draft, a.certificate, key.Public(), a.key)
	return der, key, err
}

func newTemplate(user, group string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	subject := pkix.Name{CommonName: user}
	if group != "" {
		subject.Organization = []string{group}
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
	}
}

func (l layout) writePair(name string, der []byte, key *ecdsa.PrivateKey) error {
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(l.pki(name+".crt"), block, 0o600); err != nil {
		return err
	}
	return writeKey(l.pki(name+".key"), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
