# Everything a developer needs, on a machine with Go: `make test` first, `make help` for the rest.

SHELL  := bash
BINARY := flink-lineage-exporter
IMAGE  ?= flink-lineage-exporter
FUZZTIME  ?= 30s
BENCHTIME ?= 1s
COUNT     ?= 6
# More arguments for go test, the lab and the end-to-end test.
TESTFLAGS ?=
LABFLAGS  ?=
E2EFLAGS  ?=

# What --version and flink_lineage_exporter_build_info say: from git, or from the environment where there is none.
VERSION  ?= $(shell sed -n "s|^## \([0-9][0-9.]*\).*|\1|p" CHANGELOG.md | head -n 1)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
BRANCH   ?= $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null)
DATE     ?= $(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
INFO     := github.com/prometheus/common/version
LDFLAGS  := -s -w -X $(INFO).Version=$(or $(VERSION),0.0.0-dev) -X $(INFO).Revision=$(REVISION) \
            -X $(INFO).Branch=$(BRANCH) -X $(INFO).BuildDate=$(DATE)

# Tools are built once for each content of tools/go.sum and each version of Go: linking golangci-lint takes minutes.
TOOLS     := $(CURDIR)/.cache/tools/$(shell cksum < tools/go.sum | cut -d ' ' -f 1)-$(shell go env GOVERSION)
GOLANGCI  := $(TOOLS)/golangci-lint
BENCHSTAT := $(TOOLS)/benchstat

.DEFAULT_GOAL := build

.PHONY: build
build: ## Build the static binary.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BINARY) .

.PHONY: test
test: ## Vet, and run all tests with the race detector.
	go vet ./...
	cd tools && go vet ./...
	go test -race $(TESTFLAGS) ./...
	go test $(TESTFLAGS) ./internal/recording
	cd tools && go test -race $(TESTFLAGS) ./...

.PHONY: race
race: ## Run all tests with the race detector, ten times over.
	go test -race -count=10 $(TESTFLAGS) ./...

.PHONY: lint
lint: $(GOLANGCI) ## Run the linters and check the formatting.
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(GOLANGCI) run ./...

.PHONY: format
format: $(GOLANGCI) ## Format the code.
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(GOLANGCI) fmt ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s).
	set -e; go list ./... | while read -r package; do \
	  for target in $$(go test -list '^Fuzz' $$package </dev/null | grep '^Fuzz'); do \
	    echo "== $$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package </dev/null; \
	  done; \
	done

.PHONY: bench
bench: $(BENCHSTAT) ## Run the benchmarks; compared with .cache/bench.old if that exists.
	mkdir -p .cache
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(COUNT) ./... | tee .cache/bench.new
	if [ -f .cache/bench.old ]; then $(BENCHSTAT) .cache/bench.old .cache/bench.new; else $(BENCHSTAT) .cache/bench.new; fi

.PHONY: generate
generate: ## Write anew what is made from code: docs/metrics.md, alert rules, dashboards and their copies in examples/.
	go test ./collector -run TestDocs -update
	go run ./alerts/cmd/rules
	cd dashboards && go run .

.PHONY: check-generated
check-generated: generate ## Fail if generated files differ from what is committed.
	git diff --exit-code -- docs/metrics.md alerts dashboards examples

.PHONY: rules
rules: ## Test alert and recording rules with promtool and the Alertmanager example with amtool.
	sh alerts/test.sh

.PHONY: dashboards
dashboards: ## Test the dashboards.
	cd dashboards && go vet ./... && go test ./...

.PHONY: examples
examples: ## Check the examples and the mixin; builds kustomize, helm and jsonnet at first.
	sh examples/test.sh

.PHONY: e2e
e2e: ## An incident and a clean failover, replayed and on real Flink, in real Prometheus and Alertmanager: who is paged, and when.
	sh test/e2e/run.sh $(E2EFLAGS)

.PHONY: demo
demo: ## Run the exporter on a recorded incident; needs neither Flink nor network.
	go run . demo

.PHONY: lab
lab: build ## Check the exporter on real Flink clusters, which are downloaded; needs Java.
	go run ./test/acceptance --exporter $(CURDIR)/$(BINARY) $(LABFLAGS)

.PHONY: acceptance
acceptance: build ## Play every scenario on ten Flink versions and write docs/acceptance.md; takes hours.
	go run ./test/acceptance --exporter $(CURDIR)/$(BINARY) --versions all --out docs/acceptance.md $(LABFLAGS)

.PHONY: beam-lab
beam-lab: build ## The same with real Kafka, PostgreSQL and Beam, and write docs/acceptance-beam.md; needs Maven and root.
	go run ./test/acceptance --exporter $(CURDIR)/$(BINARY) --suite beam --versions 1.17.2,2.3.0 --out docs/acceptance-beam.md $(LABFLAGS)

.PHONY: advice
advice: build ## Try what is advised for the night of a failover, and write docs/advice.md; needs Maven and root.
	go run ./test/acceptance --exporter $(CURDIR)/$(BINARY) --suite advice --versions 1.17.2 --out docs/advice.md $(LABFLAGS)

.PHONY: night
night: build ## The incident on real systems, with Kubernetes, HDFS, Kafka, Beam and PostgreSQL, told in docs/night.md; needs Maven and root.
	go run ./test/night --exporter $(CURDIR)/$(BINARY) --out docs/night.md

.PHONY: night-short
night-short: build ## The same in minutes, with ZooKeeper and without the ledger.
	go run ./test/night --exporter $(CURDIR)/$(BINARY) --short

.PHONY: night-tell
night-tell: ## Write docs/night.md anew from what make night measured.
	go run ./test/night --tell --out docs/night.md

.PHONY: image
image: ## Build the container image.
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg BRANCH=$(BRANCH) --build-arg DATE=$(DATE) -t $(IMAGE) .

.PHONY: clean
clean: ## Remove the binary and cached tools.
	rm -rf $(BINARY) .cache

.PHONY: help
help: ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target text; do printf '%-16s %s\n' "$$target" "$$text"; done

$(GOLANGCI):
	cd tools && go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BENCHSTAT):
	cd tools && go build -o $@ golang.org/x/perf/cmd/benchstat
