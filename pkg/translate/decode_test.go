package translate_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"flexinfer.ai/gateway/pkg/translate"
)

const (
	problemsFile = "problems"
	objectsFile  = "objects"
)

// TestDecodeGoldens decodes every .yaml file of each archive under
// testdata/decode, in order, and compares the problems, and the objects where
// the archive lists them in full.
func TestDecodeGoldens(t *testing.T) {
	paths, err := filepath.Glob("testdata/decode/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens found: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var d translate.Decoder
			var problems strings.Builder
			for _, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".yaml") {
					for _, p := range d.Add(f.Name, f.Data) {
						fmt.Fprintln(&problems, p)
					}
				}
			}
			got := map[string]string{problemsFile: problems.String(), objectsFile: listObjects(d.Resources)}
			if strings.HasPrefix(filepath.Base(path), "Defaults") {
				got[objectsFile] = marshal(t, d.Resources)
			}
			if *update {
				rewrite(t, path, archive, got)
				return
			}
			for name, text := range got {
				if diff := cmp.Diff(file(archive, name), text); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// listObjects names the objects that were decoded.
func listObjects(r translate.Resources) string {
	var b strings.Builder
	add := func(kind, namespace, name string) { fmt.Fprintf(&b, "%s %s/%s\n", kind, namespace, name) }
	for _, o := range r.GatewayClasses {
		add("GatewayClass", o.Namespace, o.Name)
	}
	for _, o := range r.Gateways {
		add("Gateway", o.Namespace, o.Name)
	}
	for _, o := range r.HTTPRoutes {
		add("HTTPRoute", o.Namespace, o.Name)
	}
	for _, o := range r.ReferenceGrants {
		add("ReferenceGrant", o.Namespace, o.Name)
	}
	for _, o := range r.Models {
		add("Model", o.Namespace, o.Name)
	}
	for _, o := range r.Services {
		add("Service", o.Namespace, o.Name)
	}
	for _, o := range r.EndpointSlices {
		add("EndpointSlice", o.Namespace, o.Name)
	}
	for _, o := range r.Secrets {
		add("Secret", o.Namespace, o.Name)
	}
	for _, o := range r.ConfigMaps {
		add("ConfigMap", o.Namespace, o.Name)
	}
	for _, o := range r.Namespaces {
		add("Namespace", o.Namespace, o.Name)
	}
	for _, o := range r.ScaleTargets {
		add(o.Kind, o.Namespace, o.Name)
	}
	return b.String()
}

// TestWhere finds the line of a warning's field in the file that the object came
// from.
func TestWhere(t *testing.T) {
	var d translate.Decoder
	problems := d.Add("a.yaml", []byte(`apiVersion: v1
kind: List
items:
- apiVersion: gateway.networking.k8s.io/v1
  kind: HTTPRoute
  metadata:
    name: r
    annotations:
      example.com/a.b: x
  spec:
    rules:
    - backendRefs:
      - {name: a, port: 1}
      - name: b
        port: 2
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	f := func(field string, line int) {
		t.Helper()
		w := translate.Warning{Kind: "HTTPRoute", Namespace: "default", Name: "r", Field: field}
		if file, got, ok := d.Where(w); !ok || file != "a.yaml" || got != line {
			t.Errorf("Where(%q) = %s:%d %v, want line %d", field, file, got, ok, line)
		}
	}
	f("", 4)
	f("spec", 10)
	f("spec.rules[0].backendRefs[1]", 14)
	f("spec.rules[0].backendRefs[1].port", 15)
	f("spec.rules[0].filters[3].type", 12)
	f("metadata.annotations[example.com/a.b]", 9)
	if _, _, ok := d.Where(translate.Warning{Kind: "HTTPRoute", Namespace: "default", Name: "other"}); ok {
		t.Error("Where found an object that no file has")
	}
}

// FuzzDecode decodes anything: it must not panic, its problems must say where
// and what, and what it lets pass must translate to Configs that compile.
func FuzzDecode(f *testing.F) {
	for _, path := range goldens(f) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(file(archive, inFile)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		resources, problems := translate.Decode("f.yaml", data)
		for _, p := range problems {
			if p.Message == "" || p.Line < 1 || p.Document < 1 {
				t.Errorf("a problem that does not say where and what: %+v", p)
			}
		}
		mustCompile(t, translate.Translate(resources, translate.Options{ImpliedClass: "ours"}))
	})
}

// TestPrivateKeysDoNotShow searches every text that translation and decoding
// make of a Secret.
func TestPrivateKeysDoNotShow(t *testing.T) {
	const secret = "c2VjcmV0LXByaXZhdGUta2V5" // base64
	for _, text := range []string{
		"data: {tls.crt: " + secret + ", tls.key: " + secret + "}",
		"data: {tls.crt: !!int " + secret + "}",
		"data: {tls.key: '%" + secret + "'}",
		"stringData: {tls.crt: [" + secret + "], tls.key: " + secret + "}",
		"data: {tls.key: " + secret + ", tls.key: " + secret + "}",
		"data:\n  tls.key: " + secret + "\n tls.crt: " + secret,
	} {
		in := "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: kubernetes.io/tls\n" + text + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: ours
  listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: s}]}}]
`
		resources, problems := translate.Decode("f.yaml", []byte(in))
		result := translate.Translate(resources, translate.Options{ImpliedClass: "ours"})
		for _, shown := range []string{fmt.Sprint(problems), fmt.Sprint(result.Warnings), toJSON(t, result.Gateways)} {
			if strings.Contains(shown, secret) || strings.Contains(shown, "secret-private-key") {
				t.Errorf("%s: the key shows in %s", text, shown)
			}
		}
	}
}
