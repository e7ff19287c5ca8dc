package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDockerfile holds the Dockerfile to the toolchain of go.mod, and checks that
// the directories it copies are enough to build each program, as in an image.
func TestDockerfile(t *testing.T) {
	raw, err := os.ReadFile("images/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(string(module))
	if toolchain == nil || !strings.Contains(text, " golang:"+toolchain[1]+" AS build") {
		t.Errorf("the Dockerfile does not build with the toolchain of go.mod, %v", toolchain)
	}

	var copied []string
	for _, m := range regexp.MustCompile(`(?m)^COPY (\w+) \w+$`).FindAllStringSubmatch(text, -1) {
		copied = append(copied, m[1])
	}
	programs, err := filepath.Glob("../cmd/*")
	if err != nil || len(programs) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, p := range programs {
		name := filepath.Base(p)
		if !strings.Contains(text, "FROM scratch AS "+name+"\nCOPY --from=build /out/"+name+" /"+name+"\nUSER 65532:65532\nENTRYPOINT [\"/"+name+"\"]\n") {
			t.Errorf("the Dockerfile makes no image of %s", name)
		}
	}
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "../cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(output)) {
		directory, _, _ := strings.Cut(strings.TrimPrefix(path, "flexinfer.ai/gateway/"), "/")
		if !slices.Contains(copied, directory) {
			t.Errorf("the Dockerfile copies %v, but the programs need %s", copied, path)
		}
	}
}
