"""Every method by its name."""

import sys

import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris

from nrs.baselines import available, describe, grid, make, model_size, names
from nrs.baselines.registry import TASKS

PAPER = [
    "NRS", "MLP", "MLP-2", "MLP-3", "MLP-D", "NDF", "ANT", "RS", "RF", "GBDT", "mGBDT",
    "LightGBM", "CatBoost", "ThunderGBM RF", "ThunderGBM GBDT", "TabM", "RealMLP",
]  # fmt: skip
QUICK = {
    "NRS": {"epochs": 1}, "MLP-2": {"epochs": 1}, "MLP-3": {"epochs": 1}, "MLP-D": {"epochs": 1},
    "MLP": {"epochs": 1, "cv": 2}, "NDF": {"epochs": 1, "n_trees": 2, "tree_depth": 2},
    "RS": {"n_estimators": 3}, "RF": {"n_estimators": 3}, "GBDT": {"n_estimators": 3},
    "mGBDT": {"epochs": 1},
    "LightGBM": {"n_estimators": 3}, "CatBoost": {"n_estimators": 3},
}  # fmt: skip


def test_the_names_are_those_of_the_tables():
    assert names() == PAPER


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", PAPER)
def test_every_method_can_be_made_described_and_searched(name, task):
    model = clone(make(name, task=task, seed=3))
    assert is_classifier(model) if task == "classification" else is_regressor(model)
    inner = model.get_params()
    assert inner.get("random_state", inner.get("estimator__random_state")) == 3
    assert describe(name)
    assert "\n" not in describe(name)
    assert set(grid(name, task)) <= set(inner)
    works, reason = available(name)
    assert works == (not reason)
    assert "\n" not in reason


@pytest.mark.parametrize("name", [name for name in QUICK if available(name)[0]])
def test_every_fitted_method_has_a_size(name):
    X, y = load_iris(return_X_y=True)
    assert model_size(make(name, **QUICK[name]).fit(X, y)) > 500


@pytest.mark.parametrize("name", ["RS", "RF", "GBDT", "LightGBM", "CatBoost", "ThunderGBM RF"])
def test_trees_of_the_paper(name):
    assert make(name).n_estimators == 500
    assert make(name, setting="speed").n_estimators == 100
    assert make(name, setting="speed", n_estimators=7).n_estimators == 7


def test_forests_and_networks_of_the_paper():
    assert make("NDF").n_trees == 100
    assert make("NDF", setting="speed").n_trees == 50
    assert make("NRS").preset == "paper"
    assert make("MLP-3").n_layers == 3
    assert make("MLP-D").input_dropout == "keep 80%"


@pytest.mark.parametrize("task", TASKS)
def test_mlp_is_the_better_of_two(task):
    X, y = load_iris(return_X_y=True)
    model = make("MLP", task=task, cv=2, epochs=2).fit(X, y)
    assert model.best_params_["n_layers"] in (2, 3)
    assert len(model.cv_results_["params"]) == 2
    assert model.predict(X).shape == (150,)


@pytest.mark.parametrize("package", ["xgboost", "lightgbm", "catboost", "pytabkit", "thundergbm"])
def test_a_missing_package_is_told_and_still_listed(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    missing = [name for name in names() if not available(name)[0] and package in available(name)[1]]
    assert missing
    assert names() == PAPER
    assert all("pip install" in available(name)[1] for name in missing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SVM",), "name must be one of NRS.*; got 'SVM'"),
        (("RF", "ranking"), "task must be one of.*; got 'ranking'"),
    ],
)
def test_an_unknown_name_is_told_what_there_is(arguments, message):
    with pytest.raises(ValueError, match=message):
        make(*arguments)
    with pytest.raises(ValueError, match="setting must be one of"):
        make("RF", setting="fast")


def test_the_size_of_an_unfitted_model_is_refused():
    with pytest.raises(ValueError, match="Fit it first"):
        model_size(make("NRS"))
