"""The benchmark of rankers in small: every method, the same queries, nothing seen twice."""

import numpy as np
import pytest

from benchmarks import rankers
from nrs.datasets import Dataset


def _documents(n_queries, seed):
    generator = np.random.default_rng(seed)
    qid = generator.permutation(np.repeat(np.arange(n_queries), 12))
    X = generator.normal(size=(len(qid), 4)).astype(np.float32)
    return X, np.digitize(X[:, 0], [0.3, 1.2]), qid


@pytest.fixture(params=["with validation queries", "without"])
def data(request, monkeypatch):
    parts = {"train": _documents(30, 0), "test": _documents(10, 1)}
    if request.param != "without":
        parts["val"] = _documents(8, 2)
    arrays = {
        f"{name}_{part}": array
        for part, three in parts.items()
        for name, array in zip(("X", "y", "qid"), three, strict=True)
    }
    made = Dataset("tiny", task="ranking", **arrays)
    monkeypatch.setattr(rankers, "load", lambda name: made)
    return made


def test_queries_are_whole_and_in_one_part_only(data):
    for part in ("test", "validation"):
        train, validation, test = rankers.read_set("tiny", 0, part)
        assert (np.diff(train.qid) >= 0).all()
        if part == "test":
            assert (validation is not None) == (data.X_val is not None)
            assert len(test.y) == len(data.y_test)
        else:
            assert validation is None
            assert not set(train.qid) & set(test.qid)
            assert len(train.y) + len(test.y) == len(data.y_train)
        rest, held_out = train.divided(0)
        assert not set(rest.qid) & set(held_out.qid)
        assert len(set(held_out.qid)) == len(set(train.qid)) // 5
    # A row still has its own label and query.
    assert np.array_equal(np.digitize(rest.X[:, 0], [0.3, 1.2]), rest.y)


def test_every_method_learns(data, monkeypatch):
    pytest.importorskip("lightgbm")
    pytest.importorskip("xgboost")
    pytest.importorskip("catboost")
    monkeypatch.setattr(rankers, "ROUNDS", 30)
    # A thousand rounds of CatBoost take long; what NRS learns does not depend on the other part.
    methods = ["NRS", "LightGBM", "XGBoost", "LightGBM early", "XGBoost early", "CatBoost early"]
    methods = methods if data.X_val is not None else methods[3:]
    given = []
    for name, function, arguments in rankers.plan(1, "test", ["tiny"], methods):
        given.append(name | function(**arguments))
        assert given[-1]["ndcg@10"] > 0.8, name
    shown = rankers.summary(given, "test")
    assert all(method in shown for method in methods)
    assert ("NRS less the best peer of each set: tiny " in shown) == ("NRS" in methods)
