PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
export OPENBLAS_NUM_THREADS = 1

.PHONY: help setup demo test check bench slow lock clean
.DEFAULT_GOAL := help

help:  ## show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready  ## make .venv and install the hash-pinned requirements.lock

.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "dpbayes needs Python 3.11: make setup PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	@echo 'installing what requirements.lock names into .venv, once: two minutes or so'
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup  ## release and analyse the wages example, end to end
	@$(BIN)/python -m studies.demo

test: setup  ## the fast suite
	$(PYTEST)

slow: setup  ## calibration, noise audits, deployment, kills: everything marked slow, or TESTS="files"
	$(PYTEST) -m slow $(TESTS)

check: setup  ## format, lint, types, architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(PYTEST) -q tests/test_architecture.py

bench: setup  ## ratios against named peers, measured in one run
	$(BIN)/python -m bench

lock: setup  ## compile requirements.in to requirements.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate requirements.in -o requirements.lock

clean:  ## remove what was built here: .venv, caches, the demo and its ledger
	rm -rf .venv demo build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
