package provision

import (
	"flag"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/internal/dataplane"
	"flexinfer.ai/gateway/pkg/api/v1alpha2"
	"flexinfer.ai/gateway/pkg/routing"
)

// connection are the flags of the gateway that are not the data plane's own.
var connection = []string{"controller", "controller-ca", "token", "snapshot"}

// TestArgumentsAreTheGatewaysFlags parses what every parameter becomes with the
// gateway's own flags, and finds that none of them can be set only by hand.
func TestArgumentsAreTheGatewaysFlags(t *testing.T) {
	var data dataplane.Flags
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	data.Bind(flags, cli.Env{Lookup: func(string) (string, bool) { return "", false }})
	for _, name := range connection {
		flags.String(name, "", "")
	}
	if err := flags.Parse(arguments(gateway("g", everything, 80), settings, corev1.ResourceList{})); err != nil {
		t.Fatal(err)
	}
	if _, err := data.Options(nil); err != nil {
		t.Error(err)
	}
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	processOnly := []string{"bind", "port-offset", "pprof"}
	flags.VisitAll(func(f *flag.Flag) {
		if !set[f.Name] && !slices.Contains(processOnly, f.Name) {
			t.Errorf("no parameter sets --%s", f.Name)
		}
	})
}

// Each knob's path in the Helm values is its path in the parameters.
func TestParametersHaveTheKnobsPaths(t *testing.T) {
	for _, knob := range routing.Knobs() {
		typ := reflect.TypeFor[v1alpha2.GatewayParametersSpec]()
		for _, part := range strings.Split(knob.Helm, ".") {
			field, ok := fieldByJSON(typ, part)
			if !ok {
				t.Errorf("%s: the parameters have no field %s", knob.Helm, part)
				break
			}
			typ = field
			for typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
		}
	}
}

func fieldByJSON(typ reflect.Type, name string) (reflect.Type, bool) {
	for i := range typ.NumField() {
		if tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); tag == name {
			return typ.Field(i).Type, true
		}
	}
	return nil, false
}

func TestAdminPort(t *testing.T) {
	f := func(want int32, listeners ...int32) {
		t.Helper()
		if got := adminPort(listeners); got != want {
			t.Errorf("%v: %d, want %d", listeners, got, want)
		}
	}
	f(19090, 80, 443)
	f(19092, 80, 19090, 19091, 19093)
}
