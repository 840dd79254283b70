"""Labels as users have them: which are taken, and in which words others are refused."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier

QUICK = {"preset": "fast", "epochs": 1, "random_state": 0, "verbose": 0}
X = np.random.default_rng(0).normal(size=(60, 3))
ONE = (X[:, 0] > 0).astype(int)
TWO = (X[:, :2] > 0).astype(int)


@pytest.mark.parametrize("values", [(-1, 1), (1, 2), (0, 2), (0.0, 3.0)])
def test_several_labels_are_0_or_1(values):
    with pytest.raises(ValueError, match=r"must hold 1 where a label applies, else 0; got "):
        NRSClassifier(**QUICK).fit(X, np.array(values)[TWO])
    assert NRSClassifier(**QUICK).fit(X, TWO == 1).predict(X).shape == (60, 2)


@pytest.mark.parametrize(
    ("first", "then"), [(TWO, ONE), (ONE, TWO), (TWO, np.column_stack([TWO, ONE]))]
)
def test_another_number_of_labels_than_before_is_refused(first, then):
    model = NRSClassifier(**QUICK).partial_fit(X, first)
    with pytest.raises(ValueError, match=r"y must have .* as in training; its shape is"):
        model.partial_fit(X, then)
    with pytest.raises(ValueError, match=r"y must have .* as in training; its shape is"):
        NRSClassifier(**QUICK).fit(X, first, eval_set=(X, then))


def test_the_classes_of_partial_fit_come_in_any_collection():
    for classes in ({0, 1, 2}, pd.Index([2, 1, 0]), (0, 1, 2), np.array([0, 1, 2], dtype=object)):
        model = NRSClassifier(**QUICK).partial_fit(X, ONE, classes=classes)
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.classes_.dtype.kind == "i"
    several = NRSClassifier(**QUICK).partial_fit(X, TWO, classes=[0, 1])
    assert several.predict(X).shape == (60, 2)
    for wrong in (["a", None], "ab"):
        with pytest.raises(ValueError, match="classes must list all labels"):
            NRSClassifier(**QUICK).partial_fit(X, np.array(["a", "b"])[ONE], classes=wrong)


@pytest.mark.parametrize("kind", [np.int64, np.bool_, np.float32, np.str_])
def test_objects_of_numpy_are_labels(kind):
    labels = np.array([kind(value) for value in ONE], dtype=object)
    assert NRSClassifier(**QUICK).fit(X, labels).classes_.dtype.kind == np.dtype(kind).kind


def test_labels_without_an_order_are_refused_in_words():
    mixed = np.array(["a", 1], dtype=object)[ONE]
    with pytest.raises(ValueError, match=r"got int, str. Turn the labels into strings"):
        NRSClassifier(**QUICK).fit(X, mixed)
    with pytest.raises(ValueError, match=r"got Interval. Turn the labels into strings"):
        NRSClassifier(**QUICK).fit(X, pd.cut(X[:, 0], 3))
    assert len(NRSClassifier(**QUICK).fit(X, pd.cut(X[:, 0], 3).astype(str)).classes_) == 3


def test_dates_as_classes_are_saved_and_never_missing(tmp_path):
    days = np.array(["2024-01-31", "2025-12-31"], dtype="datetime64[D]")[ONE]
    model = NRSClassifier(**QUICK).fit(X, days)
    model.save(tmp_path / "m")
    loaded = NRSClassifier.load(tmp_path / "m")
    assert loaded.classes_.dtype == days.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    days[3] = "NaT"
    with pytest.raises(ValueError, match="every row needs a label"):
        NRSClassifier(**QUICK).fit(X, days)
