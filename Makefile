# make demo, make test: everything from a fresh clone with Python 3.11, pip, make and git.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin
PIP := $(RUN)/python -m pip --disable-pip-version-check -q
# The constraints pin what the tests ran with; the ranges in pyproject.toml stay wide.
INSTALL := $(PIP) install -c constraints.txt -e

.PHONY: demo test test-heavy test-gpu test-fuzz test-integrations engine engine-asan setup setup-peers lint format \
	figures tour docs clean

demo: $(VENV)/.demo
	$(RUN)/python examples/demo.py

test: setup lint
	OMP_NUM_THREADS=1 $(RUN)/python -m pytest -n 2 --dist worksteal

# What the suite only samples, in full.
test-heavy: setup
	OMP_NUM_THREADS=1 $(RUN)/python -m pytest -m heavy

# CUDA or MPS against the CPU; skipped without the hardware.
test-gpu: setup
	$(RUN)/python -m pytest -m gpu

# Random tables, model files, command lines and kills against laws: MINUTES=60 for longer.
MINUTES ?= 1
SEED ?= 0
test-fuzz: setup
	OMP_NUM_THREADS=1 $(RUN)/python -m benchmarks.fuzz --minutes $(MINUTES) --seed $(SEED)

# The engines and tools that models live in, each in an environment of its own: NAMES=mlflow for one.
NAMES ?=
test-integrations: setup
	$(RUN)/python -m tests.integrations.run $(NAMES)

# Compile the engine again after a change of its sources.
engine: setup
	$(RUN)/python hatch_build.py

# The engine's own tests, and steps of random shapes against torch, with a build that stops at the
# first read or write out of bounds and at undefined behaviour: EXAMPLES=100 for fewer.
EXAMPLES ?= 10000
ASAN := build/engine-asan
engine-asan: setup
	$(RUN)/python hatch_build.py $(ASAN) -fsanitize=address,undefined -fno-sanitize-recover=all -g -O1
	NRS_ENGINE_FOLDER=$(ASAN) ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=many EXAMPLES=$(EXAMPLES) \
	LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libubsan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so.6)" \
	$(RUN)/python -m pytest -n 0 tests/engine tests/core/test_compiled.py \
		tests/core/test_subspace_map.py tests/tabular/forest/test_compiled.py

setup: $(VENV)/.setup

setup-peers: setup
	$(INSTALL) ".[peers]"

lint: setup
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

format: setup
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

figures: setup
	$(RUN)/python docs/figures/method.py
	$(RUN)/python docs/figures/explain.py
	$(RUN)/python docs/figures/planning.py
	$(RUN)/python docs/figures/points.py

tour: setup
	OMP_NUM_THREADS=1 $(RUN)/python docs/figures/tour.py

docs: setup
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt hatch_build.py
	$(INSTALL) ".[demo]"
	@touch $@

$(VENV)/.setup: $(VENV)/bin/python pyproject.toml constraints.txt hatch_build.py $(wildcard src/nrs/engine/*.h src/nrs/engine/*.cpp)
	$(INSTALL) ".[test]"
	@touch $@ $(VENV)/.demo
