"""Regression with one and several targets."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_regression
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_val_score

from nrs import NRSRegressor

QUICK = {"epochs": 30, "random_state": 0}


def test_diabetes_is_at_least_a_random_forest():
    X, y = load_diabetes(return_X_y=True)
    forest = cross_val_score(RandomForestRegressor(random_state=0), X, y, cv=3).mean()
    ours = [cross_val_score(NRSRegressor(random_state=s), X, y, cv=3).mean() for s in range(2)]
    assert np.mean(ours) >= forest


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_targets_of_any_scale(scale):
    X, y = make_regression(300, 6, noise=1.0, random_state=0)
    model = NRSRegressor(**QUICK).fit(X, y * scale + 7 * scale)
    assert model.score(X, y * scale + 7 * scale) > 0.8


def test_several_outputs():
    X, y = make_regression(300, 6, n_targets=3, random_state=0)
    model = NRSRegressor(**QUICK).fit(X, y, eval_set=(X[:50], y[:50]))
    assert model.predict(X).shape == (300, 3)
    assert model.score(X, y) > 0.8
    with pytest.raises(ValueError, match="3 outputs"):
        NRSRegressor(**QUICK).fit(X, y, eval_set=(X[:50], y[:50, :2]))


def test_a_column_of_targets_keeps_its_shape():
    X, y = make_regression(60, 3, random_state=0)
    assert NRSRegressor(**QUICK).fit(X, y[:, None]).predict(X).shape == (60, 1)


def test_a_constant_target_is_predicted():
    X = np.random.default_rng(0).normal(size=(50, 3))
    predicted = NRSRegressor(**QUICK).fit(X, np.full(50, 3.5)).predict(X)
    np.testing.assert_array_equal(predicted, 3.5)


@pytest.mark.parametrize("metric", ["r2", "rmse", "mae"])
def test_metrics(metric):
    X, y = make_regression(200, 4, random_state=0)
    history = NRSRegressor(metric=metric, **QUICK).fit(X, y).history_
    sign = 1 if metric == "r2" else -1
    assert history["score"] == [sign * value for value in history[f"val_{metric}"]]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_targets(value):
    X, y = make_regression(20, 3, random_state=0)
    y[3] = value
    with pytest.raises(ValueError, match=r"y contains (NaN|infinity)"):
        NRSRegressor(**QUICK).fit(X, y)


def test_partial_fit():
    X, y = make_regression(300, 4, random_state=0)
    model = NRSRegressor(random_state=0)
    for _ in range(30):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.8


def test_paper_preset_learns_a_regression():
    X, y = make_regression(500, 5, random_state=0)
    model = NRSRegressor(preset="paper", random_state=0).fit((X - X.mean(0)) / X.std(0), y)
    assert model.score((X - X.mean(0)) / X.std(0), y) > 0.5
