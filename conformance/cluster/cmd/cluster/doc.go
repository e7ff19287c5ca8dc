// Command cluster runs a Kubernetes of one node on this machine, for tests: etcd,
// the API server, controller manager, scheduler, kubelet, kube-proxy, containerd,
// CoreDNS and a load balancer of its own, without Docker, systemd or a registry.
//
//	cluster up           starts what does not run yet, returns when pods can be made
//	cluster down         ends it and leaves nothing
//	cluster status       tells what runs
//	cluster load-images  builds the images anew and loads those that changed
//
// It needs Linux and root. The programs are built before (see cluster.mk).
//
// Where things are (layout.go): programs and images in the state directory, which
// stays; what one run of the cluster makes in its subdirectory run, which `down`
// removes; sockets, whose paths must be short, in /run/flexinfer-cluster.
//
// Everything runs in one network namespace that has no link to the outside, and in
// one cgroup, so that `down` finds every process by the kernel's own record, also
// those of a start that failed half-way. Components never restart by themselves: a
// dead one shows in `status`, and `up` starts it again.
package main
