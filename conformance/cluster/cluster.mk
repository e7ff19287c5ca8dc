# The cluster that tests run on (docs/cluster.md). With KUBECONFIG set to another
# one, that is used and nothing is started.

export CLUSTER_STATE ?= $(CURDIR)/.cache/cluster
CLUSTER_OTHER  := $(filter-out $(CLUSTER_STATE)/kubeconfig,$(KUBECONFIG))
# $(CLUSTER_RUN) COMMAND runs it where the cluster can be reached, with its KUBECONFIG.
CLUSTER_RUN    := conformance/cluster/run
KUBERNETES     := v1.37.2
KUBERNETES_TAG := -X k8s.io/component-base/version.gitVersion=$(KUBERNETES) -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37

.PHONY: cluster-up
ifeq ($(CLUSTER_OTHER),)
cluster-up: cluster-programs cluster-images ## Start a Kubernetes on this machine, as root (the first time builds it: 20 CPU minutes)
	$(call say,starting the cluster)
	@$(CLUSTER_STATE)/bin/cluster up
else
cluster-up:
	$(call say,using the cluster of KUBECONFIG=$(KUBECONFIG))
	@kubectl version
endif

.PHONY: cluster-down
ifeq ($(CLUSTER_OTHER),)
cluster-down: cluster-program ## End that cluster and leave nothing
	@$(CLUSTER_STATE)/bin/cluster down
else
cluster-down:
	@echo 'KUBECONFIG names another cluster; it is left alone'
endif

.PHONY: cluster-status
cluster-status: cluster-program ## Tell what of that cluster runs
	@$(CLUSTER_STATE)/bin/cluster status

.PHONY: cluster-load-images
cluster-load-images: cluster-program cluster-images ## Build this project's images and load them into the cluster
	@$(CLUSTER_STATE)/bin/cluster load-images

.PHONY: cluster-programs
cluster-programs: go
	$(call say,building Kubernetes and CoreDNS for the cluster (the first time takes 20 CPU minutes))
	@mkdir -p $(CLUSTER_STATE)/bin
	@CGO_ENABLED=0 go build -C conformance/cluster -ldflags '-s -w $(KUBERNETES_TAG)' -o $(CLUSTER_STATE)/bin/ ./kubernetes ./coredns ./cmd/cluster

# Without Kubernetes itself.
.PHONY: cluster-program
cluster-program: go
	@mkdir -p $(CLUSTER_STATE)/bin
	@CGO_ENABLED=0 go build -C conformance/cluster -ldflags '-s -w $(KUBERNETES_TAG)' -o $(CLUSTER_STATE)/bin/ ./cmd/cluster

# What the images hold. kind and others bring their own pause and CoreDNS.
.PHONY: cluster-images
cluster-images: go
	$(call say,building what the images hold)
	@mkdir -p $(CLUSTER_STATE)/images
	@CGO_ENABLED=0 go build -ldflags '-s -w' -o $(CLUSTER_STATE)/images/ ./cmd/controller ./cmd/gateway ./cmd/enginesim
	@CGO_ENABLED=0 go build -C conformance/images -ldflags '-s -w' -o $(CLUSTER_STATE)/images/ ./pause sigs.k8s.io/gateway-api-conformance-images/echo-basic
