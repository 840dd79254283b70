"""Shared set-up: one torch thread a worker, quick and repeatable property tests."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

from nrs.engine import instructions
from tests.forked import ForkedWorker

os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)
# Compiling SHAP's loops takes longer than running them on a few rows.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")

settings.register_profile(
    "quick",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "many",
    settings.get_profile("quick"),
    derandomize=False,
    max_examples=int(os.environ.get("EXAMPLES", "10000")),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture
def forked_workers(monkeypatch):
    """Fork the processes of ``n_workers``; that they can be started anew is tested without it."""
    monkeypatch.setattr("nrs.tabular.forest.workers.launch", ForkedWorker)


@pytest.fixture
def without_engine(monkeypatch):
    """Let torch train and predict, as where the compiled engine was not built."""
    monkeypatch.setenv("NRS_ENGINE", "torch")
    monkeypatch.setattr("nrs.engine.layer.AVAILABLE", False)
    instructions.cache_clear()
    yield
    instructions.cache_clear()
