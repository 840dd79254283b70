"""Labels as users have them: NumPy's objects, dates, texts of several types."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier

QUICK = {"preset": "fast", "epochs": 1, "random_state": 0, "verbose": 0}
X = np.random.default_rng(0).normal(size=(60, 3))
ONE = (X[:, 0] > 0).astype(int)


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
