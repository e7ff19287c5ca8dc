package control

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flexinfer.ai/gateway/internal/control/scale"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// world is what deciding about serverless Models needs of the cluster. served
// are the Configs of the Gateways, idle is the idle time of Models that set none.
func world(models []*v1alpha2.Model, served map[types.NamespacedName]*routing.Config, pods map[string][]string, idle time.Duration) scale.World {
	w := scale.World{Pods: pods}
	users := modelUsers(served)
	for _, m := range models {
		s := m.Spec.Serverless
		if s == nil || s.Enabled != nil && !*s.Enabled || m.DeletionTimestamp != nil {
			continue
		}
		key := m.Namespace + "/" + m.Name
		target := m.ScaleTarget()
		model := scale.Model{
			Key: key, MinReplicas: s.MinReplicas, IdleTimeout: idle, Generation: m.Generation,
			Target:   scale.Target{APIVersion: target.APIVersion, Kind: target.Kind, Namespace: m.Namespace, Name: target.Name},
			Gateways: users[key].gateways,
			Held:     users[key].failed,
		}
		if s.IdleTimeout != nil {
			if d, err := time.ParseDuration(string(*s.IdleTimeout)); err == nil {
				model.IdleTimeout = d
			}
		}
		if m.Status.LastActiveTime != nil {
			model.LastActive = m.Status.LastActiveTime.Time
		}
		w.Models = append(w.Models, model)
	}
	return w
}

// modelUse is who serves a Model.
type modelUse struct {
	gateways []string // sorted
	failed   bool     // its operator says that it cannot serve
}

// modelUsers finds the Gateways whose Configs hold each Model.
func modelUsers(served map[types.NamespacedName]*routing.Config) map[string]modelUse {
	users := map[string]modelUse{}
	for name, config := range served {
		for i := range config.Backends {
			b := &config.Backends[i]
			if b.Kind != routing.BackendModel {
				continue
			}
			key := b.Namespace + "/" + b.Name
			use := users[key]
			use.gateways = append(use.gateways, name.String())
			use.failed = use.failed || b.Phase == routing.PhaseFailed
			users[key] = use
		}
	}
	for _, use := range users {
		slices.SortFunc(use.gateways, strings.Compare)
	}
	return users
}
