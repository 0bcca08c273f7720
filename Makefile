# `make` lists the targets. Tools are pinned in internal/tools and built into
# bin/ when a target first needs them; `make build` needs none but Go.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The packages of four modules; go.work makes them one for the go command. The benchmarks are the fifth.
PKGS ?= ./... ./client/... ./client/telemetry/... ./tests/...
# The packages of tests/ that need no processes, browsers and containers; make e2e has all others.
UNITS := check|cluster|history|measure|model|mutants|replay|vm|workload
GO_BUILD := GOWORK=off go build
# What the program says of itself; internal/tools/release does the same.
STAMP = -X osqueue/internal/build.version=$(VERSION) \
	$(shell git log -1 --format='-X osqueue/internal/build.commit=%H -X osqueue/internal/build.date=%cI' 2>/dev/null)

# This tag leaves gRPC out of Google's client: builds are faster, and the program has 51 MB instead of 64.
TAGS := disable_grpc_modules
# Programs, tests and linters are built in one way, so that they share the build cache.
export CGO_ENABLED := 0
SHARED := -buildvcs=false -trimpath -tags=$(TAGS)
export GOFLAGS := $(filter-out $(SHARED),$(GOFLAGS)) $(SHARED)

# What the test targets run, and for how long at most.
TEST_FLAGS ?= -timeout 15m
# Each package runs several tests at once. The floods of tests/attack need a processor to themselves.
E2E_FLAGS ?= -timeout 15m -p $(shell nproc)
RACE_FLAGS ?= -timeout 20m
STORES_FLAGS ?= -timeout 5m
FUZZTIME ?= 20000x
MODEL_CHECKS ?= 20000
BENCH ?= go run ./tests/bench
STORES ?= gofakes3 versitygw gcs file
SOAK ?= 10m
SIM ?= 10h
# tests/peers is a module of its own, so that the client of NATS is in no other build list.
PEERS := GOWORK=off GOFLAGS='$(SHARED) -mod=mod' OSQUEUE_BIN=$(CURDIR)/bin/osqueue PEERS_NATS_SERVER=$(CURDIR)/bin/peers/nats-server

# Compose is a plugin of docker here and a program of its own there.
COMPOSE ?= $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

##@ Build

.PHONY: build
build: bin/osqueue ## Build the static binary bin/osqueue

# Go's own cache decides what is out of date.
.PHONY: bin/osqueue
bin/osqueue: | bin
	$(GO_BUILD) -ldflags '-s -w $(STAMP)' -o $@ ./cmd/osqueue

# For tests: a program whose wall clock they can set.
.PHONY: bin/osqueue-faultclock
bin/osqueue-faultclock: | bin
	$(GO_BUILD) -tags $(TAGS),faultclock -ldflags '-s -w' -o $@ ./cmd/osqueue

# For tests: a program that knows one feature level more, so that they can upgrade a cluster.
.PHONY: bin/osqueue-nextlevel
bin/osqueue-nextlevel: | bin
	$(GO_BUILD) -tags $(TAGS),nextlevel -ldflags '-s -w' -o $@ ./cmd/osqueue

.PHONY: generate
generate: bin/buf bin/protoc-gen-go bin/protoc-gen-go-vtproto bin/protoc-gen-connect-go ## Generate code from the .proto files, and the wire types from api/openapi.yaml
	@for dir in $(GEN_DIRS); do \
		echo "generate $$dir"; \
		(cd $$dir && PATH="$(CURDIR)/bin:$$PATH" buf generate); \
	done
	@$(MAKE) wire-types

.PHONY: wire-types
wire-types: ## Generate the wire types from api/openapi.yaml; a test of internal/wiregen holds that they are current
	go run ./internal/wiregen

.PHONY: clean
clean: ## Remove what was built, the tools too
	rm -rf bin dist

.PHONY: release
release: ## Write the artefacts of VERSION (v0.1.0) into dist, from the last commit
	rm -rf dist
	GOWORK=off go run -C internal/tools/release . -version '$(VERSION)' -root $(CURDIR) -out $(CURDIR)/dist

.PHONY: record-formats
record-formats: build ## Record the disk and the bucket of this build, a new release VERSION, for the tests of all later ones
	OSQUEUE_BIN=bin/osqueue OSQUEUE_RECORD='$(VERSION)' go test ./tests/e2e -run '^TestRecordedFormats$$' -count=1 -v

##@ Test

# Without symbols, the linker needs half of the time for each of 80 test programs. make vet runs
# all of go vet, so that go test need not run a part of it.
GO_TEST = bin/gotestsum --format pkgname-and-test-fails -- -vet=off '-ldflags=-s -w'

# The package cluster takes longest, and comes first: at the end it would leave a processor idle.
.PHONY: test
test: bin/gotestsum ## Run the tests of the packages, and list the skipped ones with their reasons
	$(GO_TEST) $(TEST_FLAGS) ./cluster $$(go list $(PKGS) | grep -vE '/tests/' ; go list ./tests/... | grep -E '/tests/($(UNITS))(/|$$)')
	go test -tags $(TAGS),nextlevel -vet=off -run Level ./fsm ./cluster

# The longest packages come first.
.PHONY: e2e
e2e: build bin/osqueue-faultclock bin/osqueue-nextlevel versitygw-if-possible bin/gotestsum ## Run the tests with processes, browsers and containers
	OSQUEUE_BIN=bin/osqueue OSQUEUE_FAULT_BIN=bin/osqueue-faultclock OSQUEUE_NEXT_BIN=bin/osqueue-nextlevel $(GO_TEST) $(E2E_FLAGS) ./tests/e2e ./tests/attack ./tests/bench $$(go list ./tests/... | grep -vE '/tests/($(UNITS))(/|$$)')

.PHONY: race
race: build versitygw-if-possible ## Run all tests under the race detector
	CGO_ENABLED=1 go test -race $(RACE_FLAGS) $(PKGS)

.PHONY: stores
stores: build versitygw-if-possible ## Play faults of processes, buckets and disks on each store of STORES (default all four)
	@for store in $(STORES); do \
		echo "faults on $$store"; \
		OSQUEUE_BIN=bin/osqueue OSQUEUE_TEST_STORE=$$store go test ./tests/nemesis -count=1 -run 'TestFaults/^(processes|bucket|all_disks)$$' $(STORES_FLAGS); \
	done

.PHONY: fuzz
fuzz: ## Run every fuzz test FUZZTIME times (default 20000x)
	internal/tools/fuzz.sh $(FUZZTIME)

.PHONY: model
model: ## Hold the machine against the naive model over MODEL_CHECKS (default 20000) random logs
	go test ./fsm -run '^TestMachineAgreesWithModel$$' -rapid.checks=$(MODEL_CHECKS) -timeout 30m

.PHONY: mutants
mutants: build ## Seed the defects of tests/mutants, and check that each is caught
	go test ./tests/mutants -run '^TestMutants$$' -mutants -v -timeout 180m

.PHONY: vm
vm: ## Run the sandbox's tests in a virtual machine that has control groups of version 2
	go run ./tests/vm $(VM_FLAGS)

.PHONY: lint
lint: fmt-check vet golangci ## Check formatting, go vet and the linters (import rules are among them)

.PHONY: check
check: lint generate-check race model fuzz ## Lint, generated code, tests with -race, the model, short fuzz

.PHONY: generate-check
generate-check: bin/buf bin/protoc-gen-go bin/protoc-gen-go-vtproto bin/protoc-gen-connect-go ## Check that the generated code is up to date
	PATH="$(CURDIR)/bin:$$PATH" internal/tools/generate-check.sh $(GEN_DIRS)

.PHONY: monitoring-check
monitoring-check: ## Load the rules and the dashboard of docs/monitoring as Prometheus does
	@cd internal/tools/monitoring && GOWORK=off go test -count=1 ./...

.PHONY: release-check
release-check: ## Make a release of the last commit twice, install it into roots of Debian, and run it in containers
	cd internal/tools/release && GOWORK=off go vet ./... && GOWORK=off go test -count=1 -timeout 10m -v ./...

.PHONY: sdk
sdk: build ## Build the programs of docs/sdk.md as a module of a user, count its modules, and run them against osqueue dev
	internal/tools/outside.sh

.PHONY: rename-module
rename-module: ## Change the path of the Go modules to MODULE, for a publisher of this repository
	@internal/tools/rename-module.sh $(MODULE)

.PHONY: rename-check
rename-check: ## Try rename-module and sdk in a copy of the checkout
	internal/tools/rename-check.sh

.PHONY: fmt
fmt: bin/gofumpt ## Format the code
	bin/gofumpt -w .

.PHONY: fmt-check
fmt-check: bin/gofumpt
	@unformatted=$$(bin/gofumpt -l .); \
	if [ -n "$$unformatted" ]; then \
		printf 'not formatted, run `make fmt`:\n%s\n' "$$unformatted"; exit 1; \
	fi

.PHONY: vet
vet:
	go vet $(PKGS) ./tests/bench
	go vet -tags faultclock,$(TAGS) ./cmd/osqueue ./cmd/osqueue/serve
	go vet -tags nextlevel,$(TAGS) ./fsm ./cluster

.PHONY: golangci
golangci: bin/golangci-lint
	bin/golangci-lint run $(PKGS) ./tests/bench
	cd internal/tools/monitoring && GOWORK=off $(CURDIR)/bin/golangci-lint run ./...
	cd internal/tools/release && GOWORK=off $(CURDIR)/bin/golangci-lint run ./...

# A real S3 server for the storage tests. They are skipped without it.
.PHONY: versitygw-if-possible
versitygw-if-possible:
	@timeout 600 $(MAKE) bin/versitygw \
		|| echo 'versitygw could not be built: the storage tests against it will be skipped'

##@ Measure

.PHONY: bench
bench: build ## Measure three processes on loopback, beside the bare raft commit
	OSQUEUE_BIN=bin/osqueue $(BENCH) $(BENCH_FLAGS)

.PHONY: bench-compare
bench-compare: build ## Measure commit BASE and this tree, which take turns of half a second, in 20 minutes
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && mkdir "$$dir/tree" && \
	git archive $(BASE) | tar -x -C "$$dir/tree" && \
	(cd "$$dir/tree" && GOWORK=off go build -ldflags '-s -w' -o "$$dir/base" ./cmd/osqueue) && \
	OSQUEUE_BIN=bin/osqueue $(BENCH) -base "$$dir/base" -duration 3s $(BENCH_FLAGS)

bin/peers/nats-server: # pinned in tests/peers/go.mod
	@mkdir -p $(@D)
	cd tests/peers && $(PEERS) timeout 900 go build -o $(CURDIR)/$@ github.com/nats-io/nats-server/v2

.PHONY: bench-peers
bench-peers: build bin/peers/nats-server ## Measure NATS beside osqueue, in 20 minutes
	@cd tests/peers && $(PEERS) go run . $(BENCH_FLAGS)

.PHONY: bench-peers-check
bench-peers-check: build ## Run each cell of bench-peers for a moment, with NATS if it is built
	@cd tests/peers && $(PEERS) go vet . && $(PEERS) go test -count=1 -timeout 4m .

.PHONY: soak
soak: build ## Run clusters under load and all faults for SOAK (default 10m), and whole nodes in simulated time
	OSQUEUE_BIN=bin/osqueue OSQUEUE_SOAK=$(SOAK) go test ./tests/nemesis -run '^TestSoak$$' -v -timeout 0
	OSQUEUE_SIM=$(SIM) go test ./cluster -run '^TestSimulation$$' -v -timeout 0
	OSQUEUE_BIN=bin/osqueue OSQUEUE_MILLION=1000000 go test ./tests/dashboard -run '^TestMillion$$' -v -timeout 0
	OSQUEUE_BIN=bin/osqueue OSQUEUE_RECOVERY=300000 go test ./tests/e2e -run '^TestRecoveryFromTheBucketTakesTheBrokerTimeout$$' -v -timeout 0

.PHONY: demo
demo: build ## Count the words of Go's standard library, and kill the leader meanwhile
	internal/tools/demo.sh bin/osqueue

##@ Containers

.PHONY: image
image: build ## Build the container image osqueue:latest
	docker build -t osqueue:latest .

.PHONY: cluster-up
cluster-up: image ## Start three brokers and two workers in containers
	$(COMPOSE) up -d
	@p1=127.0.0.1:$${OSQUEUE_PORT_1:-8080} p2=127.0.0.1:$${OSQUEUE_PORT_2:-8081} p3=127.0.0.1:$${OSQUEUE_PORT_3:-8082}; \
	printf '%s\n' "brokers: https://$$p1 https://$$p2 https://$$p3" '' 'To call them from this machine:' \
		"  docker cp \"\$$($(COMPOSE) ps -q n1):/certs/ca.crt\" compose-ca.crt" \
		"  (umask 077; $(COMPOSE) run --rm -T init --ca /ca/ca.crt --token-file /ca/admin.token \\" \
		"    token create --role admin --name host > compose.token)" \
		"  bin/osqueue context add compose --servers $$p1,$$p2,$$p3 --ca compose-ca.crt --token-file compose.token --use" \
		'  bin/osqueue status' '  bin/osqueue ui    # prints a link to the dashboard'

.PHONY: cluster-down
cluster-down: ## Stop the containers and delete their data
	$(COMPOSE) down --volumes --remove-orphans

##@ Tools

# $(call tool,name,folder of its go.mod,package)
define tool
TOOLS += bin/$(1)
bin/$(1): $(2)/go.mod $(2)/go.sum | bin
	@echo 'building $(1) (pinned in $(2)/go.mod)'
	@GOWORK=off go build -C $(2) -o $$(CURDIR)/$$@ $(3)
	@touch $$@
endef

$(eval $(call tool,golangci-lint,internal/tools,github.com/golangci/golangci-lint/v2/cmd/golangci-lint))
$(eval $(call tool,gofumpt,internal/tools,mvdan.cc/gofumpt))
$(eval $(call tool,gotestsum,internal/tools,gotest.tools/gotestsum))
$(eval $(call tool,buf,internal/tools/buf,github.com/bufbuild/buf/cmd/buf))
$(eval $(call tool,protoc-gen-go,internal/tools/protogen,google.golang.org/protobuf/cmd/protoc-gen-go))
$(eval $(call tool,protoc-gen-go-vtproto,internal/tools/protogen,github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto))
$(eval $(call tool,protoc-gen-connect-go,internal/tools/protogen,connectrpc.com/connect/cmd/protoc-gen-connect-go))
$(eval $(call tool,versitygw,internal/tools/versitygw,github.com/versity/versitygw/cmd/versitygw))

# Folders with a buf.gen.yaml.
GEN_DIRS := $(patsubst %/buf.gen.yaml,%,$(wildcard */buf.gen.yaml */*/buf.gen.yaml))

.PHONY: tools
tools: $(TOOLS) ## Build all tools into bin/

bin:
	@mkdir -p $@

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' Makefile
