"""Short measurements in this process: a process each is what the layer's benchmark tests."""

import json

import pytest

from benchmarks.measure import interleaved


@pytest.fixture
def here(monkeypatch):
    """Let a benchmark measure in this process, through JSON as from another."""

    def call(function, **arguments):
        return json.loads(json.dumps(function(**json.loads(json.dumps(arguments)))))

    return lambda benchmark: monkeypatch.setattr(benchmark, "in_fresh_process", call)


@pytest.fixture
def brief(monkeypatch):
    """Let a benchmark measure everything as seldom as it allows."""

    def call(candidates, **given):
        return interleaved(candidates, **given | {"seconds": 0.0})

    return lambda benchmark: monkeypatch.setattr(benchmark, "interleaved", call)
