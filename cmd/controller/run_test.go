package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/cli"
)

// Every mistake in the flags of run is answered with the flag and a remedy, before
// anything is asked of an API server.
func TestRunFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(want string, args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		env := cli.Env{Stdout: &stderr, Stderr: &stderr, Lookup: func(string) (string, bool) { return "", false }}
		all := append([]string{"run", "--namespace=system", "--gateway-image=image", "--kubeconfig=" + file}, args...)
		if code := program().Main(t.Context(), env, all); code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit code %d, %q; want 2 and %q", args, code, stderr.String(), want)
		}
	}
	f(`flag --namespace: "" is not usable; give the controller's own, such as --namespace=flexinfer-system, or set POD_NAMESPACE`, "--namespace=")
	f(`flag --service: "a.b" is not usable`, "--service=a.b")
	f(`flag --controller-name: "name" is no DOMAIN/PATH; give one such as flexinfer.ai/gateway-controller`, "--controller-name=name")
	f(`flag --snapshot-address: "8443" is no HOST:PORT`, "--snapshot-address=8443")
	f(`flag --snapshot-address: ":0" is no HOST:PORT (port 0 is any port, which nobody else knows); give one such as :8443`, "--snapshot-address=:0")
	f(`flag --admin: "x" is no HOST:PORT`, "--admin=x")
	f(`flag --gateway-image: "" is no image; give the one that gateway pods are to run`, "--gateway-image=")
	f(`flag --idle-timeout: -1s is negative; give 0 for never`, "--idle-timeout=-1s")
	f(`flag --api-qps: 0 is no rate`, "--api-qps=0")
	f(`this is no pod of a cluster`, "--kubeconfig=")
	f(`name a file that says how the API server is reached with --kubeconfig=FILE`, "--kubeconfig=")
	f(`flag --kubeconfig: `+file+`.none cannot be used`, "--kubeconfig="+file+".none")
	f(`give a file that kubectl can use, with a current context`)
	f(`unknown flag --namespaces; did you mean --namespace?`, "--namespaces=x")
	f(`unexpected argument "x"`, "x")
}

// The names of the pod and its namespace come from the environment.
func TestRunFlagsFromEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{"POD_NAME": "controller-0", "POD_NAMESPACE": "system", "KUBECONFIG": file}
	env := cli.Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Lookup: func(name string) (string, bool) {
		v, ok := variables[name]
		return v, ok
	}}
	var flags runFlags
	set := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.bind(set, env)
	if err := set.Parse([]string{"--gateway-image=image"}); err != nil {
		t.Fatal(err)
	}
	o, err := flags.options(env)
	if err != nil {
		t.Fatal(err)
	}
	if o.Instance != "controller-0" || o.Namespace != "system" || o.API.Host != "https://127.0.0.1:1" || !o.LeaderElect {
		t.Errorf("options %+v", o)
	}
}
