package translate

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// compareNames orders by namespace, then name.
func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// compareAge orders objects as the Gateway API resolves conflicts: the older
// first, then by namespace and name. Objects without a creation time, as files
// have them, are the oldest.
func compareAge(a, b metav1.Object) int {
	return cmp.Or(
		cmp.Compare(createdSeconds(a), createdSeconds(b)),
		compareNames(nameOf(a), nameOf(b)),
	)
}

// createdSeconds is the creation time in Unix seconds, 0 where there is none.
func createdSeconds(o metav1.Object) int64 {
	created := o.GetCreationTimestamp()
	if created.IsZero() {
		return 0
	}
	return created.Unix()
}
