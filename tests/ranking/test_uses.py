"""What an engineer does with a ranker: groups, weights, clicks, tables of files, other runtimes."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nrs
from nrs import NRSRanker
from nrs.ranking import pairs
from nrs.ranking.losses import LOSSES, listnet
from nrs.ranking.queries import group_queries, qid_of_group, query_weights
from tests.forked import Forked

QUICK = {"preset": "fast", "epochs": 2, "verbose": 0, "random_state": 0}
SINGLE = {**QUICK, "preset": "single"}
PRESETS = pytest.mark.parametrize("settings", [QUICK, SINGLE], ids=["forest", "single"])


def _data(queries=24, seed=0):
    generator = np.random.default_rng(seed)
    group = generator.integers(4, 9, queries)
    frame = pd.DataFrame(generator.normal(size=(group.sum(), 4)), columns=list("abcd"))
    grades = np.digitize(frame["a"] + 0.3 * frame["b"], [0.5, 1.2])
    return frame, grades, np.repeat(np.arange(queries) * 7, group), group


def _padded(queries=3, documents=17, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(queries, documents, dtype=torch.float64, generator=generator)
    labels = torch.randint(0, 4, (queries, documents), generator=generator)
    mask = torch.rand(queries, documents, generator=generator) < 0.8
    mask[:, 0] = True
    return scores.requires_grad_(), labels, mask


@PRESETS
def test_group_is_qid(settings):
    X, y, qid, group = _data()
    by_qid = NRSRanker(**settings).fit(X, y, qid)
    by_group = NRSRanker(**settings).fit(X, y, group=group)
    assert np.array_equal(by_qid.predict(X), by_group.predict(X))
    assert by_group.score(X, y, group=group) == by_qid.score(X, y, qid)
    assert by_group.rank(X, group=group).tolist() == by_qid.rank(X, qid).tolist()
    scaled = NRSRanker(query_scale="standard", **settings).fit(X, y, group=group)
    assert np.array_equal(scaled.predict(X, group=group), scaled.predict(X, qid))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": [3, 4]}, r"group must add up to the \d+ rows of X; it adds up to 7"),
        ({"group": [3, -1]}, "positive integers"),
        ({"group": ["a", "b"]}, "To name the query of each row, pass qid="),
        ({"group": [5], "qid": [1]}, "qid and group say the same; got both"),
        ({"sample_weight": [1.0]}, r"one entry per row \(\d+\) or per query \(24\)"),
        ({"sample_weight": np.zeros(24)}, "not all of them 0"),
        ({"sample_weight": "differ"}, "the same for all documents of a query"),
        ({"propensity": np.zeros(24)}, "propensity must have one number per row"),
        ({"propensity": "zero"}, "above 0 and at most 1 .* row 0 has 0"),
    ],
)
def test_mistakes(arguments, message):
    X, y, qid, _ = _data()
    arguments = {"qid": None if "group" in arguments else qid, **arguments}
    if isinstance(arguments.get("sample_weight"), str):
        arguments["sample_weight"] = np.arange(len(y))
    if isinstance(arguments.get("propensity"), str):
        arguments["propensity"] = np.zeros(len(y))
    with pytest.raises(ValueError, match=message):
        NRSRanker(**QUICK).fit(X, y, **arguments)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_sizes_of_queries_and_back(sizes):
    qid = qid_of_group(sizes, sum(sizes))
    assert group_queries(qid).lengths.tolist() == sizes


@pytest.mark.parametrize("loss", list(LOSSES))
def test_a_query_of_weight_two_is_a_query_twice(loss):
    scores, labels, mask = _padded()
    weights = torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64)
    twice = [0, 1, 1]
    found = LOSSES[loss](scores, labels, mask, weights=weights)
    expected = LOSSES[loss](scores[twice], labels[twice], mask[twice])
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("loss", ["lambdarank", listnet, lambda s, y, m: listnet(s, y, m)])
def test_queries_of_weight_zero_teach_nothing(loss):
    X, y, qid, _ = _data()
    kept = np.isin(qid, np.unique(qid)[::2])
    found = []
    for labels in (y, np.where(kept, y, 2 - y)):
        model = NRSRanker(loss=loss, validation_fraction=0.0, **SINGLE)
        found.append(model.fit(X, labels, qid, sample_weight=kept.astype(float)).predict(X))
    assert np.array_equal(*found)


def test_weights_of_rows_and_of_queries():
    X, y, qid, group = _data()
    of_queries = np.linspace(1, 3, len(group))
    by_query = NRSRanker(**SINGLE).fit(X, y, qid, sample_weight=of_queries)
    by_row = NRSRanker(**SINGLE).fit(X, y, qid, sample_weight=np.repeat(of_queries, group))
    plain = NRSRanker(**SINGLE).fit(X, y, qid)
    assert np.array_equal(by_query.predict(X), by_row.predict(X))
    assert not np.array_equal(by_query.predict(X), plain.predict(X))
    assert query_weights(None, group_queries(qid)) is None


@pytest.mark.parametrize("loss", list(LOSSES))
def test_a_propensity_of_one_changes_nothing_and_a_lower_one_pulls_clicks_up(loss):
    scores, labels, mask = _padded()
    labels = (labels > 1).long()
    certain = torch.ones_like(scores)
    slope = torch.autograd.grad(LOSSES[loss](scores, labels, mask), scores)[0]
    same = torch.autograd.grad(LOSSES[loss](scores, labels, mask, propensity=certain), scores)[0]
    if loss != "ranknet":  # Which leaves out pairs of equal labels then.
        assert torch.allclose(slope, same)
    # A click at a place that few look at counts more.
    query = int((labels * mask).sum(1).argmax())
    clicked = int((labels * mask)[query].argmax())
    rare = certain.clone()
    rare[query, clicked] = 0.1
    more = torch.autograd.grad(LOSSES[loss](scores, labels, mask, propensity=rare), scores)[0]
    assert more[query, clicked] < same[query, clicked]


def test_clicks_that_positions_hide_are_weighed():
    """Documents of one kind are looked at a fifth of the time; their clicks are as telling."""
    generator = np.random.default_rng(0)
    n, length = 3000, 10
    X = np.column_stack([generator.normal(size=n), generator.integers(0, 2, n)])
    propensity = np.where(X[:, 1] == 1, 0.2, 1.0)
    y = ((X[:, 0] > 0.5) & (generator.random(n) < propensity)).astype(int)
    qid = np.repeat(np.arange(n // length), length)
    shown, hidden = np.column_stack([np.ones(9), np.zeros(9)]), np.ones((9, 2))
    gap = []
    for known in (None, propensity):
        model = NRSRanker(
            loss="listnet", preset="single", epochs=8, verbose=0, random_state=0, lr=1e-2
        )
        model.fit(X, y, qid, propensity=known)
        gap.append(np.mean(model.predict(shown) - model.predict(hidden)))
    assert abs(gap[1]) < 0.5 * gap[0]


def test_a_function_as_loss_takes_no_propensity():
    X, y, qid, _ = _data()
    with pytest.raises(ValueError, match=r"propensity needs a loss of nrs\.ranking\.losses"):
        NRSRanker(loss=lambda s, y, m: listnet(s, y, m), **QUICK).fit(
            X, y, qid, propensity=np.ones(len(y))
        )


@PRESETS
def test_a_table_of_files(tmp_path, settings):
    X, y, qid, _ = _data()
    path = tmp_path / "rows.parquet"
    X.assign(query=qid, grade=y).to_parquet(path, row_group_size=40)
    table = nrs.Table(path, target="grade")
    model = NRSRanker(**settings).fit(table, qid="query")
    alone = NRSRanker(**settings).fit(X.assign(query=qid), y, qid="query")
    assert np.array_equal(model.predict(table), alone.predict(X))
    assert model.score(table) == alone.score(X, y, qid)
    assert model.rank(table).tolist() == alone.rank(X, qid).tolist()


@PRESETS
def test_columns_are_found_by_name(settings):
    X, y, qid, _ = _data()
    model = NRSRanker(**settings).fit(X.assign(query=qid), y, qid="query")
    expected = model.predict(X)
    turned = X.assign(query=qid)[["d", "query", "a", "c", "b"]]
    assert np.array_equal(model.predict(turned), expected)
    assert np.array_equal(model.predict(turned.drop(columns="query")), expected)


@pytest.mark.parametrize("loss", ["ranknet", "approx_ndcg", "lambdarank"])
@pytest.mark.parametrize("propensity", [False, True])
def test_blocks_of_pairs_give_the_same(monkeypatch, loss, propensity):
    scores, labels, mask = _padded()
    given_propensity = torch.rand_like(scores) * 0.9 + 0.1 if propensity else None
    found = []
    for most in (pairs.BLOCK_PAIRS, 3 * 17 * 4, 1):
        monkeypatch.setattr(pairs, "BLOCK_PAIRS", most)
        value = LOSSES[loss](scores, labels, mask, propensity=given_propensity)
        found.append((value, *torch.autograd.grad(value, scores)))
    for value, slope in found[1:]:
        assert torch.allclose(value, found[0][0], rtol=1e-12)
        assert torch.allclose(slope, found[0][1], rtol=1e-9, atol=1e-14)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(list(LOSSES)), st.integers(1, 30), st.integers(0, 9))
def test_blocks_and_second_queries_change_no_gradient(loss, documents, seed):
    scores, labels, mask = _padded(2, documents, seed)
    whole = torch.autograd.grad(LOSSES[loss](scores, labels, mask), scores)[0]
    for query in range(2):
        own = torch.autograd.grad(
            LOSSES[loss](scores[query, None], labels[query, None], mask[query, None]), scores
        )[0]
        assert torch.allclose(own[query] / 2, whole[query], rtol=1e-6, atol=1e-12)


LARGE = """
import resource, sys
import numpy as np
from nrs import NRSRanker

loss, preset = sys.argv[1:]
generator = np.random.default_rng(0)
lengths = [20_000, 30, 40, 50]
X = generator.normal(size=(sum(lengths), 10)).astype(np.float32)
# As many relevant documents as judges come to.
y = (X[:, 0] > 2.5).astype(int) + (X[:, 0] > 3)
qid = np.repeat(np.arange(4), lengths)
model = NRSRanker(loss=loss, preset=preset, epochs=1, random_state=0, verbose=0).fit(X, y, qid)
assert np.isfinite(model.predict(X)).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("preset", ["single", "fast"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_a_query_of_20000_documents_in_bounded_memory(loss, preset):
    process = Forked(LARGE, loss, preset)
    said = process.rest()
    assert process.returncode == 0, said
    # In kilobytes; the packages are 400 MB of it.
    assert int(said[-1]) < 1_000_000


PAIRS = """
import resource, sys
import torch
from nrs.ranking.losses import LOSSES

scores = torch.randn(1, 10, requires_grad=True).exp().sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scores = torch.randn(1, 9000, requires_grad=True)
LOSSES[sys.argv[1]](scores, (torch.arange(9000) < 20).long()[None]).backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("loss", list(LOSSES))
def test_the_memory_of_pairs_is_bounded(loss):
    process = Forked(PAIRS, loss)
    said = process.rest()
    assert process.returncode == 0, said
    # In kilobytes. A single rectangle of all pairs has 324 MB, and several are needed.
    assert int(said[-1]) < 320_000
