package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flexinfer.ai/gateway/internal/cli"
	"flexinfer.ai/gateway/internal/control"
	"flexinfer.ai/gateway/pkg/translate"
)

func runCommand() cli.Command {
	return cli.Command{
		Name:    "run",
		Summary: "keep a cluster's Gateways served: the controller in a cluster",
		Help: `Follows the Gateway API objects, Models and Services of a cluster, runs gateway
pods for its Gateways and keeps them at what the objects say, over a stream on
--snapshot-address. Statuses and events tell users what became of their objects.
Any number of replicas may run: each serves snapshots, one of them writes.`,
		Bind: func(flags *flag.FlagSet, env cli.Env) cli.Run {
			var f runFlags
			f.bind(flags, env)
			return func(ctx context.Context, _ []string) error {
				o, err := f.options(env)
				if err != nil {
					return err
				}
				return control.New(o).Run(ctx)
			}
		},
	}
}

// runFlags are the flags of run.
type runFlags struct {
	log        cli.LogOptions
	o          control.Options
	kubeconfig string
	qps        float64
}

func (f *runFlags) bind(flags *flag.FlagSet, env cli.Env) {
	variable := func(name string) string {
		value, _ := env.Lookup(name)
		return value
	}
	instance := variable("POD_NAME")
	if instance == "" {
		instance, _ = os.Hostname()
	}
	o := &f.o
	f.log.Bind(flags)
	flags.StringVar(&f.kubeconfig, "kubeconfig", variable("KUBECONFIG"),
		"`FILE` that says how the API server is reached; empty: as a pod of the cluster (default: $KUBECONFIG)")
	flags.StringVar(&o.Namespace, "namespace", variable("POD_NAMESPACE"),
		"`NAMESPACE` of the controller, with its CA, Lease and Service (default: $POD_NAMESPACE)")
	flags.StringVar(&o.Service, "service", "flexinfer-controller",
		"`NAME` of the Service in that namespace by which gateway pods reach --snapshot-address")
	flags.StringVar(&o.Instance, "instance", instance,
		"`NAME` of this replica among others, that of its pod (default: $POD_NAME, else the host's name)")
	flags.StringVar(&o.ControllerName, "controller-name", translate.DefaultControllerName,
		"`DOMAIN/PATH` that makes a GatewayClass this controller's, in its spec.controllerName")
	flags.StringVar(&o.GatewayImage, "gateway-image", "", "`IMAGE` that gateway pods run, unless a GatewayClass's parameters name another; required")
	flags.StringVar(&o.SnapshotAddress, "snapshot-address", ":8443", "`HOST:PORT` at which gateway pods connect")
	flags.StringVar(&o.AdminAddress, "admin", ":8090", "`HOST:PORT` of /metrics, /healthz and /readyz")
	flags.BoolVar(&o.LeaderElect, "leader-elect", true,
		"let one of several replicas write, by a Lease; --leader-elect=false only where there is one")
	flags.DurationVar(&o.IdleTimeout, "idle-timeout", 0,
		"`DURATION` after which a serverless Model without requests is scaled down, where its serverless.idleTimeout is not set; 0: never")
	flags.Float64Var(&f.qps, "api-qps", 500, "`NUMBER` of requests a second that are sent to the API server at most")
	flags.BoolVar(&o.Pprof, "pprof", false, "serve /debug/pprof on the admin address")
}

// options checks the flags. The error is a cli.UsageError that names the flag.
func (f *runFlags) options(env cli.Env) (control.Options, error) {
	o := f.o
	o.Logger = f.log.Logger(env.Stderr)
	for _, check := range []error{
		checkLabel("namespace", o.Namespace, "give the controller's own, such as --namespace=flexinfer-system, or set POD_NAMESPACE"),
		checkLabel("service", o.Service, "give the controller's Service, such as --service=flexinfer-controller"),
		checkControllerName(o.ControllerName),
		checkListen("snapshot-address", o.SnapshotAddress, ":8443"),
		checkListen("admin", o.AdminAddress, ":8090"),
	} {
		if check != nil {
			return o, check
		}
	}
	switch {
	case o.GatewayImage == "" || strings.ContainsAny(o.GatewayImage, " \t\n"):
		return o, cli.Usagef("flag --gateway-image: %q is no image; give the one that gateway pods are to run, such as --gateway-image=registry.example.com/flexinfer/gateway:v1", o.GatewayImage)
	case o.Instance == "":
		return o, cli.Usagef("flag --instance is empty and the host has no name; give this replica a name of its own, or set POD_NAME")
	case o.IdleTimeout < 0:
		return o, cli.Usagef("flag --idle-timeout: %s is negative; give 0 for never, or a duration such as 10m", o.IdleTimeout)
	case f.qps <= 0 || f.qps > 1e6:
		return o, cli.Usagef("flag --api-qps: %v is no rate; give a number of requests a second such as 500", f.qps)
	}
	api, err := apiServer(f.kubeconfig)
	if err != nil {
		return o, err
	}
	api.QPS, api.Burst = float32(f.qps), max(1, int(2*f.qps))
	api.UserAgent = "flexinfer-controller"
	o.API = api
	return o, nil
}

// apiServer says how the API server is reached.
func apiServer(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, cli.Usagef("this is no pod of a cluster (%v); name a file that says how the API server is reached with --kubeconfig=FILE", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	if files := filepath.SplitList(kubeconfig); len(files) > 1 { // as $KUBECONFIG may be
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: files}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, cli.Usagef("flag --kubeconfig: %s cannot be used: %v; give a file that kubectl can use, with a current context", kubeconfig, err)
	}
	return config, nil
}

func checkLabel(name, value, remedy string) error {
	if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
		return cli.Usagef("flag --%s: %q is not usable; %s", name, value, remedy)
	}
	return nil
}

func checkControllerName(value string) error {
	domain, path, ok := strings.Cut(value, "/")
	if !ok || path == "" || len(value) > 253 || len(validation.IsDNS1123Subdomain(domain)) > 0 {
		return cli.Usagef("flag --controller-name: %q is no DOMAIN/PATH; give one such as %s", value, translate.DefaultControllerName)
	}
	return nil
}

// checkListen checks an address to listen on. Its port must be known to others.
func checkListen(name, address, example string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(port, 10, 16); err == nil && n == 0 {
			err = fmt.Errorf("port 0 is any port, which nobody else knows")
		}
	}
	if err != nil {
		return cli.Usagef("flag --%s: %q is no HOST:PORT (%v); give one such as %s", name, address, err, example)
	}
	return nil
}
