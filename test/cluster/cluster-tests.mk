# The end-to-end tests on a Kubernetes (test/cluster).

# TESTS narrows them: make e2e-cluster TESTS=TestModels
TESTS ?= .

# A cluster of one's own needs root. Without root or a KUBECONFIG these tests do not
# run and say so; REQUIRE_CLUSTER=1 makes that an error.
CAN_CLUSTER := $(or $(CLUSTER_OTHER),$(filter 0,$(shell id -u)))

.PHONY: e2e-cluster-note
e2e-cluster-note:
	@echo 'neither root nor KUBECONFIG: the tests on a Kubernetes are OFF; run make e2e-cluster as root, or with KUBECONFIG set' >&2
	@test -z '$(REQUIRE_CLUSTER)'

.PHONY: e2e-cluster
e2e-cluster: cluster-up cluster-load-images bin/cluster.test bin/scale.test ## Install the product on the cluster and run the end-to-end tests there
	$(call say,scaling tests on the cluster: they know only the CRDs; a controller would scale the same Models)
	@$(CLUSTER_RUN) kubectl apply --server-side -k manifests/crd
	@$(CLUSTER_RUN) kubectl -n flexinfer-system delete deployment flexinfer-controller --ignore-not-found --cascade=foreground
	@$(CLUSTER_RUN) bin/scale.test -on-cluster -test.v -test.timeout=10m -test.run Cluster
	$(call say,installing the Gateway API and the product)
	@$(CLUSTER_RUN) conformance/install $$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)
	$(call say,end-to-end tests on the cluster (a module of its own in test/cluster))
	@$(CLUSTER_RUN) bin/cluster.test -test.v -test.timeout=40m -test.run '$(TESTS)'

.PHONY: bin/cluster.test
bin/cluster.test: go
	@mkdir -p bin
	@go test -C test/cluster -c -o ../../bin/cluster.test .

.PHONY: bin/scale.test
bin/scale.test: go
	@mkdir -p bin
	@go test -c -o bin/scale.test ./internal/control/scale
