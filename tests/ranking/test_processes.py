"""A ranker of several processes: the same model, and honest out-of-bag scores."""

import functools
import json

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from nrs import NRSRanker
from nrs.ranking.batches import QueryRows
from nrs.ranking.forest import forest_loss
from nrs.ranking.metrics import measure
from nrs.ranking.queries import group_queries
from nrs.ranking.recipe import RankTarget
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.divide import take_members
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.network import ForestNetwork
from tests.forked import run_ranks

SCRIPT = """
import json, sys
import numpy as np
from nrs import NRSRanker
from nrs.training import processes

rng = np.random.default_rng(0)
X, y = rng.normal(size=(400, 5)), rng.integers(0, 3, 400)
qid = np.repeat(np.arange(40), 10)
with processes("cpu") as group:
    # Without a seed of its own every process would draw other folds.
    np.random.seed(group.rank)
    model = NRSRanker(preset="fast", epochs=40, verbose=0).fit(X, y, qid=qid)
    found = {"score": model.oob_score_, "scores": model.oob_prediction_.tolist()}
    with open(f"{sys.argv[1]}/{group.rank}.json", "w") as file:
        json.dump(found, file)
"""


@pytest.mark.slow
def test_noise_scores_as_noise_under_a_launcher(tmp_path):
    run_ranks(SCRIPT, 2, tmp_path)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    rng = np.random.default_rng(0)
    rng.normal(size=(400, 5))
    y, qid = rng.integers(0, 3, 400), np.repeat(np.arange(40), 10)
    by_chance = [float(measure(rng.normal(size=400), y, qid)) for _ in range(200)]
    assert first["score"] < np.mean(by_chance) + 3 * np.std(by_chance)


QUICK = {"preset": "fast", "n_mul": 2, "hidden": 16, "epochs": 3, "random_state": 0, "verbose": 0}


def _documents():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(240, 5)), rng.permutation(np.repeat(np.arange(24), 10))
    return X, np.digitize(X[:, 0], [0.3, 1]), qid, rng


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("how", ["grades", "clicks", "sparse", "own metric", "eval_set"])
def test_workers_give_the_model_of_one_process(how, tmp_path):
    X, y, qid, rng = _documents()
    given, settings = {"qid": qid}, dict(QUICK)
    if how == "clicks":
        y = (y > 0).astype(int)
        given |= {"propensity": rng.uniform(0.2, 1, 240), "sample_weight": rng.uniform(0, 2, 24)}
        settings |= {"loss": "listnet", "query_scale": "standard"}
    if how == "sparse":
        X = csr_matrix(np.where(X > 0, X, 0))
    if how == "eval_set":
        given["eval_set"] = (X[::2], y[::2], qid[::2])
    if how == "own metric":
        settings["metric"] = lambda scores, labels, mask: float((scores * labels)[mask].sum())
    alone = NRSRanker(**settings).fit(X, y, **given)
    checkpoint = {"checkpoint": tmp_path / "run"} if how == "grades" else {}
    helped = NRSRanker(**settings, n_workers=2, **checkpoint).fit(X, y, **given)
    asked = {"qid": qid} if how == "clicks" else {}
    close = functools.partial(np.testing.assert_allclose, atol=1e-5)
    close(helped.predict(X, **asked), alone.predict(X, **asked))
    close(helped.history_["val_loss"], alone.history_["val_loss"])
    if how != "eval_set":
        close(helped.oob_prediction_, alone.oob_prediction_)
    helped.save(tmp_path / "model.safetensors")
    assert NRSRanker.load(tmp_path / "model.safetensors").n_workers == 1


def _own(scores, labels, mask=None):
    return (scores - labels).square().mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": _own}, "n_workers needs a loss that is part of nrs; '_own' cannot be sent"),
        ({"preset": "single"}, "several processes train a forest"),
        ({"n_workers": 0}, "n_workers must be an integer of at least 1; got 0"),
    ],
)
def test_what_workers_cannot_help_with(settings, message):
    X, y, qid, _ = _documents()
    with pytest.raises(ValueError, match=message):
        NRSRanker(**QUICK | {"n_workers": 2} | settings).fit(X, y, qid=qid)


def test_queries_are_not_divided():
    with pytest.raises(
        TypeError, match=r"NRSRanker has no divide: its processes \(n_workers\) train"
    ):
        NRSRanker(divide="rows")


@pytest.mark.slow
def test_workers_are_started_anew():
    X, y, qid, _ = _documents()
    alone, helped = (NRSRanker(**QUICK, n_workers=n).fit(X, y, qid=qid) for n in (1, 2))
    np.testing.assert_allclose(helped.predict(X), alone.predict(X), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_members_of_all_processes_share_one_loss(weighted):
    """Gradients of the parts are those of the whole, also where a part sees no query of a batch."""
    X, y, _, _ = _documents()
    queries, folds = group_queries(np.repeat(np.arange(3), [1, 4, 2])), np.array([0, 1, 1])
    weights = np.array([0.5, 0.0, 2.0], np.float32) if weighted else None
    rows = QueryRows(
        X[:7].astype(np.float32), y[:7].astype(np.float32), queries,
        folds=np.repeat(folds, [1, 4, 2]), weights=weights,
    )  # fmt: skip
    index = torch.randint(5, (3, 8, 2), generator=torch.Generator().manual_seed(0))
    network = ForestNetwork(5, 1, index, PiecewiseLinear.between([]), hidden=(16,)).eval()
    sees, target = Folds(2).sees(3), RankTarget("listnet")
    for chosen in ([0, 1, 2], [0], [1, 2]):
        batch = rows.batch(np.array(chosen))
        whole = forest_loss(network, batch, target, sees)
        parts = [take_members(network, k, k + 1) for k in range(3)]
        shares = [forest_loss(part, batch, target, sees) for part in parts]
        assert torch.isfinite(whole)
        torch.testing.assert_close(sum(shares), whole)
