package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
)

// controlPlane is what the others need before they start.
func (l layout) controlPlane() []component {
	return []component{l.etcd(), l.apiServer(), l.containerd()}
}

// nodeComponents start once the control plane is ready.
func (l layout) nodeComponents() []component {
	kubeconfig := func(name string) string { return "--kubeconfig=" + l.run(name+".kubeconfig") }
	return []component{
		l.component("kube-controller-manager", answers("https://127.0.0.1:10257/healthz", nil),
			kubeconfig("kube-controller-manager"), "--bind-address=127.0.0.1", "--leader-elect=false",
			"--use-service-account-credentials=true",
			"--root-ca-file="+l.pki("ca.crt"), "--service-account-private-key-file="+l.pki("service-account.key"),
			"--cluster-signing-cert-file="+l.pki("ca.crt"), "--cluster-signing-key-file="+l.pki("ca.key"),
			// A machine under test load answers late and is not lost for it.
			"--node-monitor-grace-period=2m"),
		l.component("kube-scheduler", answers("https://127.0.0.1:10259/healthz", nil),
			kubeconfig("kube-scheduler"), "--bind-address=127.0.0.1", "--leader-elect=false"),
		l.component("kubelet", answers("http://127.0.0.1:10248/healthz", nil),
			kubeconfig("kubelet"), "--config="+l.run("kubelet.yaml"), "--root-dir="+l.run("kubelet"),
			"--cert-dir="+l.run("kubelet", "pki"), "--hostname-override="+nodeName, "--node-ip="+nodeAddress),
		l.component("kube-proxy", answers("http://127.0.0.1:10256/healthz", nil), "--config="+l.run("kube-proxy.yaml")),
		{name: "loadbalancer", args: []string{l.program("cluster"), "loadbalancer"}, log: l.log("loadbalancer")},
	}
}

func (l layout) components() []component {
	return append(l.controlPlane(), l.nodeComponents()...)
}

// component is one of the programs that are one file, called by its name.
func (l layout) component(name string, ready func(context.Context) error, args ...string) component {
	return component{name: name, args: append([]string{l.program(name)}, args...), ready: ready, log: l.log(name)}
}

func (l layout) etcd() component {
	const clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return l.component("etcd", answers(clients+"/health", nil),
		"--name="+nodeName, "--data-dir="+l.run("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster="+nodeName+"="+peers,
		"--auto-compaction-mode=revision", "--auto-compaction-retention=20000", "--quota-backend-bytes=4294967296")
}

func (l layout) apiServer() component {
	ready := func(ctx context.Context) error {
		pool := x509.NewCertPool()
		ca, err := os.ReadFile(l.pki("ca.crt"))
		if err != nil {
			return err
		}
		pool.AppendCertsFromPEM(ca)
		return answers(apiServer+"/readyz", pool)(ctx)
	}
	return l.component("kube-apiserver", ready,
		"--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address="+nodeAddress,
		"--etcd-servers=http://127.0.0.1:2379", "--service-cluster-ip-range="+serviceRange,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file="+l.pki("ca.crt"),
		"--tls-cert-file="+l.pki("apiserver.crt"), "--tls-private-key-file="+l.pki("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+l.pki("service-account.key"), "--service-account-signing-key-file="+l.pki("service-account.key"),
		"--kubelet-certificate-authority="+l.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+l.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key="+l.pki("apiserver-kubelet-client.key"))
}

func (l layout) containerd() component {
	ready := func(ctx context.Context) error {
		return exec.CommandContext(ctx, "ctr", "--address", containerdSocket(), "version").Run()
	}
	return component{
		name: "containerd", args: []string{"containerd", "--config", l.run("containerd.toml")},
		ready: ready, log: l.log("containerd"),
	}
}

// answers asks for 200 from the address. Without roots it takes any certificate:
// some components make their own.
func answers(url string, roots *x509.CertPool) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, InsecureSkipVerify: roots == nil},
			DisableKeepAlives: true,
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
			return fmt.Errorf("%s answers %s: %s", url, response.Status, text)
		}
		return nil
	}
}
