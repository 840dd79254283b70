"""Rows in memory and batches of them, dense or sparse."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.rows.memory import Rows, ShuffledBatches, spread_rows


@given(st.integers(2, 200), st.integers(2, 64), st.booleans())
def test_an_epoch_holds_every_row_once_and_no_batch_of_one(n, batch_size, sparse):
    features = np.arange(n, dtype=np.float32)[:, None] + 1
    rows = Rows(sp.csr_matrix(features) if sparse else features, np.arange(n))
    batches = ShuffledBatches(rows, batch_size)
    seen = list(batches(0, torch.Generator().manual_seed(n)))
    assert len(seen) == len(batches)
    assert min(len(x) for x, _, _ in seen) > 1
    assert max(len(x) for x, _, _ in seen) <= batch_size + 1
    everything = torch.cat([y for _, y, _ in seen])
    assert sorted(everything.tolist()) == list(range(n))
    for x, y, _ in seen:
        assert torch.equal(x[:, 0].long() - 1, y)


def test_only_the_rows_of_a_part_are_taken():
    rows = Rows(np.zeros((10, 1), np.float32), np.arange(10), np.ones(10, np.float32), [2, 5, 7])
    assert [y.tolist() for _, y, _ in rows.in_order()] == [[2, 5, 7]]
    wide = Rows(sp.csr_matrix((150, 10**6), dtype=np.float32), np.arange(150))
    assert [len(y) for _, y, _ in wide.in_order()] == [64, 64, 22]


@given(st.integers(1, 3_000_000_000), st.integers(2, 10_000))
def test_spread_rows_run_evenly_from_the_first_to_the_last(n, k):
    rows = spread_rows(n, k)
    assert rows.shape == (k,)
    assert rows.dtype == torch.int64
    assert (rows[0], rows[-1]) == (0, n - 1)
    steps = rows.diff()
    assert steps.min() >= (k <= n)
    assert steps.max() - steps.min() <= 1


def test_spread_rows_stay_within_tables_beyond_the_precision_of_float32():
    rows = spread_rows(3_000_000_000, 10_000)
    assert rows.unique().equal(rows)
    assert (rows[0], rows[-1]) == (0, 2_999_999_999)


@given(st.integers(1, 500))
def test_spread_rows_are_all_rows_if_as_many_are_asked_for(n):
    assert spread_rows(n, n).equal(torch.arange(n))
    assert spread_rows(n, 1).tolist() == [0]
