"""Nothing bad gets in, nothing wrong gets out quietly: laws of fitted estimators."""

import warnings

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.encode.column_encoder import ColumnWarning
from tests.tabular.mixed import mixed_table

QUICK = {"preset": "fast", "epochs": 6, "random_state": 0, "verbose": 0}


def _classes(n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("wild", [99999.0, -1e300, 1.7e308])
def test_one_wild_cell_does_not_ruin_a_model(wild):
    X, y = _classes(800, 0)
    new, truth = _classes(400, 1)
    clean = NRSClassifier(**QUICK).fit(X, y).score(new, truth)
    X[0, 0] = wild
    assert NRSClassifier(**QUICK).fit(X, y).score(new, truth) > clean - 0.02


def _sales(n, seed):
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 1000, n)
    dates = pd.Timestamp("2020-01-01").as_unit("us") + pd.to_timedelta(days, unit="D")
    frame = pd.DataFrame(
        {"day": pd.Series(dates).astype("datetime64[us]"), "x": rng.normal(size=n)}
    )
    return frame, days / 300 + frame["x"].to_numpy()


def test_one_wild_date_does_not_ruin_a_model():
    frame, y = _sales(800, 0)
    new, truth = _sales(400, 1)

    def error(model):
        return np.sqrt(np.mean((model.predict(new) - truth) ** 2))

    clean = error(NRSRegressor(**QUICK).fit(frame, y))
    frame.loc[0, "day"] = pd.Timestamp("9999-12-31")
    assert error(NRSRegressor(**QUICK).fit(frame, y)) < 1.1 * clean


def test_far_rows_are_answered_near_the_training_rows_and_named():
    frame, y = _sales(800, 0)
    model = NRSRegressor(**QUICK).fit(frame, y)
    near = frame.iloc[:5]
    far = near.assign(x=999.0, day=pd.Timestamp("9999-12-31"))
    with pytest.warns(ColumnWarning, match=r"far beyond the training range.*5 in '(x|day)', 5 in"):
        answers = model.predict(far)
    assert (np.abs(answers) < 2 * np.abs(y).max()).all()
    with pytest.warns(ColumnWarning):
        low, high = model.predict_interval(far)
    usual = np.subtract(*model.predict_interval(near))
    assert (high - low >= -usual.max()).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(near)


def test_intervals_widen_where_members_disagree():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 3))
    model = NRSRegressor(**QUICK).fit(X, X.sum(1) + 0.1 * rng.normal(size=600))
    with pytest.warns(ColumnWarning):
        members = model.member_outputs(np.full((1, 3), 50.0))
    usual = model.member_outputs(X).std(0)
    assert members.std() > np.quantile(usual, 0.99)
    with pytest.warns(ColumnWarning):
        low, high = model.predict_interval(np.full((1, 3), 50.0))
    ordinary = np.subtract(*model.predict_interval(X)[::-1])
    assert high - low > 1.2 * np.median(ordinary)


def test_a_column_that_changed_is_noticed():
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "blue", "01"], size=300)
    model = NRSClassifier(**QUICK).fit(pd.DataFrame({"colour": colour}), colour == "red")
    with pytest.warns(ColumnWarning, match="unseen in training"):
        model.predict(pd.DataFrame({"colour": np.char.upper(colour[:50])}))
    for other in (1, True, pd.Timestamp("2020-01-01")):
        with pytest.raises(ValueError, match="'colour': it held cells of kind text"):
            model.predict(pd.DataFrame({"colour": [other] * 3}))


@pytest.mark.parametrize("preset", ["fast", "default", "single", "paper"])
@pytest.mark.parametrize("kind", [NRSClassifier, NRSRegressor])
def test_a_rows_answer_is_the_same_alone_and_in_any_company(preset, kind):
    frame, labels = mixed_table(120)
    model = kind(**QUICK | {"preset": preset, "hidden": 5}).fit(frame, labels)
    answer = model.predict_proba if kind is NRSClassifier else model.predict
    together = answer(frame)
    rng = np.random.default_rng(0)
    for size in (1, 1, 2, 7, 33, 119):
        rows = rng.permutation(len(frame))[:size]
        np.testing.assert_array_equal(answer(frame.iloc[rows]), together[rows])


def test_dates_and_texts_of_one_column_are_read_cell_by_cell():
    days = [pd.Timestamp("2020-01-01") + pd.Timedelta(days=k % 5) for k in range(100)]
    cells = [day.to_pydatetime() if k % 7 else "unknown" for k, day in enumerate(days)]
    frame = pd.DataFrame({"day": pd.Series(cells, dtype=object)})
    model = NRSClassifier(**QUICK).fit(frame, np.arange(100) % 5 == 1)
    together = model.predict_proba(frame)
    alone = np.concatenate([model.predict_proba(frame.iloc[[k]]) for k in range(20)])
    np.testing.assert_array_equal(alone, together[:20])
