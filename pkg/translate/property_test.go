package translate_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flexinfer.ai/gateway/pkg/routing"
	"flexinfer.ai/gateway/pkg/translate"
)

// eachGolden calls f with a fresh copy of every golden's input.
func eachGolden(t *testing.T, f func(t *testing.T, decode func() translate.Resources, opts translate.Options)) {
	for _, path := range goldens(t) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(path, func(t *testing.T) {
			decode := func() translate.Resources {
				resources, problems := translate.Decode(inFile, []byte(file(archive, inFile)))
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				return resources
			}
			f(t, decode, readOptions(t, archive))
		})
	}
}

func toJSON(t testing.TB, v any) string {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestInputOrderDoesNotMatter(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	eachGolden(t, func(t *testing.T, decode func() translate.Resources, opts translate.Options) {
		rng := rand.New(rand.NewPCG(seed, 0))
		want := toJSON(t, translate.Translate(decode(), opts))
		for range 5 {
			resources := decode()
			shuffleAll(rng, &resources)
			if diff := cmp.Diff(want, toJSON(t, translate.Translate(resources, opts))); diff != "" {
				t.Fatalf("the order of the input changed the result (-want +got):\n%s", diff)
			}
		}
	})
}

func shuffleAll(rng *rand.Rand, r *translate.Resources) {
	shuffle(rng, r.GatewayClasses)
	shuffle(rng, r.Gateways)
	shuffle(rng, r.HTTPRoutes)
	shuffle(rng, r.ReferenceGrants)
	shuffle(rng, r.Models)
	shuffle(rng, r.GatewayParameters)
	shuffle(rng, r.Services)
	shuffle(rng, r.EndpointSlices)
	shuffle(rng, r.Secrets)
	shuffle(rng, r.ConfigMaps)
	shuffle(rng, r.Namespaces)
	shuffle(rng, r.ScaleTargets)
	for _, s := range r.EndpointSlices {
		shuffle(rng, s.Endpoints)
	}
}

func shuffle[T any](rng *rand.Rand, s []T) {
	rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

func TestInputIsOnlyRead(t *testing.T) {
	eachGolden(t, func(t *testing.T, decode func() translate.Resources, opts translate.Options) {
		resources := decode()
		translate.Translate(resources, opts)
		if diff := cmp.Diff(toJSON(t, decode()), toJSON(t, resources)); diff != "" {
			t.Errorf("Translate changed its input (-before +after):\n%s", diff)
		}
	})
}

// TestStatusesSettle writes the statuses into the objects and translates again,
// later: nothing may change, the transition times least of all.
func TestStatusesSettle(t *testing.T) {
	eachGolden(t, func(t *testing.T, decode func() translate.Resources, opts translate.Options) {
		resources := decode()
		// A phase without managed fields would look like somebody else's.
		opts.FieldManager = "us"
		first := translate.Translate(resources, opts)
		writeStatuses(resources, first)
		opts.Now = metav1.NewTime(opts.Now.Add(time.Hour))
		second := translate.Translate(resources, opts)
		if diff := cmp.Diff(toJSON(t, first), toJSON(t, second)); diff != "" {
			t.Errorf("the second translation differs (-first +second):\n%s", diff)
		}
	})
}

func writeStatuses(res translate.Resources, r translate.Result) {
	for _, s := range r.GatewayClasses {
		for _, o := range res.GatewayClasses {
			if o.Name == s.Name.Name {
				o.Status = s.Status
			}
		}
	}
	for _, s := range r.Gateways {
		for _, o := range res.Gateways {
			if o.Name == s.Name.Name && o.Namespace == s.Name.Namespace {
				o.Status = s.Status
			}
		}
	}
	for _, s := range r.HTTPRoutes {
		for _, o := range res.HTTPRoutes {
			if o.Name == s.Name.Name && o.Namespace == s.Name.Namespace {
				o.Status = s.Status
			}
		}
	}
	for _, s := range r.Models {
		for _, o := range res.Models {
			if o.Name == s.Name.Name && o.Namespace == s.Name.Namespace {
				if o.Status.Phase == "" { // else it is its author's
					o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "us", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
				}
				o.Status = s.Status
			}
		}
	}
}

// TestEveryConfigCompiles holds the contract between this package and the data
// plane: what Translate gives, Compile takes.
func TestEveryConfigCompiles(t *testing.T) {
	eachGolden(t, func(t *testing.T, decode func() translate.Resources, opts translate.Options) {
		mustCompile(t, translate.Translate(decode(), opts))
	})
}

func mustCompile(t testing.TB, r translate.Result) {
	t.Helper()
	options := routing.DefaultOptions()
	for _, g := range r.Configs {
		if _, err := routing.Compile(&g.Config, &options, nil, routing.NewRegistry(routing.Hooks{})); err != nil {
			t.Errorf("the Config of Gateway %s does not compile: %v", g.Gateway, err)
		}
	}
}
