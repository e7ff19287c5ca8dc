package translate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"flexinfer.ai/gateway/pkg/routing"
	"flexinfer.ai/gateway/pkg/translate"
)

var update = flag.Bool("update", false, "rewrite config.yaml and status.yaml of the goldens")

// now is the transition time of every golden.
var now = metav1.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

const (
	inFile     = "in.yaml"
	optionFile = "options.yaml" // optional
	configFile = "config.yaml"
	statusFile = "status.yaml"
)

// goldenOptions is what options.yaml may set.
type goldenOptions struct {
	SharedAddress bool                `json:"sharedAddress,omitempty"`
	ImpliedClass  string              `json:"impliedClass,omitempty"`
	Addresses     map[string][]string `json:"addresses,omitempty"` // by "namespace/name"
	Pending       map[string]string   `json:"pending,omitempty"`
	// Refused are reasons by Key, of the Gateway's resources as in.yaml gives them.
	Refused map[string]map[string]string `json:"refused,omitempty"`
}

// TestGoldens translates in.yaml of every archive under testdata and compares
// the configuration and the statuses with the archive's.
func TestGoldens(t *testing.T) {
	for _, path := range goldens(t) {
		name, _ := strings.CutPrefix(path, "testdata/")
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(bytes.TrimSpace(archive.Comment)) == 0 {
				t.Error("the archive does not say which rule it shows")
			}
			result := translateGolden(t, archive)
			got := map[string]string{
				configFile: marshal(t, configView(result)),
				statusFile: marshal(t, statusView(result)),
			}
			if *update {
				rewrite(t, path, archive, got)
				return
			}
			for _, name := range []string{configFile, statusFile} {
				if diff := cmp.Diff(file(archive, name), got[name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func goldens(t testing.TB) []string {
	var paths []string
	for _, dir := range []string{"cases", "conformance"} {
		found, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no goldens found in %s: %v", dir, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func translateGolden(t testing.TB, archive *txtar.Archive) translate.Result {
	resources, problems := translate.Decode(inFile, []byte(file(archive, inFile)))
	for _, p := range problems {
		t.Errorf("unexpected problem: %s", p)
	}
	opts := readOptions(t, archive)
	refuse(t, archive, resources, &opts)
	return translate.Translate(resources, opts)
}

// refuse translates once without refusals, so that the resources can be refused
// as they are.
func refuse(t testing.TB, archive *txtar.Archive, resources translate.Resources, opts *translate.Options) {
	var o goldenOptions
	if err := yaml.UnmarshalStrict([]byte(file(archive, optionFile)), &o); err != nil {
		t.Fatal(err)
	}
	for _, c := range translate.Translate(resources, *opts).Configs {
		reasons := o.Refused[c.Gateway.String()]
		for _, key := range slices.Sorted(maps.Keys(reasons)) {
			r, ok := translate.NewRefusal(key, reasons[key], &c.Complete)
			if !ok {
				t.Fatalf("the Config of Gateway %s holds no %s", c.Gateway, key)
			}
			if opts.Refused == nil {
				opts.Refused = map[types.NamespacedName][]translate.Refusal{}
			}
			opts.Refused[c.Gateway] = append(opts.Refused[c.Gateway], r)
		}
	}
}

func readOptions(t testing.TB, archive *txtar.Archive) translate.Options {
	var o goldenOptions
	if err := yaml.UnmarshalStrict([]byte(file(archive, optionFile)), &o); err != nil {
		t.Fatal(err)
	}
	opts := translate.Options{Now: now, SharedAddress: o.SharedAddress, ImpliedClass: o.ImpliedClass}
	for name, addresses := range o.Addresses {
		if opts.Addresses == nil {
			opts.Addresses = map[types.NamespacedName][]gwapiv1.GatewayStatusAddress{}
		}
		list := []gwapiv1.GatewayStatusAddress{}
		for _, a := range addresses {
			list = append(list, gwapiv1.GatewayStatusAddress{Type: new(gwapiv1.IPAddressType), Value: a})
		}
		opts.Addresses[parseName(name)] = list
	}
	for name, why := range o.Pending {
		if opts.Pending == nil {
			opts.Pending = map[types.NamespacedName]string{}
		}
		opts.Pending[parseName(name)] = why
	}
	return opts
}

func parseName(s string) types.NamespacedName {
	namespace, name, _ := strings.Cut(s, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func file(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// rewrite puts outputs in the place of those that the archive holds.
func rewrite(t *testing.T, path string, archive *txtar.Archive, got map[string]string) {
	var files []txtar.File
	for _, f := range archive.Files {
		if _, ok := got[f.Name]; !ok {
			files = append(files, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		files = append(files, txtar.File{Name: name, Data: []byte(got[name])})
	}
	archive.Files = files
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// configView is the Configs by Gateway, as plain data.
func configView(r translate.Result) map[string]any {
	view := map[string]any{}
	for _, g := range r.Configs {
		view[g.Gateway.String()] = compact(g.Config)
	}
	return view
}

// statusView is every status by kind and name, conditions as one line each, and
// the warnings that no condition shows.
func statusView(r translate.Result) map[string]any {
	view := map[string]any{}
	for _, s := range r.GatewayClasses {
		view["GatewayClass "+s.Name.Name] = map[string]any{"conditions": conditionLines(s.Status.Conditions)}
	}
	for _, s := range r.Gateways {
		view["Gateway "+s.Name.String()] = gatewayView(s.Status)
	}
	for _, s := range r.HTTPRoutes {
		parents := map[string]any{}
		for _, p := range s.Status.Parents {
			parents[parentName(p)] = conditionLines(p.Conditions)
		}
		view["HTTPRoute "+s.Name.String()] = parents
	}
	for _, s := range r.Models {
		view["Model "+s.Name.String()] = map[string]any{
			"phase": s.Status.Phase, "ready": s.Status.Ready, "strategy": s.Status.Strategy, "conditions": conditionLines(s.Status.Conditions),
		}
	}
	for _, p := range r.Provisions {
		raw, err := json.Marshal(p.Parameters)
		if err != nil {
			panic(err)
		}
		if string(raw) != "{}" {
			view["provision "+p.Gateway.Namespace+"/"+p.Gateway.Name] = string(raw)
		}
	}
	if len(r.Held) > 0 {
		var held []string
		for _, name := range r.Held {
			held = append(held, name.String())
		}
		view["held"] = held
	}
	var warnings []string
	for _, w := range r.Warnings {
		warnings = append(warnings, w.String())
	}
	if len(warnings) > 0 {
		view["warnings"] = warnings
	}
	return view
}

func gatewayView(s gwapiv1.GatewayStatus) map[string]any {
	listeners := map[string]any{}
	for _, l := range s.Listeners {
		kinds := []string{}
		for _, k := range l.SupportedKinds {
			kinds = append(kinds, string(k.Kind))
		}
		listeners[string(l.Name)] = map[string]any{
			"attachedRoutes": l.AttachedRoutes, "supportedKinds": strings.Join(kinds, ","), "conditions": conditionLines(l.Conditions),
		}
	}
	view := map[string]any{"conditions": conditionLines(s.Conditions), "listeners": listeners}
	if len(s.Addresses) > 0 {
		var addresses []string
		for _, a := range s.Addresses {
			addresses = append(addresses, a.Value)
		}
		view["addresses"] = addresses
	}
	return view
}

func parentName(p gwapiv1.RouteParentStatus) string {
	name := string(p.ParentRef.Name)
	if p.ParentRef.Namespace != nil {
		name = string(*p.ParentRef.Namespace) + "/" + name
	}
	if p.ParentRef.SectionName != nil {
		name += "#" + string(*p.ParentRef.SectionName)
	}
	if p.ParentRef.Port != nil {
		name += fmt.Sprintf(":%d", *p.ParentRef.Port)
	}
	if p.ControllerName != translate.DefaultControllerName {
		name += " of " + string(p.ControllerName)
	}
	return name
}

// conditionLines renders conditions as "Type=Status/Reason @generation: message";
// a transition time other than now is shown.
func conditionLines(conditions []metav1.Condition) []string {
	var lines []string
	for _, c := range conditions {
		line := fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason)
		if c.ObservedGeneration != 0 {
			line += fmt.Sprintf(" @%d", c.ObservedGeneration)
		}
		if !c.LastTransitionTime.Equal(&now) {
			line += " since " + c.LastTransitionTime.UTC().Format(time.RFC3339)
		}
		if c.Message != "" {
			line += ": " + c.Message
		}
		lines = append(lines, line)
	}
	return lines
}

// compact is a Config as plain data without empty members and key material.
func compact(c routing.Config) any {
	c.Certificates = slices.Clone(c.Certificates)
	for i := range c.Certificates {
		c.Certificates[i].CertPEM, c.Certificates[i].KeyPEM = nil, nil
	}
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	return withoutEmpty(v)
}

// withoutEmpty leaves out members with zero values, except numbers for which
// zero says something.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			member = withoutEmpty(member)
			switch member {
			case nil, "", false:
				delete(v, key)
				continue
			case float64(0):
				if key != "Weight" && key != "Numerator" && key != "Attempts" {
					delete(v, key)
					continue
				}
			}
			v[key] = member
		}
		return v
	case []any:
		if len(v) == 0 {
			return nil
		}
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return v
}

func marshal(t testing.TB, v any) string {
	raw, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
