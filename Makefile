# Everything runs as an ordinary user; nothing outside this folder is changed but temporary files.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := .devstack/uv/bin/uv

.DEFAULT_GOAL := help
.PHONY: help setup demo test check prove bench cast chaos simulate follow mutants fuzz pictures stack docs image sbom lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the locked dependencies

demo: $(READY) ## see it work: real servers, made-up couriers, pages, a proof at the end (OPEN=1: until Ctrl-C)
	@exec $(BIN)/python worker.py demo $(if $(OPEN),--open) --end-with $$PPID

# Three processes test side by side, each with servers of its own, as tests wait for servers much of their time;
# the tests of a file stay together. What Python compiles is kept, whatever the shell says of that: each process
# that a test starts would compile it again.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 3 --no-loadscope-reorder

test: $(READY) ## run the tests, on real servers, in under six minutes (ONLY="tests/limits": these alone)
	@$(PYTEST) -m "not prove" $(ONLY)

prove: $(READY) ## then the longer proofs: faults, random walks, worlds, mutants, fuzz; always the same
	@PORTION=2 $(PYTEST) -m "prove or portion"

check: $(READY) ## static checks: style, types, imports, architecture
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/architecture

bench: $(READY) ## measure it; QUICK=1: small, in a few minutes
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

cast: $(READY) ## draw the demo as it runs, for the README (docs/pictures/demo.svg)
	@$(BIN)/python -m benchmarks.cast docs/pictures/demo.svg

WALKS ?= 1000
WORKERS ?= 3
JUDGED := tests/limits/test_random_walk.py tests/limits/test_permit_paced.py \
  tests/acceptance/test_limits_at_the_courier.py tests/acceptance/test_many_in_a_call.py \
  tests/console/test_run.py
COURIERS ?= 7
chaos: $(READY) ## break workers and servers by a fresh plan, then judge (SEED=1 MINUTES=3 WORKERS=3 HOOKS=20000)
	@$(if $(SHORT)$(HOOKS),,FRESH=1 TIMES=1 WALKS=$(WALKS) $(BIN)/python -m pytest -q $(JUDGED))
	@$(if $(SHORT)$(HOOKS),,PYTHONPATH=.:tests/reliability $(BIN)/python -m door_storm $(if $(SEED),--seed $(SEED)))
	@$(if $(SHORT)$(HOOKS),,PYTHONPATH=.:tests/reliability $(BIN)/python -m relay_storm $(if $(SEED),--seed $(SEED)))
	@PYTHONPATH=.:tests/reliability $(BIN)/python -m chaos \
	  $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) --workers $(WORKERS) --couriers $(COURIERS) \
	  $(if $(RATE),--rate $(RATE)) $(if $(HOOKS),--hooks $(HOOKS)) $(if $(SHORT),--short) $(if $(FORGET),--forget-redis) \
	  $(if $(STEP),--step-clock) $(if $(AWAY),--away $(AWAY)) $(if $(OUTAGE),--outage $(OUTAGE)) \
	  $(if $(SENTINELS),--sentinels) $(if $(MEMBERS),--members) $(if $(POISON),--poison) $(if $(DOCS),--write-docs)

SEEDS ?= 500
simulate: $(READY) ## the whole worker on virtual time, one fresh world per seed (SEED=1 SEEDS=500 JSON=1)
	@PYTHONPATH=.:tests/simulation:tests/limits PYTHONHASHSEED=0 $(BIN)/python -m simulated \
	  $(if $(SEED),--seed $(SEED)) --seeds $(SEEDS) $(if $(JSON),--json)

PARCELS ?= 100000
DAYS ?= 3
follow: $(READY) ## re-checks of 100,000 parcels for three days of virtual time, planners killed (SEED=1)
	@PYTHONPATH=.:tests/upkeep PYTHONHASHSEED=0 $(BIN)/python -m followed \
	  --parcels $(PARCELS) --days $(DAYS) $(if $(SEED),--seed $(SEED))

mutants: $(READY) ## break one invariant after the other; the suite must notice (ONLY=words)
	@PYTHONPATH=.:tests $(BIN)/python -m mutants \
	  $(if $(ONLY),--only "$(ONLY)")

EXAMPLES ?= 10000
fuzz: $(READY) ## feed all that is read from outside with damaged input (EXAMPLES=10000 ONLY=routes)
	@FRESH=1 EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/fuzz $(if $(ONLY),-k "$(ONLY)")

pictures: $(READY) ## draw the pictures of the pages in docs/pictures, with Chromium, out of a run of the demo
	@PYTHONPATH=.:tests/web $(BIN)/python -m pictures

stack: $(READY) ## run the real servers and the courier site until Ctrl-C
	@exec $(BIN)/python -m devstack --end-with $$PPID

DOCS := .devstack/docs
PAGES := README.md CHANGELOG.md CONTRIBUTING.md LICENSE config.toml docker-compose.yml Dockerfile docs examples
docs: $(DOCS)/.ready ## write the pages as a site in .devstack/docs/site, and fail on a dead link (opens without a server)
	@rm -rf $(DOCS)/pages && mkdir $(DOCS)/pages && ln -s $(PAGES:%=../../../%) $(DOCS)/pages
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "Written: $(DOCS)/site/index.html"

IMAGE := courier-tracking/worker
VERSION = $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
image: ## build the image with its version, commit and date as labels (docker)
	@command -v docker >/dev/null || { \
	  echo "There is no docker here: https://docs.docker.com/engine/install/ says how to install it." >&2; exit 1; }
	@docker info >/dev/null 2>&1 || { \
	  echo "docker is here, and its daemon does not answer: start it, or ask for a place in the group docker." >&2; \
	  exit 1; }
	@docker build --target worker --tag $(IMAGE):$(VERSION) --tag $(IMAGE):latest --build-arg VERSION=$(VERSION) \
	  --build-arg REVISION=$$(git describe --always --dirty --abbrev=40 --exclude '*') \
	  --build-arg CREATED=$$(date -u +%Y-%m-%dT%H:%M:%SZ) .

SBOM ?= sbom.cdx.json
sbom: $(READY) ## write what the image is made of (CycloneDX; SBOM=sbom.cdx.json)
	@$(BIN)/python -m devstack.sbom > $(SBOM)

lock: $(UV) ## lock the dependencies again (make lock LOCK=--upgrade for newer ones)
	@for name in requirements requirements-dev requirements-docs; do \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --custom-compile-command 'make lock' $(LOCK) $$name.in -o $$name.txt || exit 1; \
	done

clean: ## remove everything that was made here
	@rm -rf $(VENV) .devstack .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is touched last, so an interrupted set-up starts over.
$(READY): requirements-dev.txt service/console/tracker.sh
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no $(PYTHON). Install Python 3.11 or newer: apt install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$$($(PYTHON) --version) is too old. Install Python 3.11 or newer (Debian 12, Ubuntu 24.04: apt" \
	       "install python3 python3-venv) or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. Install the package: apt install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; about a minute on a home line) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-cache-dir \
	  --require-hashes --only-binary :all: -r requirements-dev.txt
	@install -m 755 service/console/tracker.sh $(BIN)/tracker
	@touch $@

# What draws the pages stays out of the environment that tests run in.
$(DOCS)/.ready: requirements-docs.txt
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir \
	  --require-hashes --only-binary :all: -r $<
	@touch $@

# Only `lock` needs uv, so it stays out of the environment that tests run in.
$(UV): | $(READY)
	@$(PYTHON) -m venv .devstack/uv
	@.devstack/uv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: uv
