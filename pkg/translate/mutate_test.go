package translate_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"flexinfer.ai/gateway/pkg/translate"
)

// FuzzTranslate translates goldens whose objects were changed at random, as no
// API server would let pass: Translate must not panic, and what it gives must
// compile all the same.
func FuzzTranslate(f *testing.F) {
	inputs := mutationInputs(f)
	for i := range uint64(len(inputs)) {
		f.Add(i, i)
	}
	f.Fuzz(func(t *testing.T, which, seed uint64) {
		mutated := mutate(t, rand.New(rand.NewPCG(seed, 1)), inputs[which%uint64(len(inputs))])
		mustCompile(t, translate.Translate(mutated, translate.Options{
			Now: now, ImpliedClass: "ours", SharedAddress: seed%2 == 0,
		}))
	})
}

// TestTranslateMutated is a round of FuzzTranslate for every test run.
func TestTranslateMutated(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	inputs := mutationInputs(t)
	for range 3000 {
		mustCompile(t, translate.Translate(mutate(t, rng, inputs[rng.IntN(len(inputs))]), translate.Options{
			Now: now, ImpliedClass: "ours", SharedAddress: rng.IntN(2) == 0,
		}))
		if t.Failed() {
			return
		}
	}
}

// mutationInputs are the goldens' resources as JSON.
func mutationInputs(t testing.TB) [][]byte {
	var inputs [][]byte
	for _, path := range goldens(t) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		resources, _ := translate.Decode(inFile, []byte(file(archive, inFile)))
		inputs = append(inputs, []byte(toJSON(t, resources)))
	}
	return inputs
}

// mutate changes a few values of the resources.
func mutate(t testing.TB, rng *rand.Rand, input []byte) translate.Resources {
	var tree any
	if err := json.Unmarshal(input, &tree); err != nil {
		t.Fatal(err)
	}
	for range 1 + rng.IntN(6) {
		tree = mutateOne(rng, tree)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var resources translate.Resources
	// Values of the wrong type are left at zero, the rest is decoded.
	_ = json.Unmarshal(raw, &resources)
	return resources
}

// oddValues take the place of others, as JSON.
var oddValues = []string{
	`null`, `""`, `"*"`, `"*."`, `"."`, `"a..b"`, `"UPPER.Case"`, `"/"`, `"//"`, `"no-slash"`, `"("`, `"\\Qopen"`, `"\u0000"`,
	`"Host"`, `"content-length"`, `"unknown"`, `"0s"`, `"-1s"`, `"10.0.0.1"`, `"fd00::1"`, `"None"`, `"HTTP"`, `"HTTPS"`,
	`"TCP"`, `"All"`, `"ours"`, `0`, `-1`, `1`, `80`, `70000`, `1099511627776`, `true`, `false`,
	`{}`, `[]`, `[null]`, `[{}]`,
}

func oddValue(rng *rand.Rand) (v any) {
	if err := json.Unmarshal([]byte(oddValues[rng.IntN(len(oddValues))]), &v); err != nil {
		panic(err)
	}
	return v
}

func mutateOne(rng *rand.Rand, node any) any {
	if rng.IntN(12) == 0 {
		return oddValue(rng)
	}
	switch node := node.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(node))
		if len(keys) == 0 {
			return node
		}
		key := keys[rng.IntN(len(keys))]
		if rng.IntN(15) == 0 {
			delete(node, key)
			return node
		}
		node[key] = mutateOne(rng, node[key])
		return node
	case []any:
		if len(node) == 0 {
			return node
		}
		i := rng.IntN(len(node))
		if rng.IntN(15) == 0 {
			return append(node, copyOf(node[i]))
		}
		node[i] = mutateOne(rng, node[i])
		return node
	}
	return oddValue(rng)
}

func copyOf(v any) (out any) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}
