"""The ranker's forest: members that never see a fold of the queries, and what they tell."""

import numpy as np
import pandas as pd
import pytest
import torch

from nrs import NRSRanker
from nrs.ranking import forest
from nrs.ranking.batches import QueryBatches, QueryRows
from nrs.ranking.estimator import RankForestModel
from nrs.ranking.forest import forest_loss, out_of_bag, out_of_bag_scores, some_queries
from nrs.ranking.losses import LOSSES
from nrs.ranking.metrics import measure
from nrs.ranking.queries import group_queries
from nrs.ranking.recipe import RankTarget
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.targets import mean_values

QUICK = {"preset": "fast", "epochs": 4, "verbose": 0, "random_state": 0}
FOLDS = 3
# Which folds each of six members sees.
SEES = Folds(FOLDS).sees(6)


def _data(queries=30, seed=0):
    """Rows of queries in no order, whose relevance two features tell."""
    generator = np.random.default_rng(seed)
    qid = generator.permutation(np.repeat(np.arange(queries) * 7, 8))
    x = generator.normal(size=(len(qid), 4))
    noise = 0.3 * generator.normal(size=len(qid))
    return x, np.digitize(x[:, 0] + np.abs(x[:, 1]) + noise, [0.8, 1.6, 2.4]), qid


def _network(members=6, features=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    index = torch.stack(
        [
            torch.stack([torch.randperm(features, generator=generator)[:2] for _ in range(5)])
            for _ in range(members)
        ]
    )
    return ForestNetwork(
        features, 1, index, PiecewiseLinear.between([]), hidden=(6,), combine=mean_values, seed=seed
    )


def _rows(queries=7, seed=0):
    x, y, qid = _data(queries, seed)
    found = group_queries(qid)
    folds = (np.arange(len(found)) % FOLDS)[found.numbers()]
    return QueryRows(x.astype(np.float32), y.astype(np.float32), found, folds=folds)


def test_a_long_query_is_scored_in_parts(monkeypatch):
    network, rows = _network().eval(), _rows()
    x, folds = rows.features, rows.folds
    whole, sizes = out_of_bag(network, x, folds, SEES), []
    monkeypatch.setattr(forest, "MAX_DOCUMENTS", 20)
    of_members = network.members
    monkeypatch.setattr(network, "members", lambda x: sizes.append(len(x)) or of_members(x))
    torch.testing.assert_close(out_of_bag(network, x, folds, SEES), whole)
    assert sizes == [20, 20, 16]


@pytest.fixture(scope="module")
def fitted():
    X, y, qid = _data()
    return NRSRanker(**QUICK).fit(X, y, qid=qid)


# The loss of all members at once.


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_loss_is_the_mean_over_members_and_the_queries_they_see(name):
    network, rows = _network().eval(), _rows()
    batch = rows.batch(np.arange(7))
    found = forest_loss(network, batch, RankTarget(name), SEES)
    scores = network.members(batch.x)[:, 0]
    values = []
    for member in range(network.n_members):
        for query in range(7):
            if rows.query_folds[query] != member % FOLDS:
                own = batch.row == query
                values.append(LOSSES[name](scores[member, own][None], batch.y[own][None]))
    torch.testing.assert_close(found, torch.stack(values).mean(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lambdarank", "listnet"])
def test_a_member_learns_nothing_from_the_labels_of_its_fold(name):
    network, rows = _network().eval(), _rows()

    def gradients():
        network.zero_grad()
        loss = forest_loss(network, rows.batch(np.arange(7)), RankTarget(name), SEES)
        loss.backward()
        return network.out_weight.grad.clone()

    before = gradients()
    held = rows.folds == 1
    rows.targets[held] = 3 - rows.targets[held]
    changed = (gradients() != before).flatten(1).any(1)
    assert changed.tolist() == [member % FOLDS != 1 for member in range(network.n_members)]


def test_with_one_fold_members_see_all_queries():
    network, rows = _network().eval(), _rows()
    batch = rows.batch(np.arange(7))
    found = forest_loss(network, batch, RankTarget("urank"), Folds(1).sees(6))
    each = [
        LOSSES["urank"](batch.padded(scores), batch.padded(batch.y), batch.mask())
        for scores in network.members(batch.x)[:, 0]
    ]
    torch.testing.assert_close(found, torch.stack(each).mean())


def test_out_of_bag_scores_are_of_the_members_that_saw_nothing():
    network, rows = _network().eval(), _rows()
    by_row = rows.folds.numpy()
    scores = out_of_bag_scores(network, rows, SEES)
    every = network.members(torch.as_tensor(rows.features))[:, 0].detach()
    for row, fold in enumerate(by_row):
        assert scores[row] == pytest.approx(every[fold::FOLDS, row].mean().item(), abs=1e-6)
    batch = rows.batch(np.array([2, 0]))
    shown = out_of_bag(network, batch.x, batch.folds[batch.row], SEES)
    numbers = rows.queries.rows(np.array([2, 0]))
    np.testing.assert_allclose(shown.detach().numpy(), scores[numbers], atol=1e-6)


def test_some_queries_are_whole_ones():
    rows = _rows(30)
    few = some_queries(rows, 50)
    assert len(few) == len(few.queries) * 8
    assert 40 <= len(few) <= 60
    assert some_queries(rows, len(rows)) is rows
    total = sum(len(batch.y) for batch in QueryBatches(few, 4).in_order())
    assert total == len(few)


def test_an_epoch_may_hold_several_passes():
    batches = QueryBatches(_rows(), 3, passes=2)
    seen = list(batches(0, torch.Generator().manual_seed(0)))
    assert len(seen) == len(batches) == 6
    assert sum(len(batch.y) for batch in seen) == 2 * len(_rows())


# The estimator.


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_trains_a_forest(loss):
    X, y, qid = _data()
    model = NRSRanker(loss=loss, **QUICK).fit(X, y, qid=qid)
    assert model.oob_score_ > 0.75
    X_test, y_test, qid_test = _data(seed=1)
    assert model.score(X_test, y_test, qid=qid_test) > 0.75


def test_the_default_is_a_forest_judged_out_of_bag(fitted):
    X, y, qid = _data()
    assert fitted.members_ == 8
    assert NRSRanker(epochs=1, verbose=0).fit(X[:40], y[:40], qid=qid[:40]).members_ == 16
    assert fitted.oob_prediction_.shape == (len(X),)
    assert fitted.oob_score_ == pytest.approx(float(measure(fitted.oob_prediction_, y, qid)))
    best = max(row["val_ndcg@10"] for row in fitted.history_.rows)
    assert fitted.oob_score_ == pytest.approx(best, abs=1e-6)
    assert fitted.history_.best_epoch is not None


def test_documents_of_a_query_share_a_fold(monkeypatch):
    X, y, qid = _data()
    seen = []
    learn = RankForestModel.learn

    def watch(self, task):
        seen.append((task.rows.folds.numpy(), task.rows.query_folds, task.rows.queries))
        return learn(self, task)

    monkeypatch.setattr(RankForestModel, "learn", watch)
    NRSRanker(**{**QUICK, "epochs": 1}).fit(X, y, qid=qid)
    ((by_row, by_query, queries),) = seen
    assert set(by_row) == set(range(8))
    for number in np.unique(qid):
        assert len(set(by_row[qid == number])) == 1
    assert np.array_equal(by_query[queries.numbers()], by_row)


def test_members_and_their_spread(fitted):
    X, _, _ = _data(seed=1)
    members = fitted.member_outputs(X)
    assert members.shape == (8, len(X))
    scores, spread = fitted.predict(X, return_std=True)
    np.testing.assert_array_equal(scores, fitted.predict(X))
    np.testing.assert_allclose(scores, members.mean(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(spread, members.std(0))
    X, y, qid = _data()
    # No member's scores lie higher than another's by chance.
    np.testing.assert_allclose(fitted.member_outputs(X).mean(1), 0, atol=1e-4)
    single = NRSRanker(preset="single", epochs=1, verbose=0).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="single network without members"):
        single.predict(X, return_std=True)


def test_n_mul_0_is_the_plain_scorer():
    X, y, qid = _data()
    plain = NRSRanker(n_mul=0, epochs=1, verbose=0, random_state=0).fit(X, y, qid=qid)
    same = NRSRanker(n_mul=0, preset="single", epochs=1, verbose=0, random_state=0)
    assert plain.network_.subspaces is None
    assert np.array_equal(plain.predict(X), same.fit(X, y, qid=qid).predict(X))
    assert not hasattr(plain, "oob_score_")
    with pytest.raises(ValueError, match="preset='fast' is a forest"):
        NRSRanker(n_mul=0, preset="fast").fit(X, y, qid=qid)


def test_files_keep_the_forest(tmp_path, fitted):
    X, y, qid = _data()
    fitted.save(tmp_path / "forest")
    loaded = NRSRanker.load(tmp_path / "forest")
    assert np.array_equal(loaded.predict(X), fitted.predict(X))
    assert np.array_equal(loaded.member_outputs(X), fitted.member_outputs(X))
    assert loaded.oob_score_ == fitted.oob_score_
    # A loss by its name goes on where it stopped.
    assert loaded.partial_fit(X, y, qid=qid).score(X, y, qid=qid) > 0.7


def test_checkpoints_know_the_folds(tmp_path):
    X, y, qid = _data()
    few = {**QUICK, "epochs": 2, "checkpoint": tmp_path / "c"}
    first = NRSRanker(**few).fit(X, y, qid=qid)
    again = NRSRanker(**few).fit(X, y, qid=qid)
    assert first.history_ == again.history_
    assert np.array_equal(first.oob_prediction_, again.oob_prediction_)


def test_queries_of_a_column_scaled_within(tmp_path):
    X, y, qid = _data()
    frame = pd.DataFrame(X + 10 * qid[:, None], columns=list("abcd")).assign(query=qid)
    model = NRSRanker(query_scale="standard", **QUICK).fit(frame, y, qid="query")
    assert model.oob_score_ > 0.7
    assert model.member_outputs(frame).shape == (8, len(X))


def test_an_eval_set_decides_instead():
    X, y, qid = _data()
    validation = _data(seed=1)
    model = NRSRanker(**QUICK).fit(X, y, qid=qid, eval_set=validation)
    best = max(row["val_ndcg@10"] for row in model.history_.rows)
    assert model.score(*validation[:2], qid=validation[2]) == pytest.approx(best, abs=1e-6)
    assert hasattr(model, "oob_score_")


@pytest.mark.parametrize("queries", [1, 3, 4])
def test_few_queries(queries):
    X, y, qid = _data(queries)
    y[0] = 1
    model = NRSRanker(**{**QUICK, "epochs": 1}).fit(X, y, qid=qid)
    assert model.predict(X).shape == (len(X),)
    assert hasattr(model, "oob_score_") == (queries >= 4)


def test_labels_that_are_no_grades_have_scores_but_no_ndcg():
    X, y, qid = _data()
    model = NRSRanker(loss="ranknet", **{**QUICK, "epochs": 1}).fit(X, y - 0.5, qid=qid)
    assert hasattr(model, "oob_prediction_")
    assert not hasattr(model, "oob_score_")


def test_partial_fit_learns():
    X, y, qid = _data()
    model = NRSRanker(**QUICK)
    halves = qid < np.median(qid)
    for _ in range(4):
        for part in (halves, ~halves):
            model.partial_fit(X[part], y[part], qid=qid[part])
    assert model.score(X, y, qid=qid) > 0.8
    assert abs(model.oob_score_ - model.score(X, y, qid=qid)) < 0.1
    again = model.fit(X, y, qid=qid)
    assert hasattr(again, "oob_score_")
    again.partial_fit(X, y, qid=qid)
    assert len(again.oob_prediction_) == len(X)


def test_a_time_limit_ends_a_fit_that_would_take_days():
    X, y, qid = _data()
    limits = {**QUICK, "epochs": 10_000_000, "time_limit": 0.5}
    model = NRSRanker(**limits).fit(X, y, qid=qid)
    assert model.history_.stopped_early
    assert model.oob_prediction_.shape == model.predict(X).shape
