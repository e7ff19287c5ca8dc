package translate

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"flexinfer.ai/gateway/pkg/routing"
)

// certificateResult is what became of one Secret: a certificate, or why not.
type certificateResult struct {
	cert    routing.Certificate
	problem string
}

// resolveCertificates resolves the certificateRefs of a Gateway's listener, in
// their order. Refs that cannot be used are left out and found.
func (t *translation) resolveCertificates(g *gwapiv1.Gateway, refs []gwapiv1.SecretObjectReference, field string) (keys []string, found []finding) {
	for i, ref := range refs {
		at := fmt.Sprintf("%s[%d]", field, i)
		key, f := t.resolveCertificate(g, ref, at)
		if f != nil {
			found = append(found, *f)
			continue
		}
		keys = append(keys, key)
	}
	return keys, found
}

func (t *translation) resolveCertificate(g *gwapiv1.Gateway, ref gwapiv1.SecretObjectReference, field string) (string, *finding) {
	invalid := func(format string, args ...any) *finding {
		return &finding{
			reason:  string(gwapiv1.ListenerReasonInvalidCertificateRef),
			field:   field,
			message: fmt.Sprintf(format, args...),
		}
	}
	group, kind := deref(ref.Group, ""), deref(ref.Kind, "Secret")
	if group != "" || kind != "Secret" {
		return "", invalid("a certificate of kind %s is not supported: name a Secret of type %s", groupKind(group, kind), corev1.SecretTypeTLS)
	}
	name := types.NamespacedName{Namespace: deref(ref.Namespace, g.Namespace), Name: string(ref.Name)}
	if !t.grants.allows(grantKey{
		fromGroup: gwapiv1.GroupName, fromKind: "Gateway", fromNamespace: g.Namespace,
		toKind: "Secret", toNamespace: name.Namespace, toObject: name.Name,
	}) {
		return "", &finding{
			reason:  string(gwapiv1.ListenerReasonRefNotPermitted),
			field:   field,
			message: notPermitted("Secret", name, "Gateway", g.Namespace),
		}
	}
	result := t.certificate(name)
	if result.problem != "" {
		return "", invalid("%s", result.problem)
	}
	return result.cert.Key, nil
}

// certificate reads a Secret, once in a translation.
func (t *translation) certificate(name types.NamespacedName) certificateResult {
	if r, ok := t.certs[name]; ok {
		return r
	}
	r := readCertificate(name, t.in.secrets[name])
	t.certs[name] = r
	return r
}

func readCertificate(name types.NamespacedName, secret *corev1.Secret) certificateResult {
	problem := func(format string, args ...any) certificateResult {
		return certificateResult{problem: fmt.Sprintf("Secret %s ", name) + fmt.Sprintf(format, args...)}
	}
	if secret == nil {
		// Secrets of other types are not watched.
		return problem("does not exist, or is not of type %s: create it with that type (the type of an existing Secret cannot be changed: delete it first)", corev1.SecretTypeTLS)
	}
	certPEM, keyPEM := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	for _, k := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(secret.Data[k]) == 0 {
			return problem("has no %s: create it with type %s", k, corev1.SecretTypeTLS)
		}
	}
	if what := keyPairVerdicts.of(pairHash(certPEM, keyPEM), func() string { return checkKeyPair(certPEM, keyPEM) }); what != "" {
		return problem("%s", what)
	}
	return certificateResult{cert: routing.Certificate{
		Key:     "Secret/" + name.String(),
		CertPEM: certPEM,
		KeyPEM:  keyPEM,
	}}
}

// Bounds of a Secret's data, in bytes: of the chain, of the key's file, and of the
// key itself in DER, which has room for 8192 bits of RSA. A key's parsing takes
// time that grows with the cube of its length: seconds, where nothing bounds it.
const (
	maxChainLength   = 256 << 10
	maxKeyFileLength = 64 << 10
	maxKeyLength     = 5 << 10
)

// keyPairVerdicts are the problems with certificates and their keys, by hash.
var keyPairVerdicts = newVerdicts[[sha256.Size]byte, string](4096)

func pairHash(certPEM, keyPEM []byte) (sum [sha256.Size]byte) {
	cert, key := sha256.Sum256(certPEM), sha256.Sum256(keyPEM)
	return sha256.Sum256(append(cert[:], key[:]...))
}

// checkKeyPair finds what keeps a certificate and its key from being used; "" is
// nothing.
func checkKeyPair(certPEM, keyPEM []byte) (problem string) {
	switch {
	case len(certPEM) > maxChainLength:
		return fmt.Sprintf("holds a %s of %d bytes: use a chain of at most %d", corev1.TLSCertKey, len(certPEM), maxChainLength)
	case len(keyPEM) > maxKeyFileLength || hasLargeBlock(keyPEM):
		return fmt.Sprintf("holds a %s that is too large: use one private key, of RSA at most 8192 bits", corev1.TLSPrivateKeyKey)
	}
	// The error of X509KeyPair tells the kind of mistake and never key material.
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return fmt.Sprintf("holds no usable certificate and key (%s): fill it with a PEM certificate chain, leaf first, and its key", err)
	}
	return ""
}

func hasLargeBlock(pemData []byte) bool {
	for {
		var block *pem.Block
		if block, pemData = pem.Decode(pemData); block == nil {
			return false
		}
		if len(block.Bytes) > maxKeyLength {
			return true
		}
	}
}

// groupKind names a kind for people.
func groupKind(group, kind string) string {
	if group == "" {
		return kind
	}
	return group + "/" + kind
}

// notPermitted explains a missing ReferenceGrant.
func notPermitted(toKind string, to types.NamespacedName, fromKind, fromNamespace string) string {
	return fmt.Sprintf("%s %s is in another namespace, and no ReferenceGrant there permits it: create one in namespace %s from kind %s in namespace %s to kind %s",
		toKind, to, to.Namespace, fromKind, fromNamespace, toKind)
}
