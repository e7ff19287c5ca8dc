package main

import (
	"bytes"
	"embed"
	"os"
	"path/filepath"
	"text/template"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

//go:embed files
var files embed.FS

// configurations are the components' files, as templates over values: where each
// goes, below the run directory.
var configurations = map[string]string{
	"containerd.toml": "containerd.toml",
	"cni.conflist":    "cni/cni.conflist",
	"kubelet.yaml":    "kubelet.yaml",
	"kube-proxy.yaml": "kube-proxy.yaml",
	"coredns.yaml":    "coredns.yaml",
}

// values are what the templates speak of.
type values struct {
	Run, RuntimeDir, RuncDir, Socket, CNIPlugins, Snapshotter, PauseImage, CoreDNSImage string
	Cluster, Node, NodeAddress, PodNetwork, PodSubnet, DNSService                       string
}

func (l layout) writeConfigurations() error {
	v := values{
		Run: l.run(), RuntimeDir: containerdState(), RuncDir: filepath.Join(runtimeDir, "runc"), Socket: containerdSocket(), CNIPlugins: cniPlugins,
		Snapshotter: snapshotter(l.state), PauseImage: pauseImage, CoreDNSImage: coreDNSImage,
		Cluster: clusterName, Node: nodeName, NodeAddress: nodeAddress,
		PodNetwork: podNetwork, PodSubnet: podSubnet, DNSService: dnsService,
	}
	for name, path := range configurations {
		t, err := template.New(name).Option("missingkey=error").ParseFS(files, "files/"+name)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, v); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(l.run(path)), 0o755); err != nil {
			return err
		}
		if err := writeChanged(l.run(path), text.Bytes()); err != nil {
			return err
		}
	}
	for _, user := range []string{"kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		if err := l.writeKubeconfig(l.run(user+".kubeconfig"), user); err != nil {
			return err
		}
	}
	return l.writeKubeconfig(l.kubeconfig(), "admin")
}

// writeKubeconfig holds the certificates themselves: a user may copy the file.
func (l layout) writeKubeconfig(path, user string) error {
	config := clientcmdapi.NewConfig()
	ca, err := os.ReadFile(l.pki("ca.crt"))
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(l.pki(user + ".crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(l.pki(user + ".key"))
	if err != nil {
		return err
	}
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: apiServer, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: user}
	config.CurrentContext = clusterName
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeChanged(path, text)
}

// writeChanged leaves a file alone that has the content already: kube-proxy ends
// when its file is written.
func writeChanged(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return os.WriteFile(path, content, 0o600)
}

// snapshotter is overlayfs, except where the directory itself is on one: those do
// not stack.
func snapshotter(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}
