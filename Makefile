# Every target sets up what it needs: a fresh clone with nothing installed can start with `make demo` or `make test`.
# PYTHON=/path/to/python picks the interpreter, VENV=/path/to/venv the environment, MAX_JOBS=n the compiler processes,
# TEST_JOBS=n the test processes.
VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST_ARGS ?=
# Test processes. A file's tests stay in one process, in order.
TEST_JOBS ?= 2
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help setup demo judge-programs test test-fast test-debug test-sanitizers test-hook-versions test-versions lint types format bench figures clean distclean

help:
	@echo "make demo     serve three functions, compare with eager and torch.compile"
	@echo "make test     the whole suite (test-fast: without the slow tests)"
	@echo "make test-versions   hook, guard and slice tests on CPython 3.11 and 3.13 (installs PyTorch for each)"
	@echo "make judge-programs  programs written from a seed, served and plain (SECONDS= PROGRAMS= JOBS= SEED= OUT=)"
	@echo "make test-debug   hook tests with our assertions on (test-sanitizers: under ASan and UBSan as well)"
	@echo "make types    check types (mypy; settings in pyproject.toml)"
	@echo "make lint     check style (make format: repair it)"
	@echo "make bench    latency table into benchmarks/results/latest/ (make figures: draw the committed results)"
	@echo "make clean    remove what was built (distclean: the environment too)"

# --- set-up: two stamps, so that a second run costs nothing ---------------------------------------------------------
STAMP_DEPS := $(VENV)/.stamp-deps
STAMP_BUILD := $(VENV)/.stamp-build
EXT_SOURCES := $(wildcard ext/*.[ch] ext/*/*.[ch] ext/*/*.cpp ext/*/*.hpp)

setup: $(STAMP_BUILD)

$(STAMP_DEPS): requirements/reference.txt
	@set -e; if ! [ -x $(PY) ]; then \
	  python=$$(PYTHON="$(PYTHON)" bash scripts/find_python.sh) || { echo "make: set-up stopped: no usable Python" >&2; exit 1; }; \
	  echo "creating $(VENV) with $$($$python --version)"; \
	  "$$python" -m venv $(VENV); \
	fi
	@echo "installing pinned dependencies (PyTorch is a few gigabytes the first time)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements/reference.txt \
	  || { echo "make: set-up stopped: pip could not install requirements/reference.txt; is a package index reachable?" >&2; exit 1; }
	@touch $@

# The first build installs the package in editable form (compat: one plain path, no import hook); later ones only
# rebuild ext/ in place.
$(STAMP_BUILD): $(STAMP_DEPS) setup.py pyproject.toml $(EXT_SOURCES)
	@if $(PY) -m pip show --quiet trident-hook 2>/dev/null; then \
	  $(PY) setup.py --quiet build_ext --inplace; \
	else \
	  $(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	    --config-settings editable_mode=compat -e .; \
	fi || { echo "make: set-up stopped: ext/ did not build; a C and C++ compiler (gcc or clang) is needed" >&2; exit 1; }
	@touch $@

# --- targets -----------------------------------------------------------------------------------------------------------
demo: setup
	@$(PY) -m trident_hook.demo

# pytest's closing line comes last: the other interpreters run first.
# tests/hook has a process of its own: it takes the core apart that the other tests use.
test: setup test-hook-versions
	@$(PY) -m pytest tests/hook $(PYTEST_ARGS)
	@$(PY) -m pytest --ignore=tests/hook -n $(TEST_JOBS) --dist loadfile $(PYTEST_ARGS)

test-fast: setup
	@$(PY) -m pytest -m "not slow" $(PYTEST_ARGS)

# Runs as long as it is told; OUT gets the result and a script for each difference.
SECONDS ?= 600
PROGRAMS ?= 1000000
JOBS ?= 2
SEED ?= 0
OUT ?= build/judge-programs
judge-programs: setup
	@$(PY) -m tests.judges.programs.run --seconds $(SECONDS) --programs $(PROGRAMS) --jobs $(JOBS) --seed $(SEED) --out $(OUT)

# The core of the hook built with assertions, and under the address and undefined-behaviour sanitizers, beside the normal build.
test-debug: setup
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bash scripts/test_checked.sh debug $(PYTEST_ARGS)

test-sanitizers: setup
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bash scripts/test_checked.sh sanitizers $(PYTEST_ARGS)

# Not part of `make test`: PyTorch is installed once more for each.
test-versions:
	@bash scripts/test_guard_versions.sh

test-hook-versions:
	@bash scripts/test_hook_versions.sh

lint: $(STAMP_DEPS)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bash scripts/lint.sh check

# Against the PyTorch that is installed; a second run reads .mypy_cache.
types: $(STAMP_DEPS)
	@$(PY) -m mypy

format: $(STAMP_DEPS)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bash scripts/lint.sh fix

bench: setup
	@$(PY) -m benchmarks.run_all --out benchmarks/results/latest

figures: setup
	@$(PY) -m benchmarks.figures

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks benchmarks/floor/build
	find trident_hook benchmarks tests -name '*.so' -delete -o -name __pycache__ -prune -exec rm -rf {} +
	rm -f $(STAMP_BUILD)

distclean: clean
	rm -rf $(VENV) .venvs
