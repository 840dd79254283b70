"""Intervals and sets of the rows that scored a model, and how often they hold the truth."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from nrs.files.coverage import Sets, intervals_of, sets_of
from nrs.files.fit import fit_table
from nrs.files.read import read_labelled


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 500)
    table = {
        "x": x,
        "price": 3 * x + np.exp(1.5 * x) * rng.normal(size=500),
        "rent": -x + rng.normal(size=500),
        "kind": np.digitize(x + rng.normal(size=500), [-1, 0, 1]),
    }
    path = tmp_path_factory.mktemp("coverage") / "table.csv"
    csv.write_csv(pa.table(table), path)
    return path


def _fitted(path, target, holdout=None, task="auto", **settings):
    others = {"price", "rent", "kind"} - set(target.split(","))
    labelled = read_labelled(path, target, drop=sorted(others), task=task)
    settings = {"preset": "fast", "verbose": 0} | settings
    return fit_table(labelled, holdout=holdout, **settings)


@pytest.mark.parametrize("holdout", [None, 0.4])
def test_intervals_are_of_rows_that_were_not_learned_from(path, holdout):
    fitted = _fitted(path, "price", holdout)
    found = intervals_of(fitted)[""]
    assert len(found.truth) == (500 if holdout is None else 200)
    assert 0.83 < found.right.mean() < 0.97
    wide = found.high - found.low
    assert np.quantile(wide, 0.9) > 1.5 * np.quantile(wide, 0.1)
    assert np.mean(found.by_quartile()) == pytest.approx(found.right.mean(), abs=0.01)
    if holdout is not None:
        low, high = fitted.model.predict_interval(fitted.table.features.take(fitted.scored.rows))
        np.testing.assert_array_equal(found.low, low)
        np.testing.assert_array_equal(found.high, high)


def test_targets_have_intervals_each_and_quantiles_are_such(path):
    found = intervals_of(_fitted(path, "price,rent", epochs=5))
    assert list(found) == ["price", "rent"]
    fitted = _fitted(path, "price,rent", quantiles=(0.1, 0.5, 0.9))
    found = intervals_of(fitted)["rent"]
    assert found.level == pytest.approx(0.8)
    np.testing.assert_array_equal(found.low, fitted.model.oob_quantiles_[:, 1, 0])
    assert 0.7 < found.right.mean() < 0.9
    held = intervals_of(_fitted(path, "price", 0.4, quantiles=(0.1, 0.9), epochs=5))[""]
    assert held.quantiles.shape == (200, 2)


def test_what_has_no_intervals_gets_none(path):
    for settings in ({"preset": "single", "epochs": 1}, {"quantiles": (0.5,), "epochs": 1}):
        assert intervals_of(_fitted(path, "price", **settings)) == {}
    counts = _fitted(path, "kind", 0.4, "regression", loss="poisson", epochs=1)
    assert intervals_of(counts) == {}
    assert sets_of(counts) is None
    assert sets_of(_fitted(path, "kind", preset="single", epochs=1)) is None


@pytest.mark.parametrize("holdout", [None, 0.4])
def test_sets_are_of_rows_that_were_not_learned_from(path, holdout):
    fitted = _fitted(path, "kind", holdout)
    assert intervals_of(fitted) == {}
    found = sets_of(fitted)
    assert 0.8 < found.right.mean() < 0.98
    assert (found.sizes >= 1).all()
    assert found.sizes.mean() > 1
    if holdout is not None:
        sets = fitted.model.predict_set(fitted.table.features.take(fitted.scored.rows))
        np.testing.assert_array_equal(found.sets, sets)


def test_a_set_is_right_if_it_has_the_class():
    sets = Sets(np.array(["a", "b"]), np.array([0, 1]), np.array([[1, 0], [1, 0]]) > 0, 0.9)
    assert sets.right.tolist() == [True, False]
    assert sets.sizes.tolist() == [1, 1]
