package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// needed are the programs that others start by name, with Debian's packages.
var needed = []struct{ path, pkg string }{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{cniPlugins + "/ptp", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
}

const cniPlugins = "/usr/lib/cni" // where Debian puts them

// installPackages installs what is missing, by apt-get where there is one.
func installPackages(ctx context.Context, out io.Writer) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install %s first (the names of Debian's packages; this machine has no apt-get)", strings.Join(missing, " "))
	}
	fmt.Fprintln(out, "installing", strings.Join(missing, " "))
	for _, args := range [][]string{
		{"update", "-qq"},
		append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	if missing := missingPackages(); len(missing) > 0 {
		return fmt.Errorf("apt-get has installed %s, but its programs are not found", strings.Join(missing, " "))
	}
	return nil
}

func missingPackages() []string {
	var missing []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.path); err != nil && !slices.Contains(missing, n.pkg) {
			missing = append(missing, n.pkg)
		}
	}
	return missing
}
