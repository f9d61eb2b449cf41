# Glassline. `make` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:
# A Rust that is installed but not in PATH (a shell opened before rustup ran).
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# Names of the benches: the programs in bench/. Soaks take from ten minutes on, the experiment hours: they run when asked for by name.
BENCHES := $(patsubst bench/%,%,$(shell find bench -mindepth 1 -maxdepth 1 -type f -perm -u+x 2>/dev/null | sort))

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-zA-Z%_-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "  benches: $(or $(BENCHES),none yet)"

.PHONY: build
build: ## the program, optimised: target/release/glassline (installs what Debian lacks for it)
	@scripts/setup build
	cargo build --release --locked -p glassline

.PHONY: run
run: ## build, then serve with a live demo stream on http://127.0.0.1:8080/
	@scripts/setup run
	cargo build --release --locked -p glassline
	@exec $(TARGET_DIR)/release/glassline serve --demo

.PHONY: test
test: ## everything: Rust, the web page, browsers, foreign programs; skipped tests are counted
	@scripts/setup build
	@scripts/test install

.PHONY: test-quick
test-quick: ## Rust alone, without foreign programs: under a minute once built
	@scripts/setup build
	@scripts/test quick

.PHONY: lint
lint: ## format, clippy, licences and dependencies, the walls between rooms, links in the docs
	@scripts/setup lint
	@scripts/lint

.PHONY: web
web: ## build the web page anew (web/dist is committed: building the program needs no Node)
	@scripts/setup test
	cd web && npm ci --no-audit --no-fund && npm run build

.PHONY: bench
bench: ## every bench but the soaks, the experiment and srtla (needs a foreign sender); tables here, figures in target/bench/*.json
	@scripts/setup bench
	@mkdir -p $(TARGET_DIR)/bench
	@[ -n "$(BENCHES)" ] || { echo "no bench in bench/ yet"; exit 1; }
	@set -e; for name in $(filter-out soak soak-% experiment srtla,$(BENCHES)); do echo "== $$name"; bench/$$name; done

bench-%: ## one bench
	@[ -f bench/$* ] && [ -x bench/$* ] || { echo "no bench '$*'; there are: $(or $(BENCHES),none)" >&2; exit 2; }
	@scripts/setup bench
	@mkdir -p $(TARGET_DIR)/bench
	@bench/$*

.PHONY: experiment
experiment: ## the experiments of Salsify's paper, for hours; goes on where it was stopped; EXPERIMENT="--only att --seconds 60"
	@scripts/setup bench
	@mkdir -p $(TARGET_DIR)/bench
	@bench/experiment $(EXPERIMENT)

.PHONY: figures
figures: ## copy the benches' figures into the pages that show them
	@scripts/figures

.PHONY: explore
explore: ## property tests with cases that nobody has seen: CASES=4096 of each
	@scripts/setup build
	PROPTEST_CASES=$(or $(CASES),4096) cargo test --workspace --locked --lib

.PHONY: fuzz
fuzz: ## fuzz for an hour over all targets (needs a C++ compiler); FUZZ="name …" FUZZ_SECONDS=60
	@scripts/fuzz "$(FUZZ)" "$(FUZZ_SECONDS)"

.PHONY: clean
clean: ## remove what was built
	cargo clean
	rm -rf fuzz/target web/node_modules tests/browser/node_modules
