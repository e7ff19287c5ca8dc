# The end-to-end tests on a Kubernetes (test/cluster).

# TESTS narrows them: make e2e-cluster TESTS=TestModels
TESTS ?= .

.PHONY: e2e-cluster
e2e-cluster: cluster-up cluster-load-images bin/cluster.test ## Install the product on the cluster and run the end-to-end tests there
	$(call say,installing the Gateway API and the product)
	@$(CLUSTER_RUN) conformance/install $$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)
	$(call say,end-to-end tests on the cluster (a module of its own in test/cluster))
	@$(CLUSTER_RUN) bin/cluster.test -test.v -test.timeout=40m -test.run '$(TESTS)'

.PHONY: bin/cluster.test
bin/cluster.test: go
	@mkdir -p bin
	@go test -C test/cluster -c -o ../../bin/cluster.test .
