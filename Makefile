# nbprov: every command a person needs. `make help` lists them. GNU make 3.81 is enough (macOS ships it).

SHELL := /bin/sh
.SUFFIXES:
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python

# The python the virtual environment is made from; say PYTHON=/path/to/python to choose another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then command -v "$$p"; break; fi; done)

# $(call prepare,PROFILE): the virtual environment and the programs that this profile needs; at once if they are there.
define prepare
@p="$(PYTHON)"; if ! "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	echo "nbprov needs Python 3.11 or later: install it (Debian: apt-get install python3 python3-venv; macOS: brew install python@3.13)," \
	"or say make PYTHON=/path/to/python" >&2; exit 1; fi; \
	"$$p" tests/tools/prepare.py --profile $(1)
endef

QUICKSTART := example_notebooks/quickstart.ipynb
LAB_FLAGS ?=
RUNS ?= 200
CLOUD_RUNS ?= 30
SEED ?= 1
DURATION ?= 20m
ONLY ?=
ALL ?=
BASE ?=
MUTANTS ?=
BENCH_JSON ?= build/benchmarks.json

.PHONY: help demo lab test check site chaos mutants soak bench lint types fuzz verify-doubles kernel-pins clean setup-demo setup-lab setup-test

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)$$/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-15s %s\n", $$1, $$2 }'

demo: setup-demo ## run the quickstart headless on the simulated local cloud and print its story
	@$(PY) example_notebooks/run_quickstart.py

lab: setup-lab ## open JupyterLab on the quickstart (LAB_FLAGS="--no-browser --port 8890" is passed on)
	@root=""; if test "$$(id -u)" = 0; then root=--allow-root; fi; \
	exec $(PY) -m jupyterlab $$root --LabApp.news_url= --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(LAB_FLAGS) $(QUICKSTART)

test: setup-test ## the tests, browser tests included (ONLY=unit,kernel chooses stages; ALL=1 runs every stage, as CI does)
	@$(PY) tests/tools/run_all.py $(if $(ONLY),--only $(ONLY)) $(if $(filter 1,$(ALL)),--all)

check: setup-test ## what has changed since main, within a minute: lint, types, layers, and the unit tests that show it (BASE=COMMIT)
	@$(PY) tests/tools/check_changed.py $(if $(BASE),--base $(BASE))

site: setup-test ## the documentation as a site, in build/site
	@$(PY) tests/tools/run_all.py --only site

chaos: setup-test ## kill the engine at every state transition and around each cloud's create, and count what is left (RUNS=200 CLOUD_RUNS=30 SEED=1)
	@$(PY) tests/chaos/run.py --runs $(RUNS) --seed $(SEED)
	@$(PY) tests/chaos/clouds.py --runs $(CLOUD_RUNS) --seed $(SEED)

mutants: setup-test ## try deliberate bugs in three clouds' adapters, and list those that the contract does not see (MUTANTS=runpod)
	@$(PY) tests/tools/adapter_mutants.py --only "$(MUTANTS)"

soak: setup-test ## use a cluster for long while its connections are cut every few seconds, and see what grows (DURATION=20m SEED=1)
	@$(PY) tests/soak/soak.py --duration $(DURATION) --seed $(SEED)

bench: setup-test ## measure what docs/benchmarks.md shows (BENCH_JSON=FILE)
	@mkdir -p "$$(dirname "$(BENCH_JSON)")"
	@$(PY) benchmarks/run.py --json "$(BENCH_JSON)"

lint: setup-test ## style, format and the layers of the house
	@$(PY) tests/tools/run_all.py --only lint,layers

types: setup-test ## the strict type check, for this platform and for Windows
	@$(PY) tests/tools/run_all.py --only types,windows

fuzz: setup-test ## the property tests with many more, and fresh, examples
	@$(PY) -m pytest tests/unit -m hypothesis --hypothesis-profile=fuzz -q

verify-doubles: setup-test ## compare what the doubles know of RunPod's and Lambda's APIs with what these publish (internet)
	@$(PY) tests/doubles/verify_published.py

kernel-pins: setup-test ## renew the versions and SHA-256 of ipykernel, pip and all that comes with them on machines (internet)
	@$(PY) tests/tools/kernel_pins.py

clean: ## remove what make made: virtual environments, caches, build results
	rm -rf $(VENV) .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup-demo:
	$(call prepare,demo)

setup-lab:
	$(call prepare,lab)

setup-test:
	$(call prepare,test)
