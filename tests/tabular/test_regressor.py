"""Regression with one and several targets."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_regression
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_val_score

from nrs import NRSRegressor
from nrs.tabular.encode.column_encoder import ColumnWarning

QUICK = {"preset": "fast", "epochs": 30, "random_state": 0}


def test_diabetes_is_at_least_a_random_forest():
    X, y = load_diabetes(return_X_y=True)
    forest = cross_val_score(RandomForestRegressor(random_state=0), X, y, cv=2).mean()
    assert cross_val_score(NRSRegressor(random_state=0), X, y, cv=2).mean() >= forest


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
    # The mean of fifty 0.1 is not 0.1.
    for value in (3.5, 0.1):
        model = NRSRegressor(**QUICK).fit(X, np.full(50, value))
        np.testing.assert_array_equal(model.predict(X), value)
        assert model.oob_score_ == 1.0


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_targets_whose_squares_leave_float64(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = np.stack([X[:, 0], rng.normal(size=100)], 1)
    expected = NRSRegressor(**QUICK).fit(X, y)
    model = NRSRegressor(**QUICK).fit(X, y * [scale, 1])
    np.testing.assert_allclose(model.predict(X) / [scale, 1], expected.predict(X), atol=1e-3)
    spread = model.predict(X, return_std=True)[1]
    np.testing.assert_allclose(spread / [scale, 1], expected.predict(X, True)[1], atol=1e-3)


def test_targets_whose_range_leaves_float64_are_refused():
    X = np.random.default_rng(0).normal(size=(10, 3))
    with pytest.raises(ValueError, match=r"from -1\.2e\+308 to 1\.2e\+308"):
        NRSRegressor(**QUICK).fit(X, np.sign(X[:, 0]) * 1.2e308)


def test_intervals_say_how_many_rows_they_need():
    X = np.arange(6.0).reshape(3, 2)
    model = NRSRegressor(**QUICK).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="at least 4 rows"):
        model.predict_interval(X)
    model.fit(np.eye(4), np.arange(4))
    low, high = model.predict_interval(np.eye(4))
    assert (low <= high).all()


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
    model = NRSRegressor(preset="fast", random_state=0)
    for _ in range(30):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.8


def test_paper_preset_learns_a_regression():
    X, y = make_regression(500, 5, random_state=0)
    model = NRSRegressor(preset="paper", random_state=0).fit((X - X.mean(0)) / X.std(0), y)
    assert model.score((X - X.mean(0)) / X.std(0), y) > 0.5


@pytest.mark.parametrize("wrong", [1e12, -1e300])
def test_a_row_of_weight_0_does_not_count(wrong):
    X, y = make_regression(120, 4, noise=1.0, random_state=0)
    spoilt, weight = np.where(np.arange(120) == 7, wrong, y), np.ones(120)
    weight[7] = 0
    model = NRSRegressor(preset="fast", random_state=0).fit(X, spoilt, sample_weight=weight)
    assert model.score(X, y) > 0.9
    assert model.oob_score_ > 0.8
    low, high = model.predict_interval(X, 0.995)
    assert (high - low).max() < np.ptp(y)
    assert model.oob_prediction_.shape == (120,)
    first = NRSRegressor(**QUICK).partial_fit(X, spoilt, sample_weight=weight)
    np.testing.assert_allclose(first.target_.std, np.delete(y, 7).std())


@pytest.mark.parametrize("dtype", [str, object])
def test_texts_are_numbers_or_refused(dtype):
    X, texts = np.arange(40.0)[:, None], np.arange(40).astype(str).astype(dtype)
    assert NRSRegressor(**QUICK).fit(X, texts).predict(X).dtype.kind == "f"
    texts[2] = "low"
    with pytest.raises(ValueError, match=r"y must hold numbers.*'low'.*is for classes"):
        NRSRegressor(**QUICK).fit(X, texts)


@pytest.mark.parametrize("unit", ["datetime64[D]", "timedelta64[s]"])
def test_dates_and_durations_are_no_numbers(unit):
    X, days = np.arange(40.0)[:, None], np.arange(40).astype(unit)
    with pytest.raises(ValueError, match=r"y must hold numbers; it holds d.*such as days"):
        NRSRegressor(**QUICK).fit(X, days)


def test_an_unusual_row_is_named_once_to_the_caller():
    X, y = make_regression(60, 3, random_state=0)
    model = NRSRegressor(**QUICK | {"epochs": 2}).fit(X, y)
    X[0, 1] = 1e9
    calls = (
        lambda: model.predict(X),
        lambda: model.predict(X, return_std=True),
        lambda: model.predict_interval(X),
    )
    for call in calls:
        with pytest.warns(ColumnWarning, match="1 in 'x1'") as shown:
            call()
        assert [one.filename for one in shown] == [__file__]
