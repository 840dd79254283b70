"""Methods beside each other on the folds of one table."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from nrs.baselines import registry
from nrs.baselines.compare import Compared, compare_methods
from nrs.files.read import read_labelled


def labelled(folder, target, **options):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"rooms": generator.normal(size=24), "district": np.arange(24) % 3})
    path = folder / "rows.csv"
    frame.assign(target=target).to_csv(path, index=False)
    return read_labelled(path, "target", **options)


def test_every_method_learns_which_columns_are_categories(tmp_path, monkeypatch):
    # "MLP" is a search over networks, which take the argument in its place.
    monkeypatch.setitem(registry._METHODS["MLP"].settings, "epochs", 1)
    table = labelled(tmp_path, ["yes", "no"] * 12, categorical=["district"])
    (found,) = compare_methods(table, ["MLP"], folds=2)
    assert len(found.scores["accuracy"]) == 2


def test_a_fold_without_some_class_has_no_roc_auc(tmp_path):
    pytest.importorskip("xgboost")
    table = labelled(tmp_path, ["once", *["yes", "no"] * 11, "yes"])
    (found,) = compare_methods(table, ["GBDT"], folds=3)
    kept = [value for value in found.scores["roc_auc"] if not math.isnan(value)]
    assert len(kept) < 3
    assert found.mean_and_std("accuracy")[0] == pytest.approx(np.mean(found.scores["accuracy"]))
    shown = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert shown["folds"]["roc_auc"].count(None) == 3 - len(kept)


def test_the_mean_is_over_the_folds_that_have_a_score():
    found = Compared("RF", {"some": [0.5, math.nan, 1.0], "none": [math.nan]}, [1.0], [1.0])
    assert found.mean_and_std("some") == (0.75, pytest.approx(0.5**0.5 / 2))
    assert all(map(math.isnan, found.mean_and_std("none")))
    assert found.to_dict()["scores"]["none"] == {"mean": None, "std": None}
