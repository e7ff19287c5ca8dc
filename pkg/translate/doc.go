// Package translate turns Kubernetes objects into what the data plane serves
// and into the statuses that tell users what became of their objects.
package translate
