package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Labels of everything that is provisioned. Those of the Gateway API are
// GEP-1762's.
const (
	LabelGateway      = gwapiv1.GatewayNameLabelKey
	LabelGatewayClass = gwapiv1.GatewayClassNameLabelKey
	LabelManagedBy    = "app.kubernetes.io/managed-by"
	LabelAppName      = "app.kubernetes.io/name"
	LabelComponent    = "app.kubernetes.io/component"
	// ManagedBy is the value of LabelManagedBy; the reconciler lists and watches
	// by it.
	ManagedBy = "flexinfer-controller"
)

// maxName is the length of a Service's name, and of a label's value.
const maxName = 63

// Name is the name of every object that is provisioned for a Gateway of a class,
// in the Gateway's namespace; the ServiceAccount that its pods run as among
// them. It is a DNS label of at most 63 bytes that begins with a letter, and
// differs between any two (Gateway, class): "inference-0b1f6f6d", the hash being
// the class's. A Gateway name that is too long, has dots or begins with a digit
// is cut and spelled so that a hash of its own must follow.
func Name(gateway types.NamespacedName, class string) string {
	suffix := "-" + shortHash(class)
	name := gateway.Name
	if len(name)+len(suffix) > maxName || len(validation.IsDNS1035Label(name)) > 0 {
		suffix = "-" + shortHash(name) + suffix
		name = strings.ReplaceAll(name, ".", "-")
		if len(validation.IsDNS1035Label(name[:1])) > 0 {
			name = "gw-" + name
		}
		name = strings.TrimRight(name[:min(len(name), maxName-len(suffix))], "-")
	}
	return name + suffix
}

// labelValue is a name as the value of a label: itself, or its beginning and a
// hash where it is longer than 63 bytes.
func labelValue(name string) string {
	if len(name) <= maxName {
		return name
	}
	hash := shortHash(name)
	return strings.TrimRight(name[:maxName-len(hash)-1], "-.") + "-" + hash
}

// shortHash is 8 hexadecimal digits of a text's SHA-256.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// selector are the labels by which the pods of a Gateway are found. A workload's
// selector cannot be changed, so nothing else may ever enter it.
func selector(gateway types.NamespacedName, class string) map[string]string {
	return map[string]string{
		LabelGateway:      labelValue(gateway.Name),
		LabelGatewayClass: labelValue(class),
	}
}
