package fastproxy

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"slices"
	"strings"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

const redacted = "[redacted]"

// shownConfig is what /debug/config answers.
type shownConfig struct {
	Version    string
	Generation uint64
	Applied    time.Time
	Backends   []shownBackend // the live state
	Config     redactedConfig // as it came
}

// redactedConfig is a Config whose certificates show no key.
type redactedConfig struct {
	routing.Config
	Certificates []shownCertificate
}

type shownCertificate struct {
	Key      string
	Subject  string    `json:",omitempty"`
	DNSNames []string  `json:",omitempty"`
	NotAfter time.Time `json:",omitzero"`
	KeyPEM   string
}

type shownBackend struct {
	Key     string
	Active  int64
	Waiting int64
	Targets []shownTarget
}

type shownTarget struct {
	Address    string
	UID        string `json:",omitempty"`
	State      string
	Active     int64
	Reserved   int64
	PassedOver bool
}

// config shows the live configuration and the state of its backends as JSON.
func (a *admin) config(w http.ResponseWriter, _ *http.Request) {
	live, cfg := a.server.snapshot(), a.server.config.Load()
	if live == nil || cfg == nil {
		answerText(w, http.StatusServiceUnavailable, "no configuration yet")
		return
	}
	shown := shownConfig{
		Version: live.Version(), Generation: live.Generation(),
		Applied: wallTime(a.server.metrics.appliedAt.Load()).UTC(),
		Config:  redactConfig(cfg),
	}
	now := unixNow()
	for _, b := range live.Backends() {
		shown.Backends = append(shown.Backends, showBackend(b, now))
	}
	body, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		answerText(w, http.StatusInternalServerError, "cannot show the configuration: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}

func showBackend(b *routing.CompiledBackend, now int64) shownBackend {
	out := shownBackend{
		Key: b.Key, Active: b.State.Active(),
		Waiting: attachmentOf(b.State).queue.depth.Load(), Targets: []shownTarget{},
	}
	add := func(state string, targets ...*routing.Target) {
		for _, t := range targets {
			out.Targets = append(out.Targets, shownTarget{
				Address: t.Address, UID: t.UID, State: state,
				Active: t.Active(), Reserved: t.Reserved(), PassedOver: t.PassedOver(now),
			})
		}
	}
	add(string(routing.EndpointReady), b.Ready...)
	add(string(routing.EndpointDraining), b.Draining...)
	if b.Service != nil {
		add(string(routing.BackendService), b.Service)
	}
	return out
}

// redactConfig is cfg without private keys and without the values of header
// filters whose names suggest a credential.
func redactConfig(cfg *routing.Config) redactedConfig {
	out := redactedConfig{Config: *cfg, Certificates: []shownCertificate{}}
	for i := range cfg.Certificates {
		out.Certificates = append(out.Certificates, showCertificate(&cfg.Certificates[i]))
	}
	out.Routes = slices.Clone(cfg.Routes)
	for i := range out.Routes {
		rules := slices.Clone(out.Routes[i].Rules)
		for j := range rules {
			rules[j].Filters = redactFilters(rules[j].Filters)
			rules[j].Backends = slices.Clone(rules[j].Backends)
			for k := range rules[j].Backends {
				rules[j].Backends[k].Filters = redactFilters(rules[j].Backends[k].Filters)
			}
		}
		out.Routes[i].Rules = rules
	}
	return out
}

func showCertificate(c *routing.Certificate) shownCertificate {
	out := shownCertificate{Key: c.Key, KeyPEM: redacted}
	if block, _ := pem.Decode(c.CertPEM); block != nil {
		if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
			out.Subject, out.DNSNames, out.NotAfter = leaf.Subject.String(), leaf.DNSNames, leaf.NotAfter
		}
	}
	return out
}

func redactFilters(filters []routing.Filter) []routing.Filter {
	out := slices.Clone(filters)
	for i := range out {
		out[i].RequestHeaders = redactHeaders(out[i].RequestHeaders)
		out[i].ResponseHeaders = redactHeaders(out[i].ResponseHeaders)
	}
	return out
}

func redactHeaders(f *routing.HeaderFilter) *routing.HeaderFilter {
	if f == nil {
		return nil
	}
	out := *f
	out.Set, out.Add = slices.Clone(f.Set), slices.Clone(f.Add)
	for _, list := range [2][]routing.Header{out.Set, out.Add} {
		for i := range list {
			if suggestsCredential(list[i].Name) {
				list[i].Value = redacted
			}
		}
	}
	return &out
}

// suggestsCredential says whether a field of that name may carry one.
func suggestsCredential(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "password", "cookie", "credential"},
		func(part string) bool { return strings.Contains(name, part) })
}
