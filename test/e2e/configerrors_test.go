package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flexinfer.ai/gateway/internal/enginesim"
)

// good serves host "good" by one Model.
func good(t *testing.T) string {
	t.Helper()
	engines := startEngines(t, 1, enginesim.Options{OutputTokens: 4})
	return gatewayYAML + modelYAML("fine", nil) + serviceYAML(t, "fine", ready(engines)...) + modelRouteYAML("good", "good", "fine")
}

func (g *gateway) expectGood() {
	g.t.Helper()
	g.chat("good", `{"messages":[{"role":"user","content":"Hello"}]}`, nil)
}

const brokenCertificate = `apiVersion: v1
kind: Secret
metadata: {name: broken}
type: kubernetes.io/tls
stringData: {tls.crt: "no certificate", tls.key: "no key"}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: secure}
spec:
  gatewayClassName: flexinfer
  listeners:
    - name: https
      port: 19443
      protocol: HTTPS
      tls: {certificateRefs: [{name: broken}]}
`

// mistakes are files that a user gets wrong, and what each line of output must name.
var mistakes = []struct {
	name, content string
	want          []string
}{
	{"unreadable YAML", "apiVersion: v1\nkind: [Service\n", []string{"bad.yaml:", "YAML"}},
	{"unknown field", modelYAML("typo", nil, "servedModelname: x"), []string{"bad.yaml:", "typo: spec.servedModelname", "unknown field"}},
	{"wrong type", modelYAML("typo", nil, "port: eighty"), []string{"bad.yaml:", "typo: spec.port"}},
	{"unknown kind", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", []string{"bad.yaml:", "Pod"}},
	{"Model without a Service", modelYAML("lonely", nil) + modelRouteYAML("lonely", "lonely", "lonely"), []string{"bad.yaml:", "Model default/lonely", "Service"}},
	{"unknown strategy", modelYAML("odd", strategy("round-trip")), []string{"bad.yaml:", "Model default/odd", "round-trip", "session-affinity, prefix"}},
	{"route to nothing", modelRouteYAML("lost", "lost", "nobody"), []string{"bad.yaml:", "HTTPRoute default/lost", "spec.rules[0].backendRefs[0]", "nobody"}},
	{"two Gateways on one port", strings.Replace(gatewayYAML, "name: g", "name: late", 1), []string{"bad.yaml:", "Gateway default/late", "port"}},
	{"bad certificate", brokenCertificate, []string{"bad.yaml:", "Gateway default/secure", "spec.listeners[0].tls.certificateRefs[0]", "default/broken"}},
	{"declared twice", modelYAML("fine", nil), []string{"Model", "fine: declared a second time"}},
}

// TestMistakesWhileServing writes each mistake beside a configuration that serves:
// it is reported with file, object, field and remedy, the rest goes on, and its end
// is reported too.
func TestMistakesWhileServing(t *testing.T) {
	t.Parallel()
	g := serve(t, map[string]string{"good.yaml": good(t)})
	_, port, _ := net.SplitHostPort(g.host)
	for _, m := range mistakes {
		before := len(g.output.String())
		g.write("bad.yaml", strings.ReplaceAll(m.content, "%PORT%", port))
		eventually(t, m.name+" is reported", func() bool { return hasLine(g.output.String()[before:], "error: ", m.want) })
		g.expectGood()
		before = len(g.output.String())
		g.write("bad.yaml", "# nothing\n")
		eventually(t, m.name+" is reported as mended", func() bool { return hasLine(g.output.String()[before:], "mended: ", m.want) })
		g.expectGood()
	}
}

// hasLine reports whether one line starts with a prefix and holds all words.
func hasLine(text, prefix string, words []string) bool {
next:
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		return true
	}
	return false
}

// Lint finds the same, without serving.
func TestLint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(content, "%PORT%", "8080")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lint := func(args ...string) (string, int) {
		cmd := exec.Command(filepath.Join(programs, "controller"), append([]string{"lint"}, args...)...)
		out, _ := cmd.CombinedOutput() // the exit code tells
		return string(out), cmd.ProcessState.ExitCode()
	}
	goodFile := write("good.yaml", good(t))
	if out, code := lint(goodFile); code != 0 || out != "" {
		t.Errorf("a good file: exit code %d, output %q", code, out)
	}
	if out, code := lint(filepath.Join("..", "..", "manifests", "examples")); code != 0 || out != "" {
		t.Errorf("the examples: exit code %d, output %q", code, out)
	}
	for _, m := range mistakes {
		bad := write("bad.yaml", m.content)
		out, code := lint(goodFile, bad)
		if code != 1 || !hasLine(out, "", m.want) {
			t.Errorf("%s: exit code %d, output %q", m.name, code, out)
		}
		out, code = lint("-o", "json", goodFile, bad)
		var report struct {
			Findings []struct{ File, Object, Field, Message string }
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || len(report.Findings) == 0 || report.Findings[0].Message == "" {
			t.Errorf("%s: exit code %d, %v, output %q", m.name, code, err, out)
		}
	}
	if out, code := lint(filepath.Join(dir, "missing.yaml")); code != 1 || !strings.Contains(out, "missing.yaml: does not exist") {
		t.Errorf("a missing file: exit code %d, output %q", code, out)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	f := func(want, program string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(programs, program), args...)
		out, _ := cmd.CombinedOutput() // the exit code tells
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%s %q: exit code %d, want 2; output %q, want %q in it", program, args, code, out, want)
		}
	}
	f("unknown flag --manifest; did you mean --manifests?", "controller", "standalone", "--manifest", "x")
	f(`unknown command "serve"`, "controller", "serve")
	f("no manifests given", "controller", "standalone")
	f("flag --admin: \"8090\" is no HOST:PORT", "controller", "standalone", "--manifests", ".", "--admin", "8090")
	f("flag --bind", "controller", "standalone", "--manifests", ".", "--bind", "localhost")
	f("round-robin", "controller", "standalone", "--manifests", ".", "--label-group-routing", "random")
	f("nothing to serve", "gateway")
	f(`unexpected argument "x"`, "gateway", "--snapshot", "s", "x")
	f("unknown flag --snapshots; did you mean --snapshot?", "gateway", "--snapshots=s")
}

// A port that somebody else has is reported and the other one serves; when it is
// free again, it is bound.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	manifests := strings.Replace(good(t), "protocol: HTTP}\n", fmt.Sprintf("protocol: HTTP}\n    - {name: second, port: %d, protocol: HTTP}\n", port), 1)
	g := serve(t, map[string]string{"all.yaml": manifests})
	eventually(t, "the taken port is reported", func() bool { return hasLine(g.output.String(), "error: ", []string{fmt.Sprint(port)}) })
	g.expectGood()
	taken.Close()
	eventually(t, "the port is bound", func() bool {
		status, _ := tryGet(fmt.Sprintf("http://127.0.0.1:%d/", port))
		return status == 404
	})
	g.awaitOutput("mended: ")
}
