package dataplane

import (
	"errors"
	"time"

	"flexinfer.ai/gateway/pkg/fastproxy"
	"flexinfer.ai/gateway/pkg/routing"
)

// maxLeftOut bounds the resources that Apply leaves out of one Config: each
// costs another compilation, and a Config with more is broken as a whole.
const maxLeftOut = 64

// BindRetry is how long a port that could not be bound is left alone.
const BindRetry = 5 * time.Second

// Apply serves cfg. A resource that does not compile is left out, and the rest
// is served: one object never freezes a gateway. left holds those resources.
// The error is a *routing.CompileError where even so nothing could be applied
// and the old Config goes on, else it names the ports that cannot be bound;
// everything else is then served.
func Apply(s *fastproxy.Server, cfg *routing.Config) (left []*routing.CompileError, err error) {
	for {
		err := s.Apply(cfg)
		var refused *routing.CompileError
		if !errors.As(err, &refused) {
			return left, err
		}
		rest, found := cfg.Without(refused.Key)
		if !found || len(left) == maxLeftOut {
			return left, err
		}
		left = append(left, refused)
		cfg = rest
	}
}
