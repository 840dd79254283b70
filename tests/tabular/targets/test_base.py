"""Targets: losses, joint answers, weights of views."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.tabular.targets import (
    ClassTarget,
    MultilabelTarget,
    RegressionTarget,
    mean_odds,
    mean_probabilities,
    mean_values,
    target_from_state,
    weigh_views,
)


@pytest.mark.parametrize(
    "target",
    [
        ClassTarget(np.array(["a", "b"])),
        ClassTarget(np.array([1, 5])),
        ClassTarget(np.array([0.1, 0.2])),
        ClassTarget(np.array(["a", "b"], dtype=object)),
        MultilabelTarget(3),
        RegressionTarget(np.array([0.1, 1 / 3]), np.array([1e-30, 2.0]), single=False),
    ],
)
def test_targets_survive_their_state(target):
    again = target_from_state(json.loads(json.dumps(target.state())))
    assert again.state() == target.state()
    assert again.n_outputs == target.n_outputs


def test_weights_of_the_loss_are_relative():
    target = ClassTarget(np.arange(3))
    output, y = torch.randn(8, 3), torch.arange(8) % 3
    weights = torch.rand(8)
    once = target.loss(output, y, weights)
    assert torch.allclose(once, target.loss(output, y, weights * 7))
    assert torch.allclose(target.loss(output, y, torch.ones(8)), target.loss(output, y, None))
    assert target.loss(output, y, torch.zeros(8)) == 0


class HuberTarget(RegressionTarget):
    criterion = staticmethod(torch.nn.functional.huber_loss)


@pytest.mark.parametrize(
    ("target", "y"),
    [
        (ClassTarget(np.arange(3)), torch.arange(8) % 3),
        (MultilabelTarget(3), (torch.arange(24).view(8, 3) % 2).float()),
        (
            RegressionTarget(np.zeros(3), np.ones(3), single=False),
            torch.linspace(0, 9, 24).view(8, 3),
        ),
        (HuberTarget(np.zeros(3), np.ones(3), single=False), torch.linspace(0, 9, 24).view(8, 3)),
    ],
)
def test_members_and_a_network_have_one_loss(target, y):
    outputs = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    losses = target.losses(outputs, y)
    assert losses.shape == (2, 8)
    for one, each in zip(outputs, losses, strict=True):
        torch.testing.assert_close(target.loss(one.t(), y, None), each.mean())
        weights = torch.arange(8.0)
        expected = (each * weights).sum() / weights.sum()
        torch.testing.assert_close(target.loss(one.t(), y, weights), expected)


def test_averages_are_those_of_probabilities():
    outputs = torch.randn(4, 3, 6)
    mean = outputs.softmax(1).mean(0).t()
    torch.testing.assert_close(mean_probabilities(outputs).softmax(1), mean)
    mean = outputs.sigmoid().mean(0).t()
    torch.testing.assert_close(mean_odds(outputs).sigmoid(), mean)
    torch.testing.assert_close(mean_values(outputs), outputs.mean(0).t())
    weights = torch.tensor([[1.0], [0.0], [0.0], [0.0]]).expand(4, 6)
    torch.testing.assert_close(mean_probabilities(outputs, weights), outputs[0].log_softmax(0).t())


@given(st.integers(0, 1000), st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_learned_view_weights_are_never_worse_than_equal_ones(seed, n_views):
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randn(200, 1, generator=generator)
    noise = torch.rand(n_views, 1, 1, generator=generator)
    outputs = truth.t() + noise * torch.randn(n_views, 1, 200, generator=generator)
    of_views = weigh_views(outputs, truth, RegressionTarget.of(truth.numpy()[:, 0]))
    torch.testing.assert_close(of_views.sum(), torch.tensor(float(n_views)))

    def error(weights):
        joint = (outputs * (weights / weights.sum()).view(-1, 1, 1)).sum(0)
        return float((joint - truth.t()).square().mean())

    assert error(of_views) <= error(torch.ones(n_views)) + 1e-9


def test_a_useless_view_is_dropped_and_views_alike_stay_equal():
    truth = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    target = RegressionTarget.of(truth.numpy()[:, 0])
    useless = 5 * torch.randn(1, 500, generator=torch.Generator().manual_seed(1))
    assert weigh_views(torch.stack([truth.t(), useless]), truth, target).tolist() == [2, 0]
    alike = truth.t() + torch.randn(2, 1, 500, generator=torch.Generator().manual_seed(2))
    assert weigh_views(alike, truth, target).tolist() == [1, 1]


def test_rows_without_weight_do_not_decide():
    truth = torch.arange(100) % 2
    right = torch.stack([1.0 - truth, 1.0 * truth]) * 4
    mixed = torch.where(torch.arange(100) < 50, right, -right)
    views, target = torch.stack([mixed, -mixed]), ClassTarget(np.arange(2))
    weights = (torch.arange(100) < 50).float()
    assert weigh_views(views, truth, target, weights).tolist() == [2, 0]
    assert weigh_views(views, truth, target, 1 - weights).tolist() == [0, 2]
