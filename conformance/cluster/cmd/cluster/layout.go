package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Names and addresses. They exist nowhere outside of the network namespace.
const (
	clusterName  = "flexinfer-cluster"
	namespace    = "flexinfer" // of the network
	nodeName     = "node"
	nodeAddress  = "10.99.0.1"
	nodeNetwork  = "10.99.0.0/24"
	podNetwork   = "10.244.0.0/16"
	podSubnet    = "10.244.0.0/24" // of the one node
	serviceRange = "10.96.0.0/16"
	apiService   = "10.96.0.1"
	dnsService   = "10.96.0.10"
	poolNetwork  = "10.99.2.0/24" // load-balancer addresses
	apiServer    = "https://" + nodeAddress + ":6443"
)

const (
	runtimeDir    = "/run/" + clusterName
	namespacePath = "/run/netns/" + namespace
	lockPath      = runtimeDir + ".lock"
	// A Unix socket's path has at most 107 bytes; the kubelet makes this one.
	longestSocket = "/run/kubelet/pod-resources/kubelet.sock"
)

// layout says where the cluster keeps what.
type layout struct {
	state string // absolute; holds bin, images, run and the kubeconfig
}

func newLayout(state string) (layout, error) {
	if state == "" {
		state = filepath.Join(".cache", "cluster")
	}
	absolute, err := filepath.Abs(state)
	if err != nil {
		return layout{}, err
	}
	if len(absolute+longestSocket) > 107 {
		return layout{}, fmt.Errorf("the path %s is too long for the kubelet's Unix sockets: set CLUSTER_STATE to a directory whose path is shorter than %d bytes", absolute, 108-len(longestSocket))
	}
	return layout{state: absolute}, nil
}

func (l layout) program(name string) string { return filepath.Join(l.state, "bin", name) }
func (l layout) image(name string) string   { return filepath.Join(l.state, "images", name) }
func (l layout) kubeconfig() string         { return filepath.Join(l.state, "kubeconfig") }

// run is a path of what lives as long as one run of the cluster.
func (l layout) run(elements ...string) string {
	return filepath.Join(append([]string{l.state, "run"}, elements...)...)
}

func (l layout) pki(name string) string { return l.run("pki", name) }
func (l layout) log(name string) string { return l.run("log", name+".log") }

// Short paths, for sockets and records.
func containerdSocket() string          { return filepath.Join(runtimeDir, "containerd.sock") }
func pidFile(component string) string   { return filepath.Join(runtimeDir, "pids", component) }
func ownerFile() string                 { return filepath.Join(runtimeDir, "state-directory") }
func loadedFile(image string) string    { return filepath.Join(runtimeDir, "images", image) }
func containerdState() string           { return filepath.Join(runtimeDir, "containerd") }
func (l layout) owns(owner string) bool { return owner == "" || owner == l.state }

// owner is the state directory of the cluster that runs on this machine or has
// left something behind, "" when there is none.
func owner() (string, error) {
	data, err := os.ReadFile(ownerFile())
	if os.IsNotExist(err) {
		return "", nil
	}
	return string(data), err
}
