package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	gwapiv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// patience is how long anything may take to come about.
const patience = 2 * time.Minute

// Where the product is installed.
const (
	systemNamespace = "flexinfer-system"
	controllerName  = "flexinfer-controller"
	gatewayClass    = "flexinfer"
	engineImage     = "flexinfer.ai/enginesim:dev"
	adminPort       = 19090 // of gateway pods
)

// The API server, as an administrator.
var (
	config  *rest.Config
	api     client.Client
	clients *kubernetes.Clientset
	scheme  = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	if err := connect(); err != nil {
		fmt.Fprintln(os.Stderr, "no cluster to test on:", err, "(make e2e-cluster starts one)")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func connect() (err error) {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, gwapiv1.Install, gwapiv1beta1.Install, v1alpha2.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	if config, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")); err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 2000
	config.WarningHandler = rest.NoWarnings{} // tests write odd objects on purpose
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if clients, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	_, err = clients.Discovery().ServerVersion()
	return err
}

// kubectl runs kubectl and returns what it prints.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := kubectlWith(t, "", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// kubectlBackground runs kubectl for a test that is over.
func kubectlBackground(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", args...).CombinedOutput()
	return string(out), err
}

// kubectlWith runs kubectl with standard input.
func kubectlWith(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, "kubectl", args...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	return string(out), err
}

// eventually waits until problem returns "".
func eventually(t *testing.T, problem func() string) {
	t.Helper()
	var last string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if last = problem(); last == "" {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, last)
}
