PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
JOBS ?= 2
PARALLEL := -n $(JOBS) --dist worksteal
export OPENBLAS_NUM_THREADS = 1

.PHONY: help setup demo test check bench slow lock tables clean
.DEFAULT_GOAL := help

help:  ## show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready  ## make .venv and install the hash-pinned requirements.lock

# Made from empty each time and marked ready only at the end, so that a killed set-up is not mistaken for a complete one.
# The lock is complete: pip resolves nothing and fetches exactly the files that the lock names.
.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo 'cannot set up with $(PYTHON): dpbayes needs Python 3.11. Name one: make setup PYTHON=/path/to/python3.11' >&2; exit 1; }
	@rm -f $@
	$(PYTHON) -m venv --clear .venv
	@echo 'installing what requirements.lock names into .venv, once: two minutes or so'
	$(PIP) install --quiet --no-deps --only-binary :all: --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-index --no-build-isolation -e .
	$(PIP) check
	@touch $@

demo: setup  ## release and analyse the wages example, end to end
	@$(BIN)/python -m examples.demo

test: setup  ## the fast suite, in JOBS=2 processes
	$(PYTEST) $(PARALLEL)

slow: setup  ## calibration, noise audits, deployment, kills: everything marked slow, or TESTS="files"
	$(PYTEST) $(PARALLEL) -m slow $(TESTS)

check: setup  ## format, lint, types, architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(PYTEST) -q tests/test_architecture.py

bench: setup  ## ratios of running times to named alternatives, measured in one run
	$(BIN)/python -m bench

lock: setup  ## compile what pyproject.toml asks for to requirements.lock, say what changed; newer: UPGRADE="names", or UPGRADE=1 for all
	$(BIN)/python -m tools.lock $(UPGRADE)

tables: setup  ## the tables of docs/coverage.md; for real data: DATA="folder of public files"; for robust releases: ROBUST="cells"; for several releases: POOLS="results.json"
	$(if $(DATA),$(BIN)/python -m tools.real_tables $(DATA),$(if $(ROBUST),$(BIN)/python -m tools.robust_coverage $(ROBUST),$(if $(POOLS),$(BIN)/python -m tools.pool_coverage $(POOLS),$(BIN)/python -m tools.coverage_tables)))

clean:  ## remove what was built here: .venv, caches, the demo and its ledger
	rm -rf .venv demo build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
