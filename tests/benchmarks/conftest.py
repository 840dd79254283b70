"""Measurements in this process: a process each is what `benchmarks.measure` is tested for."""

import json

import pytest


@pytest.fixture
def here(monkeypatch):
    """Let a benchmark measure in this process, through JSON as from another."""

    def call(function, **arguments):
        return json.loads(json.dumps(function(**json.loads(json.dumps(arguments)))))

    return lambda benchmark: monkeypatch.setattr(benchmark, "in_fresh_process", call)
