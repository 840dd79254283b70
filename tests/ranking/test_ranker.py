"""The ranker as a single network: losses, queries in any order, files, cross-validation."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

from nrs import NRSRanker
from nrs.ranking.losses import LOSSES, listnet
from nrs.ranking.metrics import ndcg
from nrs.tabular.encode.column_encoder import ColumnWarning
from nrs.training import ModelFileError, read_model

QUICK = {"preset": "single", "epochs": 8, "verbose": 0, "random_state": 0}


def _data(queries=40, seed=0):
    """Documents whose relevance is one feature beside its rivals, with a query's own offset."""
    generator = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries) * 7, generator.integers(5, 15, queries))
    x = generator.normal(size=(len(qid), 5))
    signal = x[:, 0] + 0.5 * np.abs(x[:, 1]) + 0.1 * generator.normal(size=len(qid))
    y = np.digitize(signal, [0.5, 1.2, 2.0])
    return x, y, qid


@pytest.mark.parametrize("loss", [*LOSSES, listnet], ids=[*LOSSES, "function"])
@pytest.mark.parametrize("n_mul", [0, 2])
def test_every_loss_learns_with_and_without_nrs(loss, n_mul):
    X, y, qid = _data()
    few = {**QUICK, "lr": 1e-2, "batch_size": 8}
    model = NRSRanker(loss=loss, n_mul=n_mul, validation_fraction=0.0, **few).fit(X, y, qid=qid)
    X_test, y_test, qid_test = _data(seed=1)
    assert model.score(X_test, y_test, qid=qid_test) > 0.75
    assert (model.network_.subspaces is None) == (n_mul == 0)
    assert model.n_mul_ == n_mul


def test_scores_ranks_and_measures():
    X, y, qid = _data()
    model = NRSRanker(**QUICK).fit(X, y, qid=qid)
    scores = model.predict(X)
    assert scores.shape == (len(X),)
    order = model.rank(X, qid)
    assert sorted(order.tolist()) == list(range(len(X)))
    for number in np.unique(qid):
        rows = order[qid[order] == number]
        assert (np.diff(scores[rows]) <= 0).all()
    # Query by query, as they first appear.
    assert list(dict.fromkeys(qid[order])) == list(dict.fromkeys(qid))
    # Without queries, all rows are of one.
    for rows in (X, X.tolist(), sparse.csr_matrix(X)):
        assert model.rank(rows).tolist() == np.argsort(-scores, kind="stable").tolist()
    found = model.evaluate(X, y, qid, "ndcg@5", discount="paper", empty="zero")
    assert "NDCG@5" in str(found)
    assert "discount paper" in str(found)
    assert model.score(X, y, qid=qid) == float(model.evaluate(X, y, qid))


def test_rows_of_queries_need_not_be_together():
    X, y, qid = _data()
    order = np.random.default_rng(3).permutation(len(X))
    model = NRSRanker(**QUICK).fit(X[order], y[order], qid=qid[order])
    assert model.score(X, y, qid=qid) > 0.7
    assert model.score(X[order], y[order], qid=qid[order]) == pytest.approx(
        model.score(X, y, qid=qid)
    )


def test_the_same_seed_gives_the_same_bits():
    X, y, qid = _data()
    first, second = (NRSRanker(**QUICK).fit(X, y, qid=qid) for _ in range(2))
    assert np.array_equal(first.predict(X), second.predict(X))


def test_held_out_queries_decide_and_are_not_trained_on():
    X, y, qid = _data()
    model = NRSRanker(**QUICK).fit(X, y, qid=qid)
    assert "val_ndcg@10" in model.history_.rows[0]
    assert model.history_.best_epoch is not None
    for metric in ("mrr", "map@5", "err@3", "loss", lambda s, y, m: ndcg(s, y, 1, m)):
        rows = NRSRanker(metric=metric, **{**QUICK, "epochs": 1}).fit(X, y, qid=qid).history_.rows
        assert rows[0]["score"] == rows[0]["score"]
    given = NRSRanker(**QUICK).fit(X, y, qid=qid, eval_set=_data(seed=1))
    assert given.history_.best_epoch is not None
    assert NRSRanker(validation_fraction=0.0, **QUICK).fit(X, y, qid).history_.best_epoch is None


def test_the_epoch_is_chosen_by_the_metric_of_the_held_out_queries():
    X, y, qid = _data()
    validation = _data(seed=1)
    model = NRSRanker(**QUICK).fit(X, y, qid=qid, eval_set=validation)
    best = max(row["val_ndcg@10"] for row in model.history_.rows)
    assert model.score(*validation[:2], qid=validation[2]) == pytest.approx(best, abs=1e-6)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_frames_with_a_column_of_queries(make):
    X, y, qid = _data()
    columns = {f"f{k}": X[:, k] for k in range(5)} | {"qid": qid}
    frame = make(columns)
    model = NRSRanker(**QUICK).fit(frame, y, qid="qid", eval_set=(frame, y))
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == [f"f{k}" for k in range(5)]
    assert model.score(frame, y) == model.score(frame, y, qid=qid)
    assert len(model.rank(frame)) == len(X)
    plain = NRSRanker(**QUICK).fit(X, y, qid=qid, eval_set=(X, y, qid))
    assert np.allclose(plain.predict(X), model.predict(frame))
    # Rows without names have no column of queries either.
    assert np.array_equal(model.predict(X), model.predict(frame))
    assert model.score(X, y, qid=qid) == model.score(frame, y)
    with pytest.raises(ValueError, match="'query' must name a column"):
        NRSRanker(**QUICK).fit(frame, y, qid="query")
    with pytest.raises(ValueError, match="X has no names"):
        NRSRanker(**QUICK).fit(X, y, qid="qid")


def test_sparse_tables():
    X, y, qid = _data()
    model = NRSRanker(**QUICK).fit(sparse.csr_matrix(X), y, qid=qid)
    assert model.score(sparse.csr_matrix(X), y, qid=qid) > 0.6


def test_per_query_scaling_needs_queries_and_is_kept_in_the_file(tmp_path):
    X, y, qid = _data()
    X = X + qid[:, None] * 10
    settings = {**QUICK, "query_scale": "standard", "lr": 1e-2}
    model = NRSRanker(**settings).fit(X, y, qid=qid)
    X_test, y_test, qid_test = _data(seed=1)
    assert model.score(X_test + 1e3, y_test, qid=qid_test) > 0.75
    with pytest.raises(ValueError, match="qid=None"):
        model.predict(X)
    model.save(tmp_path / "ranker")
    loaded = NRSRanker.load(tmp_path / "ranker")
    assert np.array_equal(loaded.predict(X, qid), model.predict(X, qid))


def test_a_loss_called_like_one_of_ours_is_not_taken_for_it(tmp_path):
    def urank(scores, labels, mask):
        return listnet(scores, labels, mask)

    X, y, qid = _data()
    # No gains are taken, so that any numbers will do.
    model = NRSRanker(loss=urank, **QUICK).fit(X, y - 0.5, qid=qid)
    model.save(tmp_path / "ranker")
    loaded = NRSRanker.load(tmp_path / "ranker")
    with pytest.raises(ValueError, match="was a function, which is not saved"):
        loaded.partial_fit(X, y, qid=qid)


@pytest.mark.parametrize("loss", ["urank", listnet])
def test_files(tmp_path, loss):
    X, y, qid = _data()
    frame = pd.DataFrame(X, columns=list("abcde")).assign(query=qid)
    model = NRSRanker(loss=loss, **QUICK).fit(frame, y, qid="query")
    model.save(tmp_path / "ranker")
    assert read_model(tmp_path / "ranker").kind == "ranker"
    loaded = NRSRanker.load(tmp_path / "ranker")
    assert np.array_equal(loaded.predict(frame), model.predict(frame))
    assert loaded.score(frame, y) == model.score(frame, y)
    assert loaded.loss_ == ("urank" if loss == "urank" else "listnet")
    assert np.array_equal(loaded.feature_importances_, model.feature_importances_)
    from nrs import NRSRegressor

    with pytest.raises(ModelFileError, match="kind"):
        NRSRegressor.load(tmp_path / "ranker")


def test_checkpoints(tmp_path):
    X, y, qid = _data()
    few = {**QUICK, "checkpoint": tmp_path / "c"}
    first = NRSRanker(**few).fit(X, y, qid=qid)
    again = NRSRanker(**few).fit(X, y, qid=qid)
    assert first.history_ == again.history_
    other = np.where(qid == qid[0], qid[-1], qid)
    with pytest.raises(ValueError, match="data"):
        NRSRanker(**few).fit(X, y, qid=other)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_cross_validation_with_queries_routed(routing):
    X, y, qid = _data()
    model = NRSRanker(**QUICK)
    found = cross_validate(
        model, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid}, error_score="raise"
    )
    assert len(found["test_score"]) == 3
    assert min(found["test_score"]) > 0.5
    search = GridSearchCV(
        model, {"n_mul": [0, 2]}, cv=GroupKFold(2), error_score="raise", refit=True
    ).fit(X, y, qid=qid, groups=qid)
    assert search.best_params_["n_mul"] in (0, 2)
    assert search.score(X, y, qid=qid) > 0.6


def test_cross_validation_with_a_column_of_queries():
    X, y, qid = _data()
    frame = pd.DataFrame(X, columns=list("abcde")).assign(qid=qid)
    found = cross_validate(
        NRSRanker(**QUICK), frame, y, groups=qid, cv=GroupKFold(3), params={"qid": "qid"}
    )
    assert min(found["test_score"]) > 0.5


def test_clone_and_parameters():
    model = NRSRanker(loss="urank", n_mul=0, query_scale="standard")
    assert clone(model).get_params() == model.get_params()


def test_the_paper_preset():
    X, y, qid = _data()
    model = NRSRanker(preset="paper", epochs=2, verbose=0, random_state=0).fit(X, y, qid=qid)
    recipe = model.recipe_
    assert (recipe.n_mul, recipe.hidden, recipe.sigmoid, recipe.batch_size) == (2, (), True, 1)
    assert (recipe.lr, recipe.weight_decay, recipe.optimizer) == (1e-3, 1e-3, "adam")
    scores = model.predict(X)
    assert ((scores > 0) & (scores < 1)).all()


def test_single_documents_and_queries_without_relevance_are_fine():
    X, y, qid = _data()
    qid = qid.copy()
    qid[:5] = [-1, -2, -3, -4, -5]
    y[:30] = 0
    assert NRSRanker(batch_size=1, **QUICK).fit(X, y, qid=qid).score(X, y, qid=qid) > 0.5


def test_fractional_labels_where_there_are_no_gains():
    X, y, qid = _data()
    model = NRSRanker(loss="ranknet", **QUICK).fit(X, y - 0.5, qid=qid)
    assert "val_ndcg@10" not in model.history_.rows[0]
    with pytest.raises(ValueError, match="whole numbers from 0"):
        model.score(X, y - 0.5, qid=qid)


def test_labels_without_a_gain_where_there_are_no_gains():
    X, y, qid = _data()
    model = NRSRanker(loss="ranknet", **QUICK).fit(X, y * 365, qid=qid)
    assert "val_ndcg@10" not in model.history_.rows[0]
    assert np.isfinite(model.predict(X)).all()


def test_bad_input():
    X, y, qid = _data()
    model = NRSRanker(**QUICK)
    with pytest.raises(ValueError, match="qid=None"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="as many entries as X has rows"):
        model.fit(X, y, qid=qid[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1], qid=qid)
    with pytest.raises(ValueError, match=r"y must hold grades .* -1"):
        model.fit(X, y - 1, qid=qid)
    with pytest.raises(ValueError, match=r"y must hold grades .* 1\.5"):
        model.fit(X, y + 0.5, qid=qid)
    # Their gains would be infinite, and the training said to diverge.
    with pytest.raises(ValueError, match=r"y must hold grades .* up to 100 .* 201"):
        model.fit(X, np.where(y > 0, y + 200, 0), qid=qid)
    with pytest.raises(ValueError, match=r"y must hold numbers up to 3.4e\+38; got .*e\+300"):
        NRSRanker(loss="listnet", **QUICK).fit(X, y * 1e300, qid=qid)
    with pytest.raises(ValueError, match=r"y must hold numbers.*; got \['good'"):
        model.fit(X, np.where(y >= 0, "good", "bad"), qid=qid)
    with pytest.raises(ValueError, match="one label per row"):
        model.fit(X, np.stack([y, y], 1), qid=qid)
    with pytest.raises(ValueError, match="triple"):
        model.fit(X, y, qid=qid, eval_set=(X, y))
    # No metric is defined, and the first epoch was taken for the best.
    with pytest.raises(ValueError, match=f"none of the {len(set(qid))} has one"):
        model.fit(X, y, qid=qid, eval_set=(X, y * 0, qid))
    with pytest.raises(ValueError, match=f"none of the {len(set(qid))} has one"):
        NRSRanker(preset="fast").fit(X, y * 0, qid=qid)
    with pytest.raises(ValueError, match="it holds dates"):
        model.fit(X, y.astype("datetime64[D]"), qid=qid)
    with pytest.raises(ValueError, match="leaves none"):
        NRSRanker(validation_fraction=0.2, **QUICK).fit(X[:3], y[:3], qid=[1, 1, 2])
    for wrong in ({"loss": "hinge"}, {"batch_size": 0}, {"query_scale": "minmax"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            NRSRanker(**QUICK, **wrong).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="metric must be"):
        NRSRanker(metric="auc", **QUICK).fit(X, y, qid=qid)


def test_batches_of_one_size_train_to_the_same_loss_as_queries_one_by_one():
    X, y, qid = _data(queries=6)
    model = NRSRanker(loss="listnet", validation_fraction=0.0, **QUICK).fit(X, y, qid=qid)
    from nrs.ranking.batches import QueryBatches, QueryRows
    from nrs.ranking.queries import group_queries

    rows = QueryRows(model.encoder_.transform(X), y.astype(np.float32), group_queries(qid))
    with torch.no_grad():
        together = [model.model_.loss(model.network_, b) for b in QueryBatches(rows, 6).in_order()]
        singly = [model.model_.loss(model.network_, b) for b in QueryBatches(rows, 1).in_order()]
    assert len(together) == 1
    assert together[0].item() == pytest.approx(torch.stack(singly).mean().item(), rel=1e-5)


def _shifted():
    """Queries that lie apart, so that only what a document is within its query counts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) + np.repeat(rng.normal(size=30) * 5, 10)[:, None]
    within = X[:, 0] - np.repeat(X[:, 0].reshape(30, 10).mean(1), 10)
    return X, (within > 0.5).astype(int), np.repeat(np.arange(30), 10)


@pytest.mark.parametrize("preset", ["single", "fast"])
def test_held_out_queries_are_scaled_as_training_ones(preset):
    X, y, qid = _shifted()
    model = NRSRanker(preset=preset, query_scale="standard", epochs=2, random_state=0, verbose=0)
    model.fit(X[:200], y[:200], qid=qid[:200], eval_set=(X[200:], y[200:], qid[200:]))
    best = model.history_.rows[model.history_.best_epoch]["val_ndcg@10"]
    assert best == pytest.approx(model.score(X[200:], y[200:], qid=qid[200:]), abs=1e-6)


def test_partial_fits_keep_the_first_scaling_within_queries(tmp_path):
    X, y, qid = _shifted()
    model = NRSRanker(preset="fast", query_scale="standard", random_state=0, verbose=0)
    first = model.partial_fit(X[:200], y[:200], qid=qid[:200]).scaler_
    assert first is not None
    model.partial_fit(3 * X[200:], y[200:], qid=qid[200:])
    np.testing.assert_array_equal(model.scaler_.spread, first.spread)
    model.save(tmp_path / "ranker")
    again = NRSRanker.load(tmp_path / "ranker")
    np.testing.assert_array_equal(again.predict(X, qid), model.predict(X, qid))


def test_documents_far_from_those_of_the_fit_are_named():
    X, y, qid = _data()
    model = NRSRanker(**QUICK).fit(X, y, qid=qid)
    X[0, 2] = 1e9
    with pytest.warns(ColumnWarning, match="1 in 'x2'"):
        model.predict(X)
