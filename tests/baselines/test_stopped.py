"""Boosting with early stopping, and categories that the packages read themselves."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from nrs.baselines import stopped

KINDS = [
    name
    for name, package in (
        ("XGBoost", "xgboost"),
        ("LightGBM", "lightgbm"),
        ("CatBoost", "catboost"),
    )
    if importlib.util.find_spec(package)
]


def _rows(n=400):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "c": rng.choice(list("abcde"), n),
            "many": rng.choice([f"level {k}" for k in range(90)], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
        }
    )
    rows.loc[3, "c"] = None
    return rows, rows["x"].fillna(0) + 2 * (rows["c"] == "a") + rng.normal(0, 0.4, n)


@pytest.mark.parametrize("name", KINDS)
def test_rounds_are_few_where_there_is_little_to_learn(name):
    rows, y = _rows()
    labels = np.where(y > 0.4, "yes", "no")
    model = getattr(stopped, f"{name}Classifier")(random_state=0).fit(rows[:300], labels[:300])
    assert 1 < model.rounds_ < 1000
    new = rows[300:].assign(c=["unseen", *rows["c"][301:]])
    assert model.score(new, labels[300:]) > 0.75
    assert model.predict_proba(new).shape == (100, 2)
    model = getattr(stopped, f"{name}Regressor")(random_state=0).fit(rows[:300], y[:300])
    assert model.score(new, y[300:]) > 0.6


@pytest.mark.parametrize("name", KINDS)
def test_few_rows_and_rare_classes_are_fitted_too(name):
    rows, y = _rows(60)
    labels = np.where(np.arange(60) < 2, "rare", np.where(y > 0.4, "yes", "no"))
    model = getattr(stopped, f"{name}Classifier")(random_state=0).fit(rows, labels)
    assert sorted(model.classes_) == ["no", "rare", "yes"]
    model = getattr(stopped, f"{name}Regressor")(random_state=0).fit(rows[:20], y[:20])
    assert np.isfinite(model.predict(rows)).all()
    # Of categories alone.
    model = getattr(stopped, f"{name}Regressor")(random_state=0).fit(rows[["c"]], y)
    assert np.isfinite(model.predict(rows[["c"]])).all()


@pytest.mark.parametrize("name", KINDS)
def test_steps_are_those_that_are_told(name):
    rate = getattr(stopped, f"{name}Classifier")()._settings(2, 0).get("learning_rate")
    assert rate == (None if name == "CatBoost" else 0.05)
