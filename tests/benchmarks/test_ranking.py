"""The ranking benchmark in small: both sides do the same work, and the report is complete."""

import json
import subprocess

import numpy as np
import pytest
import torch

from benchmarks import measure, ranking


@pytest.fixture
def here(monkeypatch):
    """Measurements in this process."""

    def call(function, **arguments):
        return json.loads(json.dumps(function(**arguments)))

    monkeypatch.setattr(ranking, "in_fresh_process", call)
    monkeypatch.setattr(ranking, "in_plain_process", call)


def test_data_have_the_form_of_mslr():
    rows = ranking.mslr_like(20)
    assert rows.features.shape[1] == 136
    assert 100 < rows.queries.lengths.mean() < 140
    assert set(np.unique(rows.targets.numpy())) == {0, 1, 2, 3, 4}
    assert ranking.mslr_like(5, longest=300).queries.lengths.max() == 300


def test_the_losses_of_the_loop_are_ours():
    assert ranking.LOOP_LOSSES.keys() == ranking.LOSSES.keys()
    assert all(value < 1e-5 for value in ranking.compare_losses().values())


def test_both_sides_train_the_same_network():
    ours, theirs = ranking.network().eval(), ranking.authors_network().eval()
    x = torch.randn(7, 136)
    assert torch.allclose(ours(x), theirs(x), atol=1e-5)


def test_every_loss_is_measured(here, monkeypatch):
    monkeypatch.setattr(ranking, "LENGTH", 8)
    monkeypatch.setattr(ranking, "mslr_like", lambda queries, length=8, longest=0: _small(queries))
    report = {"training": ranking.training(processes=1, queries=3, turns=1)}
    text = ranking.show(report)
    for name in ranking.LOSSES:
        assert report["training"]["losses"][name]["ratio"] > 0
        assert name in text


def test_reading_is_compared_on_the_same_lines(here):
    report = ranking.reading(megabytes=4, processes=1, part_megabytes=1)
    assert report["bytes"] > 3e6
    assert 1e6 <= report["sklearn_bytes"] < 1.1e6
    assert report["ours"][0]["rows"] > 3 * report["sklearn"][0]["rows"]
    assert report["ratio"] == report["ours_mb_per_s"] / report["sklearn_mb_per_s"]
    assert "times as fast" in ranking.show({"reading": report})


def test_readers_have_the_allocator_of_users(monkeypatch):
    environments = []

    def run(command, env, **options):
        environments.append(sorted(name for name in env if name.startswith("MALLOC_")))
        return subprocess.CompletedProcess(command, 0, stdout="null", stderr="")

    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    monkeypatch.setattr(measure.subprocess, "run", run)
    measure.in_plain_process(ranking.read_ours, path="x")
    measure.in_fresh_process(ranking.read_ours, path="x")
    assert environments[0] == []
    assert "MALLOC_TRIM_THRESHOLD_" in environments[1]


_mslr_like = ranking.mslr_like


def _small(queries):
    return _mslr_like(queries, length=8)
