package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. tls.crt and tls.key sign; ca.crt is everything that is
// trusted; next.* is a successor that is trusted already and signs from
// next-since plus spread on.
const (
	keyCert      = corev1.TLSCertKey
	keyKey       = corev1.TLSPrivateKeyKey
	keyBundle    = "ca.crt"
	keyNextCert  = "next.crt"
	keyNextKey   = "next.key"
	keyNextSince = "next-since" // RFC 3339
)

// spread is how long a successor is only trusted before it signs: long enough
// for kubelets to have brought the bundle into every gateway pod.
const spread = time.Hour

// pair is a CA's certificate and key, PEM.
type pair struct{ cert, key []byte }

// material is what the Secret holds.
type material struct {
	current pair
	ca      *x509.Certificate // of current
	next    *pair
	nextCA  *x509.Certificate
	since   time.Time           // when next came
	trusted []*x509.Certificate // current's first
}

// newMaterial is a new CA's.
func newMaterial(generate func() (cert, key []byte, err error)) (material, error) {
	p, ca, err := newPair(generate)
	if err != nil {
		return material{}, err
	}
	return material{current: p, ca: ca, trusted: []*x509.Certificate{ca}}, nil
}

func newPair(generate func() (cert, key []byte, err error)) (pair, *x509.Certificate, error) {
	cert, key, err := generate()
	if err != nil {
		return pair{}, nil, fmt.Errorf("cannot make a certificate authority: %w", err)
	}
	p := pair{cert, key}
	ca, err := p.parse()
	return p, ca, err
}

// parse checks that certificate and key belong together and make a CA. No part
// of the key is ever in an error.
func (p pair) parse() (*x509.Certificate, error) {
	parsed, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("certificate and key do not make a pair: %w", err)
	}
	ca, err := x509.ParseCertificate(parsed.Certificate[0])
	if err != nil {
		return nil, err
	}
	if !ca.IsCA {
		return nil, errors.New("the certificate is not one of a certificate authority")
	}
	return ca, nil
}

// decode reads the Secret's data.
func decode(data map[string][]byte) (material, error) {
	m := material{current: pair{data[keyCert], data[keyKey]}}
	var err error
	if m.ca, err = m.current.parse(); err != nil {
		return material{}, fmt.Errorf("%s and %s: %w", keyCert, keyKey, err)
	}
	if len(data[keyNextCert]) > 0 {
		next := pair{data[keyNextCert], data[keyNextKey]}
		if m.nextCA, err = next.parse(); err != nil {
			return material{}, fmt.Errorf("%s and %s: %w", keyNextCert, keyNextKey, err)
		}
		if m.since, err = time.Parse(time.RFC3339, string(data[keyNextSince])); err != nil {
			return material{}, fmt.Errorf("%s: %w", keyNextSince, err)
		}
		m.next = &next
	}
	bundle, err := parseBundle(data[keyBundle])
	if err != nil {
		return material{}, fmt.Errorf("%s: %w", keyBundle, err)
	}
	m.trusted = bundle
	m.settle()
	return m, nil
}

// settle gives the bundle its one order: the signing certificate, a successor,
// the others as they stood; each once.
func (m *material) settle() {
	others := m.trusted
	m.trusted = nil
	m.trust(m.ca)
	if m.next != nil {
		m.trust(m.nextCA)
	}
	for _, c := range others {
		m.trust(c)
	}
}

func parseBundle(raw []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			return list, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

// trust adds a certificate to the bundle, once.
func (m *material) trust(c *x509.Certificate) {
	for _, have := range m.trusted {
		if have.Equal(c) {
			return
		}
	}
	m.trusted = append(m.trusted, c)
}

// bundle is what is trusted, PEM.
func (m *material) bundle() []byte {
	var b bytes.Buffer
	for _, c := range m.trusted {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.Bytes()
}

// encode is the Secret's data.
func (m *material) encode() map[string][]byte {
	data := map[string][]byte{keyCert: m.current.cert, keyKey: m.current.key, keyBundle: m.bundle()}
	if m.next != nil {
		data[keyNextCert], data[keyNextKey] = m.next.cert, m.next.key
		data[keyNextSince] = []byte(m.since.UTC().Format(time.RFC3339))
	}
	return data
}

// renew does what is due: a successor where a third of the lifetime or less is
// left, its turn to sign once it has spread, an end to certificates that have
// expired. A CA that has expired itself is succeeded at once.
func (m *material) renew(now time.Time, generate func() (cert, key []byte, err error)) (changed bool, err error) {
	third := m.ca.NotAfter.Sub(m.ca.NotBefore) / 3
	if m.next == nil && now.After(m.ca.NotAfter.Add(-third)) {
		next, ca, err := newPair(generate)
		if err != nil {
			return false, err
		}
		m.next, m.nextCA, m.since = &next, ca, now
		changed = true
	}
	if m.next != nil && (now.Sub(m.since) >= spread || now.After(m.ca.NotAfter)) {
		m.current, m.ca, m.next, m.nextCA = *m.next, m.nextCA, nil, nil
		changed = true
	}
	m.settle()
	var kept []*x509.Certificate
	for _, c := range m.trusted {
		if c.Equal(m.ca) || !now.After(c.NotAfter) {
			kept = append(kept, c)
		}
	}
	changed = changed || len(kept) != len(m.trusted)
	m.trusted = kept
	return changed, nil
}
