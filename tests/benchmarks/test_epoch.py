"""Both loops train the same network to the same losses; the report is complete."""

import pytest
import torch

from benchmarks import epoch as benchmark


def test_data_have_the_form_of_letter():
    x, y = benchmark.letter_like(500)
    assert x.shape == (500, 16)
    assert x.min() >= -1
    assert x.max() <= 1
    assert set(y.tolist()) == set(range(26))
    assert torch.equal(x, benchmark.letter_like(500)[0])


def test_losses_agree_from_the_same_weights_on_the_same_batches():
    theirs, ours = benchmark.compare_losses(steps=5)
    assert len(theirs) == len(ours) == 5
    assert theirs == pytest.approx(ours, abs=benchmark.LOSS_TOLERANCE)


def test_both_loops_learn():
    x, y = benchmark.letter_like(2_000)
    theirs, ours = benchmark.networks()
    for losses in (benchmark.authors_epoch(theirs, x, y), benchmark.our_epoch(ours, x, y)):
        assert len(losses) == 16
        assert losses[-1] < losses[0]


def test_report_of_a_small_run(monkeypatch, here):
    here(benchmark)
    monkeypatch.setattr(benchmark, "COMPARED_STEPS", 3)
    report = benchmark.run(processes=1, rows=256, epochs=1)
    assert report["losses"]["largest_difference"] <= benchmark.LOSS_TOLERANCE
    assert len(report["losses"]["ours"]) == 3
    assert min(report["seconds"].values()) > 0
    assert report["ratio"] > 0
    assert "| letter" in benchmark.show(report)
