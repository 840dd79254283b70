# make demo, make test: everything from a fresh clone with Python 3.11, pip, make and git.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin
PIP := $(RUN)/python -m pip --disable-pip-version-check -q
# The constraints pin what the tests ran with; the ranges in pyproject.toml stay wide.
INSTALL := $(PIP) install -c constraints.txt -e

.PHONY: demo test test-heavy test-gpu test-fuzz setup setup-peers lint format figures tour docs clean

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

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) ".[demo]"
	@touch $@

$(VENV)/.setup: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) ".[test]"
	@touch $@ $(VENV)/.demo
