# What a developer types; CI runs `make check`. Tools: .ci/run installs the pinned ones.
GO       ?= go
FUZZTIME ?= 20s
BENCH    ?= .
SEEDS    ?= 200

.PHONY: build test race lint fmt fuzz bench bench-ctr bench-peers sim cover check accept tidy

build: ## programs into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...
test:
	$(GO) test ./...
race:
	$(GO) test -race -shuffle=on -timeout 10m ./...
lint:
	$(GO) vet ./...
	golangci-lint run
fmt:
	gofumpt -w .
fuzz: ## every target for FUZZTIME
	FUZZTIME=$(FUZZTIME) .ci/fuzz
bench: ## BENCH=regexp chooses; all of it wants 8 GB and half an hour
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 2h ./...
bench-ctr: ## training speed beside torch's; HCCLPS_PEERS names the peer's program
	bench/ctr.sh
bench-peers: ## transport beside Open MPI, MPICH and iperf3, as far as they are installed
	bench/peers.sh
sim: ## seeded faults, judged by the verifier
	$(GO) test -count=1 -timeout 15m -run 'TestVerifier' ./ps/pstest -seeds $(SEEDS)
cover:
	$(GO) test -coverprofile=cover.prof ./...
	$(GO) tool cover -func=cover.prof | tail -n 1
check: ## what CI runs
	.ci/run
accept: ## acceptance lines on real processes and data
	.ci/accept
tidy:
	$(GO) mod tidy
