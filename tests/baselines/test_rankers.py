"""LambdaMART and uMart: they learn, stop early, and take rows in any order."""

import numpy as np
import pytest

from nrs.baselines import LambdaMARTRanker, UMartRanker, model_size
from nrs.ranking import measure

RANKERS = [LambdaMARTRanker, UMartRanker]


def _data(seed):
    generator = np.random.default_rng(seed)
    qid = np.repeat(np.arange(40), 12)
    X = generator.normal(size=(len(qid), 4))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * generator.normal(size=len(qid)), [0.5, 1.5])
    return X, y, qid


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("kind", RANKERS)
def test_learns_and_stops_early(kind, backend):
    X, y, qid = _data(0)
    X_val, y_val, qid_val = _data(1)
    model = kind(60, early_stopping_rounds=5, backend=backend, random_state=0)
    model.fit(X, y, qid=qid, eval_set=(X_val, y_val, qid_val))
    X_test, y_test, qid_test = _data(2)
    chance = float(measure(np.zeros(len(y_test)), y_test, qid_test))
    assert model.score(X_test, y_test, qid=qid_test) > 0.8
    assert model.score(X_test, y_test, qid_test) > chance + 0.1
    assert model_size(model) > 1000
    best = model.peer_.best_iteration
    assert 1 <= best < 60


@pytest.mark.parametrize("kind", RANKERS)
def test_rows_of_queries_need_not_be_together(kind):
    X, y, qid = _data(0)
    order = np.random.default_rng(1).permutation(len(X))
    model = kind(20, random_state=0).fit(X[order], y[order], qid=qid[order])
    assert model.score(X, y, qid=qid) == pytest.approx(
        model.score(X[order], y[order], qid=qid[order])
    )
    assert model.score(X, y, qid=qid) > 0.8


@pytest.mark.parametrize("kind", RANKERS)
def test_bad_input(kind):
    X, y, qid = _data(0)
    for wrong, shown in ((y - 1, "-1"), (y + 0.5, r"\d\.5"), (y + 600, "60[012]")):
        with pytest.raises(ValueError, match=rf"y must hold grades .* up to 100; got {shown}"):
            kind(2).fit(X, wrong, qid=qid)
    with pytest.raises(ValueError, match="y=None"):
        kind(2).fit(X, None, qid=qid)
    with pytest.raises(ValueError, match=r"its shape is \(480, 2\)"):
        kind(2).fit(X, np.stack([y, y], 1), qid=qid)
    with pytest.raises(ValueError, match=r"eval_set must be a triple \(X, y, qid\).* tuple of 2"):
        kind(2).fit(X, y, qid=qid, eval_set=(X, y))
    with pytest.raises(ValueError, match="qid=None"):
        kind(2).fit(X, y)
    with pytest.raises(ValueError, match="as many entries"):
        kind(2).fit(X, y, qid=qid[:-1])
    with pytest.raises(ValueError, match="backend"):
        kind(2, backend="catboost").fit(X, y, qid=qid)
