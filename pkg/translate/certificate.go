package translate

import (
	"crypto/tls"
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
		return problem("does not exist: create it with type %s", corev1.SecretTypeTLS)
	}
	certPEM, keyPEM := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	for _, k := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(secret.Data[k]) == 0 {
			return problem("has no %s: create it with type %s", k, corev1.SecretTypeTLS)
		}
	}
	// The error of X509KeyPair tells the kind of mistake and never key material.
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return problem("holds no usable certificate and key (%s): fill it with a PEM certificate chain, leaf first, and its key", err)
	}
	return certificateResult{cert: routing.Certificate{
		Key:     "Secret/" + name.String(),
		CertPEM: certPEM,
		KeyPEM:  keyPEM,
	}}
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
