# The Gateway API's conformance suite (conformance/README.md).

# TEST narrows the run to tests whose names match, and writes no report;
# PROFILES are what is tested; ARGS are further flags of the suite.
TEST     ?=
PROFILES ?= GATEWAY-HTTP
ARGS     ?=

CONFORMANCE_LOG    := .cache/conformance.log
CONFORMANCE_REPORT := conformance/reports/standard.yaml
# What GatewayStaticAddresses tries: one that the load balancer of `make
# cluster-up` can give, late in its pool, and one that nobody can (RFC 5737).
USABLE_ADDRESS     ?= 10.99.2.200
UNUSABLE_ADDRESS   ?= 203.0.113.7

.PHONY: conformance
conformance: cluster-up cluster-load-images bin/conformance.test ## Install the product on the cluster and run the Gateway API's conformance suite
	$(call say,installing the Gateway API and the product)
	@$(CLUSTER_RUN) conformance/suite/install $$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)
	$(call say,conformance suite: $(PROFILES) $(TEST); its output goes to $(CONFORMANCE_LOG))
	@mkdir -p $(dir $(CONFORMANCE_LOG)) $(dir $(CONFORMANCE_REPORT))
	@$(CLUSTER_RUN) bin/conformance.test -on-cluster -test.v -test.timeout=60m \
		$(if $(TEST),-test.run 'TestGatewayAPI/^($(TEST))$$',-test.run TestGatewayAPI -report-output $(CONFORMANCE_REPORT)) \
		-conformance-profiles $(PROFILES) -version $$(git describe --always --dirty) \
		-usable-address $(USABLE_ADDRESS) -unusable-address $(UNUSABLE_ADDRESS) $(ARGS) >$(CONFORMANCE_LOG) \
		|| { conformance/suite/failures $(CONFORMANCE_LOG) >&2; exit 1; }

.PHONY: claims
claims: go ## Hold what is claimed of the Gateway API, and the report that is kept, against its conformance suite
	$(call say,claims: the suite is a module of its own in conformance/suite)
	@go test -C conformance/suite -count=1 ./...

.PHONY: bin/conformance.test
bin/conformance.test: go
	@mkdir -p bin
	@go test -C conformance/suite -c -o ../../bin/conformance.test .
