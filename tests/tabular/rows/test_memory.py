"""Rows in memory and batches of them, dense or sparse."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.tabular.encode.table import read_table
from nrs.tabular.forest.folds import NO_FOLDS
from nrs.tabular.recipe import resolve
from nrs.tabular.rows.memory import MemorySource, Rows, ShuffledBatches, spread_rows
from nrs.training.processes import ALONE, Processes


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


@pytest.mark.parametrize("sparse", [False, True])
def test_a_checksum_knows_every_cell(sparse):
    features = np.arange(1, 9, dtype=np.float32).reshape(4, 2)

    numbers = np.arange(4)

    def rows(x=features, y=numbers, weights=None):
        return Rows(sp.csr_matrix(x) if sparse else x, y, weights)

    other = features.copy()
    other[2, 1] = 0
    ones = np.ones(4, np.float32)
    found = [rows(), rows(other), rows(y=numbers[::-1].copy()), rows(weights=ones)]
    found += [rows(weights=2 * ones), rows(features.astype(np.float64))]
    assert len({one.checksum() for one in found}) == len(found)
    assert rows(features.copy()).checksum() == found[0].checksum()
    # Of the whole table, whichever rows are taken of it.
    assert found[0].subset(torch.tensor([1])).checksum() == found[0].checksum()


@given(st.integers(2, 50), st.integers(1, 60))
def test_some_rows_are_some_of_the_rows(n, most):
    weights, folds = np.arange(n, dtype=np.float32), np.arange(n) % 3
    rows = Rows(np.arange(n, dtype=np.float32)[:, None], np.arange(n), weights, folds=folds)
    part = rows.subset(torch.arange(0, n, 2))
    some = part.some(most)
    assert len(some) == min(most, len(part))
    assert set(some.index.tolist()) <= set(range(0, n, 2))
    x, y, weight, fold = part.sample(most)
    assert np.array_equal(y, some.truth()[0])
    assert np.array_equal(x[:, 0], y)
    assert np.array_equal(weight, y)
    assert np.array_equal(fold, y % 3)


@given(st.integers(2, 40), st.integers(2, 16), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=20)
def test_processes_take_the_rows_of_every_batch_between_them(n, batch_size, passes, size):
    rows = Rows(np.zeros((n, 1), np.float32), np.arange(n), folds=np.arange(n) % 2)
    drawn = [
        list(rows.batches(batch_size, passes, group)(0, torch.Generator().manual_seed(1)))
        for group in (ALONE, *(Processes(rank, size) for rank in range(size)))
    ]
    assert {len(batches) for batches in drawn} == {len(rows.batches(batch_size, passes, ALONE))}
    for (_, whole, _, folds), *parts in zip(*drawn, strict=True):
        assert torch.equal(folds, whole % 2)
        assert sorted(torch.cat([y for _, y, _, _ in parts]).tolist()) == sorted(whole.tolist())


@given(st.integers(20, 90), st.floats(0.1, 0.5), st.integers(0, 99), st.booleans())
@settings(max_examples=20)
def test_held_out_rows_are_no_training_rows(n, fraction, seed, classes):
    labels = np.arange(n) % 2 if classes else np.arange(n) / 2
    source = MemorySource(read_table(np.arange(n)[:, None]), labels, classes=classes)
    recipe = resolve("single", {"validation_fraction": fraction}, n, 1)
    assert source.split(recipe, seed, spare=False).n_folds == 1
    assert source.training is source.held_out is None
    assert source.split(recipe, seed, spare=True).n_folds == 1
    both = np.concatenate([source.training, source.held_out])
    assert np.array_equal(np.sort(both), np.arange(n))
    assert len(source.held_out) == round(n * fraction)
    if classes:
        counts = np.bincount(labels[source.held_out], minlength=2)
        assert abs(counts[0] - counts[1]) <= 2
    target = source.regression()
    encoder = source.encoder(None, "standard", target, NO_FOLDS)
    rows, held_out = source.rows(encoder, target, NO_FOLDS, torch.device("cpu"))
    assert np.array_equal(rows.index, source.training)
    assert np.array_equal(held_out.index, source.held_out)
    # What is learned is learned from training rows alone.
    np.testing.assert_allclose(target.mean, labels[source.training].mean())
    np.testing.assert_allclose(encoder.numbers.center, source.training.mean())


def test_too_few_rows_to_hold_out():
    source = MemorySource(read_table(np.zeros((8, 1))), np.arange(8))
    with pytest.raises(ValueError, match=r"validation_fraction=0\.1 of 8 rows leaves too few"):
        source.split(resolve("single", {"validation_fraction": 0.1}, 8, 1), 0, spare=True)
