"""Counts in both conventions, by hand and against the paper's printed figures."""

import pytest
import torch
from torch import nn

from nrs import NRS
from nrs.core import FullyConnectedExpansion, count


@pytest.mark.parametrize(
    ("module", "shape", "macs", "flops"),
    [
        (nn.Linear(10, 4), (3, 10), 120, 240),
        (nn.Linear(10, 4, bias=False), (3, 10), 120, 3 * 19 * 4),
        (nn.Conv2d(4, 8, 3, padding=1, groups=2), (1, 4, 5, 5), 8 * 25 * 18, 8 * 25 * 19),
        (nn.Conv2d(4, 8, 1, bias=False), (1, 4, 5, 5), 800, 800),
        (nn.BatchNorm2d(4), (1, 4, 5, 5), 0, 400),
        (nn.AdaptiveAvgPool2d(1), (1, 4, 5, 5), 0, 26 * 4),
        (nn.AvgPool2d(4), (1, 4, 8, 8), 0, 5 * 16),
        (nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Sigmoid()), (1, 4, 8, 8), 0, 0),
    ],
)
def test_rules(module, shape, macs, flops):
    counts = count(module, torch.randn(shape))
    assert (counts.macs, counts.paper_flops) == (macs, flops)


@pytest.mark.parametrize(
    ("d", "n_mul", "n_per", "classes", "without", "with_nrs"),
    [
        # Printed FLOPs (millions) of the network with its classifier, and with NRS before it.
        (2048, 2, 64, 200, 16527.59, 16530.79),  # ResNet-50, 448 px
        (512, 6, 64, 200, 61441.02, 61443.83),  # VGG-16, 448 px
        (512, 4, 32, 1000, 1824.55, 1828.22),  # ResNet-18, 224 px
    ],
)
def test_what_the_head_adds_is_what_the_paper_prints(d, n_mul, n_per, classes, without, with_nrs):
    x = torch.randn(1, d)
    plain = count(nn.Linear(d, classes), x).paper_flops
    head = nn.Sequential(NRS(d, n_mul, n_per), nn.Linear(n_mul * d, classes))
    added = (count(head, x).paper_flops - plain) / 1e6
    assert added == pytest.approx(with_nrs - without, abs=0.011)


def test_equivalent_convolution_counts_the_same():
    layer = NRS(12, n_mul=2, n_per=3, n_h=2)
    convolution = nn.Sequential(nn.Conv2d(24, 24, 2, groups=8), nn.BatchNorm2d(24))
    assert count(layer, torch.randn(5, 12)) == count(convolution, torch.randn(5, 24, 2, 2))
    two = NRS(6, n_h=5, depth=2)
    stages = nn.Sequential(
        nn.Conv2d(6, 6, 3, groups=6),
        nn.BatchNorm2d(6),
        nn.Conv2d(6, 6, 3, groups=6),
        nn.BatchNorm2d(6),
    )
    assert count(two, torch.randn(5, 6)) == count(stages, torch.randn(5, 6, 5, 5))


def test_folded_layer_drops_the_normalisation():
    layer = NRS(12, n_mul=2).eval()
    folded = count(layer.fold(), torch.randn(1, 12))
    assert (folded.parameters, folded.macs, folded.paper_flops) == (0, 24 * 9, 24 * 10)


def test_the_ablation_pays_for_its_matrix():
    stand_in = FullyConnectedExpansion(6, 2, sparse_init=False, frozen=False)
    x = torch.randn(1, 6)
    assert count(stand_in, x).macs == count(NRS(6, 2), x).macs + 6 * 108


def test_counting_leaves_the_module_as_it_was():
    module = nn.Sequential(NRS(4), nn.Dropout())
    module[1].eval()
    count(module, torch.randn(1, 4))
    assert module.training
    assert not module[1].training
    assert not module[0]._forward_hooks


def test_a_module_in_two_places_counts_as_often_as_it_runs():
    shared = nn.Linear(3, 3)
    twice = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared))
    apart = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    x = torch.randn(1, 3)
    assert count(twice, x).macs == count(apart, x).macs == 18
    assert count(twice, x).parameters == 12
