"""A hundred rows: every method gets the same ones, and nothing of the test part."""

from typing import ClassVar

import numpy as np
import pytest

from nrs.datasets import Dataset
from nrs.paper import small_data
from nrs.paper.small_data import DATASETS, METHODS, SMALL_DATA, _tiny, make
from nrs.paper.table import Cell, Subject


def _cell(method, seed=0, dataset="heart"):
    return Cell(Subject("small_data", dataset, method), seed)


class _Spy:
    seen: ClassVar[list] = []

    def fit(self, X, y):
        self.seen.append(X[:, 0].tolist())
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


def test_every_method_gets_the_same_rows_of_the_training_part(monkeypatch):
    X = np.arange(300, dtype=np.float32).reshape(-1, 1)
    y = np.arange(300) % 3
    data = Dataset("heart", X, y, X_test=-1 - X, y_test=y, n_classes=3)
    monkeypatch.setattr(small_data, "parts_of", lambda *_: iter([data]))
    monkeypatch.setattr(small_data, "make", lambda method, seed: _Spy())
    for cell in (_cell("RF"), _cell("GBDT"), _cell("RF", seed=1)):
        measured = SMALL_DATA.measure(cell, {})
        assert measured.data["n_train"] == 100
    first, same, other = _Spy.seen
    assert first == same != other
    assert min(first) >= 0
    assert len(set(first)) == 100
    # The same share of every class.
    assert sorted(np.bincount(np.array(first, int) % 3)) == [33, 33, 34]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs(method):
    assert 20 < _tiny(_cell(method)).metrics["accuracy"] <= 100


def test_settings():
    assert make("NRS", 3).preset == "paper"
    assert make("NRS default", 3).random_state == 3
    assert len(SMALL_DATA.printed) == len(DATASETS) * len(METHODS) == 60
