package main

import (
	"crypto/x509"
	"testing"
)

// Every certificate is good for what it is for, and for nothing else.
func TestIssuedCertificates(t *testing.T) {
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	for _, id := range identities {
		der, _, err := ca.issue(id)
		if err != nil {
			t.Fatalf("%s: %v", id.file, err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatalf("%s: %v", id.file, err)
		}
		verify := func(name string, usage x509.ExtKeyUsage) error {
			_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}})
			return err
		}
		for _, name := range id.server {
			if err := verify(name, x509.ExtKeyUsageServerAuth); err != nil {
				t.Errorf("%s as %s: %v", id.file, name, err)
			}
		}
		if client := verify("", x509.ExtKeyUsageClientAuth) == nil; client != (len(id.server) == 0) {
			t.Errorf("%s: a client's certificate: %v", id.file, client)
		}
		if certificate.IsCA || certificate.Subject.CommonName != id.user {
			t.Errorf("%s: IsCA=%v, user %q", id.file, certificate.IsCA, certificate.Subject.CommonName)
		}
	}
}
