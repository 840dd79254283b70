"""The benchmark of ranking at MSLR's size, in small."""

import json

import numpy as np
import pytest

from benchmarks import ranking_scale
from nrs.datasets import Dataset


def _data():
    generator = np.random.default_rng(0)
    qid = np.repeat(np.arange(6), [4, 7, 5, 6, 3, 5])
    X = generator.normal(size=(len(qid), 5)).astype(np.float32)
    X[:, 0] = np.arange(len(qid))
    return Dataset(
        "tiny", X_train=X, y_train=generator.integers(0, 3, len(qid)), qid_train=qid, task="ranking"
    )


def test_queries_are_drawn_whole_and_numbered_anew():
    data = _data()
    X, y, qid = ranking_scale.bootstrap(data, 100)
    assert 100 <= len(X) < 107
    assert len(X) == len(y) == len(qid)
    for query in np.unique(qid):
        rows = X[qid == query, 0].astype(int)
        # All documents of one query of the source, and no other.
        (source,) = np.unique(data.qid_train[rows])
        assert rows.tolist() == np.flatnonzero(data.qid_train == source).tolist()


def test_every_loss_and_lightgbm_are_measured(monkeypatch):
    pytest.importorskip("lightgbm", reason="needs lightgbm")

    def here(function, **arguments):
        return json.loads(json.dumps(function(**arguments)))

    monkeypatch.setattr(ranking_scale, "in_plain_process", here)
    report = ranking_scale.measure_all(_data(), 60)
    assert list(report["fits"]) == [*ranking_scale.LOSSES, "LightGBM"]
    assert all(found["peak_mb"] >= found["before_mb"] > 0 for found in report["fits"].values())
    assert "NRS, listnet" in ranking_scale.show(report)
