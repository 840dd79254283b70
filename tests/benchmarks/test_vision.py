"""The vision benchmark compares the same weights, and its report is complete."""

import torch

from benchmarks import vision as benchmark
from nrs.vision import NRSHead


def test_both_networks_share_the_backbone():
    networks = benchmark.backbones()
    plain, headed = networks["backbone"], networks["with_nrs"]
    assert torch.equal(plain.conv1.weight, headed.conv1.weight)
    assert isinstance(headed.fc, NRSHead)
    assert (headed.fc.nrs.n_mul, headed.fc.nrs.n_per) == (2, 64)


def test_report_of_a_small_run(here, brief):
    here(benchmark)
    brief(benchmark)
    report = benchmark.run(1, turns=1, seconds=0.02, sizes=(64,), channels=(32,))
    assert report["heads"]["64"]["seconds"]["backbone"] > 0
    assert len(report["blocks"]) == 2
    text = benchmark.show(report)
    assert "| C = 32" in text
    assert "At batch 1" in text


def test_the_crossover_is_where_nrs_stays_the_faster():
    def blocks(*ratios):
        widths = (64, 128, 256, 512)
        return [
            {"batch": 1, "channels": width, "forward_ratio": ratio}
            for width, ratio in zip(widths, ratios, strict=True)
        ]

    assert benchmark.crossover(blocks(0.5, 1.2, 0.9, 1.1)) == 512
    assert benchmark.crossover(blocks(0.5, 0.9, 1.1, 1.4)) == 256
    assert benchmark.crossover(blocks(1.5, 1.9, 1.1, 1.4)) == 64
    assert benchmark.crossover(blocks(0.5, 0.9, 1.1, 0.9)) is None


def test_the_loops_train_the_same_network_on_the_same_files(here, tmp_path, monkeypatch):
    here(benchmark)
    monkeypatch.setattr(benchmark, "PICTURES", 8)
    monkeypatch.setattr(benchmark, "TRAIN_BATCH", 4)
    monkeypatch.setattr(benchmark, "TRAINED", 32)
    report = benchmark.run_training(1, turns=1)
    assert report["seconds"]["nrs"] > 0
    assert "plain loop" in benchmark.show_training(report)
