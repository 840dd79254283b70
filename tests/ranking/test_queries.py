"""Rows of queries: grouped whatever their order, batched whole, scaled by training queries."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.ranking.batches import QueryBatches, QueryRows
from nrs.ranking.queries import group_queries, pad_queries
from nrs.ranking.scaling import QueryScaler


@given(qid=st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_rows_of_a_query_come_together_in_their_order(qid):
    queries = group_queries(qid)
    assert queries.lengths.sum() == len(qid)
    assert sorted(queries.order.tolist()) == list(range(len(qid)))
    seen = []
    for number in range(len(queries)):
        rows = queries.rows(np.array([number])).tolist()
        assert rows == [row for row, q in enumerate(qid) if q == qid[rows[0]]]
        seen.append(qid[rows[0]])
    assert seen == list(dict.fromkeys(qid))


@pytest.mark.parametrize(
    "qid",
    [
        ["b", "a", "b"],
        pd.Series([3.0, 1.0, 3.0]),
        np.array(["b", "a", "b"], dtype=object),
        pyarrow.array(["b", "a", "b"]),
        pyarrow.chunked_array([["b"], ["a", "b"]]),
    ],
)
def test_queries_of_any_type(qid):
    assert group_queries(qid).order.tolist() == [0, 2, 1]


def test_bad_queries():
    with pytest.raises(ValueError, match="qid=None"):
        group_queries(None)
    with pytest.raises(ValueError, match="2 entries and 3 rows"):
        group_queries([1, 2], n_rows=3)
    with pytest.raises(ValueError, match="row 1 has none"):
        group_queries([1.0, float("nan")])
    with pytest.raises(ValueError, match="row 0 has none"):
        group_queries(np.array([None, "a"], dtype=object))
    for missing in (None, float("nan"), pd.NA, pd.NaT):
        with pytest.raises(ValueError, match="row 1 has none"):
            group_queries(pd.Series(["a", missing], dtype=object))
    with pytest.raises(ValueError, match="row 1 has none"):
        group_queries(pd.Series(["a", pd.NA], dtype="string"))
    with pytest.raises(ValueError, match="row 0 has none"):
        group_queries(pd.Series([pd.NA, 2], dtype="Int64"))
    with pytest.raises(ValueError, match="row 1 has none"):
        group_queries(pyarrow.array(["a", None]))
    with pytest.raises(ValueError, match="one entry per row"):
        group_queries([[1], [2]])
    with pytest.raises(ValueError, match="empty"):
        group_queries([])


def test_padding_puts_every_value_in_its_place():
    padded, mask = pad_queries(["b", "a", "b"], labels=[1, 2, 3])
    assert padded["labels"].tolist() == [[1, 3], [2, 0]]
    assert mask.tolist() == [[True, True], [True, False]]


def _rows(lengths, features=2):
    qid = np.repeat(np.arange(len(lengths)), lengths)
    x = np.arange(len(qid) * features, dtype=np.float32).reshape(-1, features)
    return QueryRows(x, np.arange(len(qid), dtype=np.float32), group_queries(qid))


@given(
    lengths=st.lists(st.integers(1, 30), min_size=2, max_size=40),
    batch_size=st.integers(1, 7),
    max_cells=st.sampled_from([1, 200, 10**6]),
)
def test_an_epoch_has_every_query_once(lengths, batch_size, max_cells):
    rows = _rows(lengths)
    batches = list(QueryBatches(rows, batch_size, max_cells)(0, torch.Generator().manual_seed(1)))
    seen = torch.cat([batch.y for batch in batches])
    assert sorted(seen.tolist()) == list(range(sum(lengths)))
    for batch in batches:
        queries, longest = batch.shape
        assert len(batch.x) >= 2 or len(batches) == 1
        # One query may be as long as it is; several stay within the bounds, but for a lone
        # document that had to join.
        if len(batches) > 1 and longest > 1:
            assert queries <= batch_size + sum(length == 1 for length in lengths)
        assert batch.mask().sum() == len(batch.y)
        assert batch.padded(batch.y)[batch.mask()].tolist() == batch.y.tolist()


def test_memory_grows_with_the_bucket_not_with_the_longest_query():
    rows = _rows([10] * 64 + [1000])
    cells = [
        batch.shape[0] * batch.shape[1] ** 2
        for batch in QueryBatches(rows, 32, max_cells=4000)(0, torch.Generator().manual_seed(0))
    ]
    assert sorted(cells)[-1] == 1000**2
    assert all(size <= 4000 for size in sorted(cells)[:-1])


def test_batches_are_of_like_length_and_in_a_fresh_order():
    rows = _rows([5, 50] * 32)
    batches = QueryBatches(rows, 8)
    generator = torch.Generator().manual_seed(0)
    first, second = ([batch.y[0].item() for batch in batches(e, generator)] for e in range(2))
    assert first != second
    assert all(len(batch.y) == batch.shape[0] * batch.shape[1] for batch in batches(2, generator))


def test_scaling_is_learned_from_training_queries_only():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 3)).astype(np.float32)
    qid = np.repeat(np.arange(6), 10)
    x[:, 1] = qid  # describes the query
    x[:, 2] *= 1e-4  # varies, though little
    queries = group_queries(qid)
    training = queries.part(np.arange(4))
    scaler = QueryScaler.fit(x, training)
    changed = x.copy()
    changed[queries.rows(np.array([4, 5]))] += 100
    assert np.array_equal(QueryScaler.fit(changed, training).spread, scaler.spread)
    scaled = scaler.transform(x, queries)
    for number in range(6):
        part = scaled[qid == number]
        assert np.abs(part[:, [0, 2]].mean(0)).max() < 1e-5
        assert np.abs(part[:, [0, 2]].std(0) - 1).max() < 0.1
    assert np.array_equal(scaled[:, 1], x[:, 1])
    assert np.array_equal(QueryScaler.from_state(scaler.state()).spread, scaler.spread)


def test_scaling_does_not_depend_on_other_queries_or_the_order_of_rows():
    x = np.random.default_rng(1).normal(size=(30, 2)).astype(np.float32)
    qid = np.repeat([3, 1, 2], 10)
    scaler = QueryScaler.fit(x, group_queries(qid))
    whole = scaler.transform(x, group_queries(qid))
    alone = scaler.transform(x[:10], group_queries(qid[:10]))
    assert np.allclose(whole[:10], alone)
    order = np.random.default_rng(2).permutation(30)
    assert np.allclose(scaler.transform(x[order], group_queries(qid[order])), whole[order])


def test_scaling_refuses_sparse_tables():
    from scipy import sparse

    with pytest.raises(ValueError, match="query_scale='none'"):
        QueryScaler.fit(sparse.eye(3, format="csr"), group_queries([1, 1, 2]))
