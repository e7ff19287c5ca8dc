package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// serverName is what clients ask for in a handshake.
const serverName = "bench.example"

// writeCertificate writes a certificate of its own (ECDSA P-256) into dir:
// cert.pem, key.pem, and both.pem with the two of them.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	write := func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, name), content, 0o600)
	}
	return errors.Join(write("cert.pem", certPEM), write("key.pem", keyPEM),
		write("both.pem", append(append([]byte(nil), certPEM...), keyPEM...)))
}

// readCertificate puts the certificate into s, for a Secret.
func (s *settings) readCertificate() error {
	for name, to := range map[string]*string{"cert.pem": &s.Cert, "key.pem": &s.Key} {
		b, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			return err
		}
		*to = base64.StdEncoding.EncodeToString(b)
	}
	return nil
}
