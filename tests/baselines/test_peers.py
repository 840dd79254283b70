"""Adapters to other packages: raw tables and any labels in, the user's labels out."""

import importlib.util
import sys
import types

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor

from nrs.baselines import MissingPeerError
from nrs.baselines.boosting import (
    CatBoostClassifier,
    CatBoostRegressor,
    GBDTClassifier,
    GBDTRegressor,
    LightGBMClassifier,
    LightGBMRegressor,
    ThunderGBMClassifier,
    ThunderGBMForestClassifier,
    ThunderGBMForestRegressor,
    ThunderGBMRegressor,
)
from nrs.baselines.modern import RealMLPClassifier, RealMLPRegressor, TabMClassifier, TabMRegressor
from nrs.baselines.trees import (
    RandomForestClassifier,
    RandomForestRegressor,
    RandomSubspaceClassifier,
    RandomSubspaceRegressor,
)
from tests.baselines.handful import CHECKS, handful

PACKAGES = {"GBDT": "xgboost", "LightGBM": "lightgbm", "CatBoost": "catboost"}
BOOSTED = [
    GBDTClassifier(20),
    GBDTRegressor(20),
    LightGBMClassifier(20, options={"min_child_samples": 1}),
    LightGBMRegressor(20, options={"min_child_samples": 1}),
    CatBoostClassifier(30, max_depth=3, learning_rate=0.3),
    CatBoostRegressor(30, max_depth=3, learning_rate=0.3),
]
FORESTS = [
    RandomSubspaceClassifier(10),
    RandomSubspaceRegressor(10),
    RandomForestClassifier(10),
    RandomForestRegressor(10),
]


def package_of(estimator):
    for stem, package in PACKAGES.items():
        if type(estimator).__name__.startswith(stem):
            return package
    return None


def is_installed(package):
    return package is None or importlib.util.find_spec(package) is not None


# What is not installed is not parametrised.
INSTALLED = [peer for peer in FORESTS + BOOSTED if is_installed(package_of(peer))]


@pytest.mark.parametrize(("estimator", "check"), handful(*INSTALLED))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_checks_are_still_scikit_learns():
    assert {pair.values[1].func.__name__ for pair in handful(*INSTALLED)} == CHECKS


def raw_table():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": generator.normal(size=90),
            "colour": generator.choice(["red", "green", None], 90),
            "flag": generator.random(90) > 0.5,
        }
    )
    frame.loc[::7, "number"] = np.nan
    return frame, np.where(frame["flag"], "yes", "no")


@pytest.mark.parametrize(
    "estimator",
    [peer for peer in INSTALLED if is_classifier(peer)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_raw_table_and_string_labels(estimator):
    frame, labels = raw_table()
    model = estimator.fit(frame, labels)
    assert model.score(frame, labels) > 0.9
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(model.predict_proba(frame).sum(1), 1)
    assert len(model.serialized()) > 100


@pytest.mark.parametrize(
    "estimator",
    [peer for peer in INSTALLED if is_regressor(peer)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_one_target_for_all_rows_is_predicted(estimator):
    frame, _ = raw_table()
    np.testing.assert_allclose(estimator.fit(frame, np.full(90, 3.5)).predict(frame), 3.5)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_labels_are_refused(missing):
    frame, labels = raw_table()
    labels = pd.Series(labels).astype(object)
    labels[3] = missing
    for y in (labels, labels.astype("string")):
        with pytest.raises(ValueError, match="every row needs a label"):
            RandomForestClassifier(2).fit(frame, y)


class FakePeer:
    """Remembers its arguments, and predicts like scikit-learn's dummy."""

    def __init__(self, dummy, /, **arguments):
        self.dummy, self.arguments = dummy, arguments

    def fit(self, X, y):
        assert isinstance(X, np.ndarray)
        self.dummy.fit(X, y)
        return self

    def predict(self, X):
        return self.dummy.predict(X).astype(np.float32)

    def predict_proba(self, X):
        return self.dummy.predict_proba(X)

    def save_model(self, path):
        with open(path, "wb") as file:
            file.write(b"trees")


def fake_package(monkeypatch, package, classifier, regressor):
    module = types.ModuleType(package)
    setattr(module, classifier, lambda **a: FakePeer(DummyClassifier(), **a))
    setattr(module, regressor, lambda **a: FakePeer(DummyRegressor(), **a))
    monkeypatch.setitem(sys.modules, package, module)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (ThunderGBMClassifier(40, max_depth=4), {"n_trees": 40, "learning_rate": 0.1, "depth": 4}),
        (ThunderGBMRegressor(40), {"n_trees": 40, "learning_rate": 0.1}),
        (ThunderGBMForestClassifier(40), {"n_trees": 1, "n_parallel_trees": 40, "bagging": 1}),
        (ThunderGBMForestRegressor(40, options={"n_gpus": 2}), {"n_trees": 1, "n_gpus": 2}),
    ],
)
def test_thundergbm_gets_its_own_arguments(monkeypatch, estimator, expected):
    fake_package(monkeypatch, "thundergbm", "TGBMClassifier", "TGBMRegressor")
    frame, labels = raw_table()
    classifies = is_classifier(estimator)
    y = labels if classifies else np.arange(90.0)
    model = estimator.fit(frame, y)
    assert expected.items() <= model.peer_.arguments.items()
    assert model.serialized() == b"trees"
    assert not hasattr(model, "predict_proba")
    if classifies:
        assert model.peer_.arguments["num_class"] == 2
        assert set(model.predict(frame)) <= {"yes", "no"}
    else:
        np.testing.assert_allclose(model.predict(frame), 44.5)


@pytest.mark.parametrize(
    ("estimator", "stem"),
    [
        (TabMClassifier(options={"n_epochs": 3}), "TabM_D"),
        (TabMRegressor(options={"n_epochs": 3}), "TabM_D"),
        (RealMLPClassifier(options={"n_epochs": 3}), "RealMLP_TD"),
        (RealMLPRegressor(options={"n_epochs": 3}), "RealMLP_TD"),
    ],
)
def test_pytabkit_is_called_at_its_defaults(monkeypatch, estimator, stem):
    fake_package(monkeypatch, "pytabkit", f"{stem}_Classifier", f"{stem}_Regressor")
    frame, labels = raw_table()
    y = labels if hasattr(estimator, "_positions") else np.arange(90.0)
    model = estimator.set_params(random_state=0).fit(frame, y)
    assert set(model.peer_.arguments) == {"device", "random_state", "n_threads", "n_epochs"}
    assert len(model.predict(frame)) == 90


if is_installed("pytabkit"):

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [TabMClassifier, RealMLPClassifier])
    def test_pytabkit_itself(kind):
        frame, labels = raw_table()
        model = kind(options={"n_epochs": 5}, random_state=0).fit(frame, labels)
        assert model.predict_proba(frame).shape == (90, 2)
        assert set(model.predict(frame)) <= {"yes", "no"}


@pytest.mark.parametrize(
    ("estimator", "package", "advice"),
    [
        (GBDTClassifier(), "xgboost", r"\[boosting\]"),
        (LightGBMRegressor(), "lightgbm", r"\[boosting\]"),
        (CatBoostClassifier(), "catboost", r"\[peers\]"),
        (TabMRegressor(), "pytabkit", r"\[peers\]"),
        (RealMLPClassifier(), "pytabkit", r"\[peers\]"),
        (ThunderGBMClassifier(), "thundergbm", "NVIDIA GPU"),
    ],
)
def test_a_missing_package_is_one_clear_line(monkeypatch, estimator, package, advice):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPeerError, match=f"{package} .*{advice}") as caught:
        estimator.fit(np.eye(4), [0, 1, 0, 1])
    assert "\n" not in str(caught.value)


def test_a_library_that_cannot_load_says_why(monkeypatch, tmp_path):
    (tmp_path / "thundergbm.py").write_text("raise OSError('libcudart.so.11.0: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "thundergbm", raising=False)
    with pytest.raises(MissingPeerError, match=r"cannot be loaded \(libcudart.*NVIDIA GPU"):
        ThunderGBMRegressor().fit(np.eye(4), [0.0, 1.0, 0.0, 1.0])
