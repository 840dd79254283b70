"""Quantiles: their order, their calibration, and what is predicted."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_pinball_loss

from nrs import NRSRegressor
from nrs.tabular.targets import QuantileTarget

QUICK = {"preset": "fast", "epochs": 4, "random_state": 0, "verbose": 0}
X = np.random.default_rng(0).normal(size=(200, 3))
Y = X[:, 0] + np.exp(X[:, 1]) * np.random.default_rng(1).normal(size=200)


@given(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6, unique=True),
    st.integers(1, 3),
    st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_quantiles_never_cross_and_sorting_never_costs(levels, n_targets, seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(50, n_targets))
    target = QuantileTarget(sorted(levels)).learned(y)
    target.shift = rng.normal(size=target.n_outputs)
    outputs = torch.from_numpy(rng.normal(size=(50, target.n_outputs))).float()
    found = target.quantiles(outputs)
    assert found.shape == (50, n_targets, len(levels))
    assert (np.diff(found, axis=-1) >= 0).all()
    shifted = outputs + torch.from_numpy(target.shift).float()
    in_order = shifted.unflatten(1, (n_targets, -1)).sort(2).values.flatten(1)
    truth = torch.from_numpy(target.encode(y))
    assert target.loss(in_order, truth, None) <= target.loss(shifted, truth, None) + 1e-6


def test_the_loss_is_the_mean_pinball_loss():
    levels = (0.1, 0.5, 0.7)
    target = QuantileTarget(levels).learned(Y)
    outputs = torch.randn(200, 3)
    raw = outputs.double().numpy() * target.std + target.mean
    each = [
        mean_pinball_loss(Y, one, alpha=level) for one, level in zip(raw.T, levels, strict=True)
    ]
    loss = target.loss(outputs, torch.from_numpy(target.encode(Y)), None)
    assert float(loss) * target.std[0] == pytest.approx(np.mean(each), rel=1e-5)


def test_the_prediction_is_the_level_nearest_to_the_median():
    model = NRSRegressor(quantiles=(0.2, 0.45, 0.9), **QUICK).fit(X, Y)
    found = model.predict_quantiles(X)
    assert found.shape == (200, 3)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_array_equal(model.predict(X), found[:, 1])
    assert model.oob_prediction_.shape == (200,)
    assert 0 < model.oob_score_ < 1


def test_several_outputs_have_quantiles_each():
    both = np.column_stack([Y, -3 * Y + 7])
    model = NRSRegressor(quantiles=(0.1, 0.9), **QUICK).fit(X, both)
    found = model.predict_quantiles(X)
    assert found.shape == (200, 2, 2)
    np.testing.assert_array_equal(model.predict(X), found[:, :, 0])
    assert found[:, 1].mean() == pytest.approx(7 - 3 * found[:, 0].mean(), abs=2)


def test_out_of_bag_rows_shift_what_is_wrong_by_more_than_chance():
    target = QuantileTarget((0.1, 0.5)).learned(Y)
    y = torch.from_numpy(target.encode(Y))
    right = torch.from_numpy(np.quantile(y.numpy(), (0.1, 0.5))).float().expand(200, 2)
    target.settle(right, y, None)
    assert (target.shift == 0).all()
    target.settle(right + torch.tensor([0.0, 1.0]), y, None)
    assert target.shift[0] == 0
    assert target.shift[1] == pytest.approx(-1, abs=0.1)
    # Rows of weight 0 do not decide.
    weights = (torch.arange(200) < 100).float()
    target.settle(right + (torch.arange(200) >= 100).float()[:, None], y, weights)
    assert np.abs(target.shift).max() < 0.5


@pytest.mark.parametrize("wrong", [(), (0.5, 0.1), (0.5, 0.5), (0.0, 0.5), (0.5, 1.0), "half", 0.5])
def test_levels_are_ascending_and_between_0_and_1(wrong):
    with pytest.raises(ValueError, match="quantiles must be ascending numbers between 0 and 1"):
        NRSRegressor(quantiles=wrong, **QUICK).fit(X, Y)


def test_a_model_without_quantiles_says_how_to_fit_them():
    model = NRSRegressor(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match=r"quantiles need a fit to them, such as"):
        model.predict_quantiles(X)
