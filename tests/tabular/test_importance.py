"""Importances: exact where they can be computed by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from nrs import NRSRegressor
from nrs.tabular.importance import MAX_OUTPUTS, response


def test_a_linear_network_responds_with_its_weights():
    linear = nn.Linear(5, 3)
    centred = linear.weight - linear.weight.mean(0)
    x = torch.randn(7, 5)
    expected = centred.square().sum(0).sqrt() * x.std(0)
    assert torch.allclose(response(linear, x), expected, atol=1e-6)


def test_many_outputs_are_estimated():
    torch.manual_seed(0)
    linear = nn.Linear(4, 20 * MAX_OUTPUTS)
    with torch.no_grad():
        linear.weight[:, 2] *= 10
    centred = linear.weight - linear.weight.mean(0)
    x = torch.randn(7, 4)
    expected = centred.square().sum(0).sqrt() * x.std(0)
    got = response(linear, x)
    assert got.argmax() == 2
    assert torch.allclose(got, expected, rtol=0.5)


def test_columns_share_in_proportion_to_their_effect():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    y = 3 * X[:, 0] + X[:, 1]
    importances = (
        NRSRegressor(preset="fast", random_state=0, epochs=40).fit(X, y).feature_importances_
    )
    assert importances.sum() == pytest.approx(1)
    assert importances.argmax() == 0
    assert importances[0] / importances[1] == pytest.approx(3, rel=0.35)
    assert max(importances[2:]) < importances[1] / 2


def test_a_constant_column_counts_nothing():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=100), np.ones(100)])
    importances = NRSRegressor(random_state=0, epochs=5).fit(X, X[:, 0]).feature_importances_
    assert importances.tolist() == [1.0, 0.0]


def test_many_rows_at_the_edge_of_a_narrow_bin_do_not_drown_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    # Half of the column is one value, as of rows without one; the next edge is close to it.
    X[:200, 1], X[200:260, 1] = 0, 1e-3
    rng.shuffle(X[:, 1])
    model = NRSRegressor(preset="fast", random_state=0).fit(X, X[:, 0])
    assert model.network_.bins.rate.max() > 500
    assert model.feature_importances_[1] < 0.1
