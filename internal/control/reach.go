package control

import (
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// How often the API server is asked whether it is there, how long it may take to
// answer, and after how many failures in a row it is out of reach.
const (
	reachEvery = 2 * time.Second
	reachTime  = 3 * time.Second
	reachFails = 2
)

// reach knows whether this replica reaches the API server. A watch that hears
// nothing looks the same as one of a world in which nothing happens; gateway pods
// must not follow a replica that is cut off while others are not.
type reach struct {
	probe  func(ctx context.Context) error
	lost   func(bool)
	logger *slog.Logger

	every, patience time.Duration
}

func newReach(probe func(ctx context.Context) error, lost func(bool), logger *slog.Logger) *reach {
	return &reach{probe: probe, lost: lost, logger: logger, every: reachEvery, patience: reachTime}
}

// run asks until ctx ends.
func (r *reach) run(ctx context.Context) {
	fails := 0
	for {
		err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if fails++; fails == reachFails {
				r.logger.Error("the API server is out of reach: gateway pods follow another replica, if there is one", "error", err)
				r.lost(true)
			}
		case fails >= reachFails:
			r.logger.Info("the API server is within reach again")
			r.lost(false)
			fails = 0
		default:
			fails = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.every):
		}
	}
}

// ask is nil where the API server has answered, whatever it says.
func (r *reach) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	err := r.probe(ctx)
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return nil
	}
	return err
}
