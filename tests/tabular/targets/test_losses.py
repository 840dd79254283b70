"""Losses of numbers: gradients, scores, what they refuse, missing labels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    d2_absolute_error_score,
    d2_tweedie_score,
    r2_score,
)

from nrs import Huber, NRSRegressor, Tweedie
from nrs.tabular.targets import (
    AbsoluteTarget,
    ClassTarget,
    GammaTarget,
    LossTarget,
    MultilabelTarget,
    PoissonTarget,
    QuantileTarget,
    RegressionTarget,
    SquaredTarget,
    Target,
    find_loss,
    loss_names,
)

QUICK = {"preset": "fast", "epochs": 2, "random_state": 0, "verbose": 0}
X = np.random.default_rng(0).normal(size=(80, 3))


def learned(loss, seed=0, n_targets=2, n=12):
    """A loss that has learned labels it can take, and these."""
    rng = np.random.default_rng(seed)
    y = rng.gamma(1.0, 3.0, size=(n, n_targets))
    y = y if loss.kind == "gamma" else np.round(y, 1)
    y[0] = 1.0
    return loss.learned(y), y


LOSSES = [
    AbsoluteTarget(), Huber(0.5), PoissonTarget(), GammaTarget(), Tweedie(1.3),
    QuantileTarget((0.1, 0.5, 0.8)),
]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=15, deadline=None)
def test_gradients_in_closed_form_are_those_of_autograd(loss, seed, with_offset):
    target, y = learned(loss, seed)
    encoded = target.encode(y)
    if with_offset and target.takes_offset:
        encoded = target.with_offset(encoded, np.linspace(-1, 1, len(y)))
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(3, target.n_outputs, len(y), generator=generator).double()
    truth = torch.from_numpy(encoded).double()
    expected = Target.gradient(target, outputs, truth)
    torch.testing.assert_close(target.gradient(outputs, truth), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("target", "y"),
    [
        (ClassTarget(np.arange(3)), torch.arange(8) % 3),
        (MultilabelTarget(2), (torch.arange(16).view(8, 2) % 2).float()),
        (RegressionTarget(np.zeros(2), np.ones(2), single=False), torch.randn(8, 2)),
    ],
)
def test_the_default_losses_have_gradients_in_closed_form(target, y):
    outputs = torch.randn(2, target.n_outputs, 8)
    torch.testing.assert_close(target.gradient(outputs, y), Target.gradient(target, outputs, y))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_members_and_a_network_have_one_loss(loss):
    target, y = learned(loss)
    truth, outputs = torch.from_numpy(target.encode(y)), torch.randn(2, target.n_outputs, len(y))
    for one, each in zip(outputs, target.losses(outputs, truth), strict=True):
        torch.testing.assert_close(target.loss(one.t(), truth, None), each.mean())
        weights = torch.arange(float(len(y)))
        expected = (each * weights).sum() / weights.sum()
        torch.testing.assert_close(target.loss(one.t(), truth, weights), expected)


@pytest.mark.parametrize(
    ("loss", "score"),
    [
        (AbsoluteTarget(), d2_absolute_error_score),
        (SquaredTarget(), r2_score),
        (PoissonTarget(), lambda y, p: d2_tweedie_score(y, p, power=1)),
        (GammaTarget(), lambda y, p: d2_tweedie_score(y, p, power=2)),
        (Tweedie(1.5), lambda y, p: d2_tweedie_score(y, p, power=1.5)),
    ],
    ids=lambda loss: getattr(loss, "kind", ""),
)
def test_scores_are_those_of_scikit_learn(loss, score):
    y = learned(loss, n_targets=1, n=201)[1][:, 0]
    target = loss.learned(y)
    outputs = torch.randn(len(y), 1) / 3
    expected = score(y, target.answer(outputs))
    truth = torch.from_numpy(target.encode(y))
    assert target.score(outputs, truth, None) == pytest.approx(expected, abs=1e-5)
    weights = (torch.arange(len(y)) < 100).float()
    few = target.score(outputs[:100], truth[:100], None)
    assert target.score(outputs, truth, weights) == pytest.approx(few, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_the_start_is_the_best_constant(loss):
    target, y = learned(loss, n_targets=1, n=101)
    truth = torch.from_numpy(target.encode(y))
    start = np.zeros(target.n_outputs) if target.start is None else target.start
    best = torch.tensor(start, dtype=torch.float32).expand(len(y), -1)
    assert target.score(best, truth, None) == pytest.approx(0, abs=1e-6)
    for shift in (-0.05, 0.05):
        assert target.loss(best + shift, truth, None) >= target.loss(best, truth, None) - 1e-6


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("poisson", np.r_[-1.0, np.ones(79)], "needs y at least 0, and not all 0; got -1"),
        ("tweedie", np.zeros(80), "needs y at least 0, and not all 0; got only 0"),
        ("gamma", np.r_[0.0, np.ones(79)], "needs y above 0; got 0"),
        ("squared", np.r_[np.nan, np.ones(79)], "y contains NaN"),
        ("nothing", np.ones(80), r"loss must be one of 'squared', .*; got 'nothing'"),
        (3, np.ones(80), r"loss must be one of 'squared', .*; got 3"),
    ],
)
def test_a_loss_refuses_labels_that_it_cannot_take(loss, y, message):
    with pytest.raises(ValueError, match=message):
        NRSRegressor(loss=loss, **QUICK).fit(X, y)


def test_settings_of_losses_are_checked():
    with pytest.raises(ValueError, match=r"power must be from 1.01 to 1.99; got 3"):
        Tweedie(power=3)
    with pytest.raises(ValueError, match=r"delta must be a number; got 'wide'"):
        Huber(delta="wide")
    with pytest.raises(ValueError, match=r"quantiles are for loss='quantile'; got loss='poisson'"):
        NRSRegressor(loss="poisson", quantiles=(0.5,), **QUICK).fit(X, X[:, 0])
    assert find_loss(Tweedie).kind == "tweedie"
    assert {find_loss(name).kind for name in loss_names()} == set(loss_names())


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile"])
def test_missing_labels_teach_nothing(loss):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(80, 2)) + X[:, :2]
    missing = rng.random(y.shape) < 0.3
    missing[:, 0] &= ~missing[:, 1]
    gone = np.where(missing, np.nan, y)
    target = find_loss(loss).learned(gone)
    encoded = torch.from_numpy(target.encode(gone))
    outputs = torch.randn(3, target.n_outputs, 80)
    slopes = target.gradient(outputs, encoded).unflatten(1, (2, -1)).abs().sum((0, 2))
    assert (slopes[torch.from_numpy(missing.T)] == 0).all()
    # What only has one label of two is as one with that label.
    only = find_loss(loss).learned(gone)
    torch.testing.assert_close(only.losses(outputs, encoded), target.losses(outputs, encoded))
    model = NRSRegressor(loss=loss, **QUICK).fit(X, gone)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.oob_score_)


def test_a_column_without_any_label_is_refused():
    y = np.column_stack([X[:, 0], np.full(80, np.nan)])
    with pytest.raises(ValueError, match="column 1 has none"):
        NRSRegressor(**QUICK).fit(X, y)


def test_a_constant_is_predicted_as_it_is():
    for loss in ("absolute", "huber", "quantile", "poisson", "gamma"):
        model = NRSRegressor(loss=loss, **QUICK).fit(X, np.full(80, 7.0))
        if loss in ("absolute", "huber", "quantile"):
            assert (model.predict(X) == 7).all()
        np.testing.assert_allclose(model.predict(X), 7, rtol=0.2)


def test_another_loss_is_one_class():
    class LogCosh(LossTarget):
        kind = "log_cosh"

        def each(self, outputs, y):
            return torch.log(torch.cosh(outputs - y))

        def best(self, y, weights):
            return np.average(y, axis=1, weights=weights)

    model = NRSRegressor(loss=LogCosh(), **QUICK).fit(X, X[:, 0])
    assert model.oob_score_ > 0
    assert model.get_params()["loss"] is model.loss
