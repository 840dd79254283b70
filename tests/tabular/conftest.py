"""Workers of a fit that take no time to start."""

import subprocess
from types import SimpleNamespace

import pytest

from tests.forked import ForkedPopen


@pytest.fixture
def forked_workers(monkeypatch):
    """Fork the processes of ``n_workers``; that they can be started anew is tested without it."""
    names = {name: getattr(subprocess, name) for name in ("PIPE", "DEVNULL", "TimeoutExpired")}
    forked = SimpleNamespace(Popen=ForkedPopen, **names)
    monkeypatch.setattr("nrs.tabular.forest.workers.subprocess", forked)
