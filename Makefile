# `make help` lists what can be done here. Everything runs in .venv, which the first `make` creates.

VENV := .venv
BIN := $(VENV)/bin
UV ?= uv
UPGRADE ?=
# In two processes; `make test PARALLEL=` for one.
PARALLEL ?= -n 2 --no-loadscope-reorder
SIZE ?= small
KEEP ?=

# The Python that makes the environment: the first of these that is new enough, or the one you name
# (make PYTHON=/path/to/python3.12). When none is, python3 is left to say so itself.
ifeq ($(origin PYTHON), undefined)
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$python; exit; fi; \
	done; echo python3)
endif

# Tests start many Pythons. Without bytecode each of them would compile all our sources anew.
test test-all: export PYTHONDONTWRITEBYTECODE =

.PHONY: all prepare test test-all lint types demo bench dist lock clean help
.DEFAULT_GOAL := all

all: ## set up: a virtual environment in .venv with everything, Spark and Java included
	@$(MAKE) --no-print-directory prepare SAY=--say-path

prepare:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "make: no Python found ($(PYTHON)); Tidings needs 3.11 or newer." >&2; \
		echo "      On Debian and Ubuntu: apt install python3 python3-venv" >&2; exit 1; }
	@"$(PYTHON)" tools/prepare.py $(SAY)

test: lint types ## the gate, at most ten minutes of processor time: ruff, mypy, pytest without slow tests
	$(BIN)/python -m pytest -m "not slow" --hypothesis-profile=gate $(PARALLEL)

test-all: lint types ## all tests; says at its end what to install for those that were skipped
	$(BIN)/python -m pytest $(PARALLEL)

lint: prepare
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: prepare
	$(BIN)/mypy

demo: prepare ## all of it in a few minutes: a city's reports, events, and who gets them (SIZE=small|medium|large, KEEP=1)
	$(BIN)/tidings demo --size $(SIZE) $(if $(filter-out 0 no,$(KEEP)),--keep)

bench: prepare ## measure speed, beside peers, in the same run
	$(BIN)/python benchmarks/importtime.py
	$(BIN)/python benchmarks/filters.py
	$(BIN)/python benchmarks/matching.py
	$(BIN)/python benchmarks/space.py
	$(BIN)/python benchmarks/gathering.py
	$(BIN)/python benchmarks/workload.py
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/plans.py
	$(BIN)/python benchmarks/link.py
	$(BIN)/python benchmarks/mqtt.py
	$(BIN)/python benchmarks/faults.py --trials 12
	$(BIN)/python benchmarks/flood.py
	$(BIN)/python benchmarks/hostile.py
	$(BIN)/python benchmarks/hostile_filters.py
	$(BIN)/python benchmarks/seats.py --trials 10

dist: prepare ## build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation --outdir dist .

lock: ## write requirements.lock anew after a change of pyproject.toml (UPGRADE=1 for the newest versions)
	@command -v $(UV) >/dev/null || { \
		echo "make: the lock is resolved by uv, which is not on the PATH; name it: make lock UV=/path/to/uv" >&2; exit 1; }
	$(UV) pip compile pyproject.toml --extra spark --group dev --output-file requirements.lock --quiet \
		--universal --python-version 3.11 --generate-hashes $(if $(UPGRADE),--upgrade) \
		--no-header --no-emit-index-url --no-emit-find-links

clean: ## remove the environment and all that was built
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
