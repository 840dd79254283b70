"""Measurements that are written as they come, and go on where they stopped."""

import json

import pytest

from benchmarks import measure


def test_a_run_that_was_stopped_measures_what_is_left(tmp_path, monkeypatch):
    path, calls = tmp_path / "cells.json", []

    def fit(seed):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(seed)
        return {"loss": seed / 10, "by column": {"a": seed}}

    monkeypatch.setattr(measure, "in_plain_process", lambda function, **given: function(**given))
    plan = [({"set": "wine", "seed": seed}, fit, {"seed": seed}) for seed in range(4)]
    with pytest.raises(KeyboardInterrupt):
        measure.measure_cells(path, plan, seeds=4)
    assert [cell["seed"] for cell in json.loads(path.read_text())["cells"]] == [0, 1]
    calls.clear()
    cells = measure.measure_cells(path, plan, seeds=4)
    assert calls == [2, 3]
    assert json.loads(path.read_text())["cells"] == cells
    assert [cell["loss"] for cell in cells] == [0.0, 0.1, 0.2, 0.3]
