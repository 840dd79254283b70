"""Batches of a table in files: every row once a pass, shuffled, ahead of their use, on any rank."""

import threading
from collections import Counter

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

import nrs
from nrs.datasets.table_file_errors import TableFileError
from nrs.tabular.forest.folds import Folds
from nrs.tabular.rows.stream import ShuffleBuffer, StreamedBatches

N = 1000


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    numbers = np.arange(N)
    rows = pyarrow.table({"x": numbers.astype(np.float32), "y": numbers})
    for k in range(4):
        parquet.write_table(rows.slice(250 * k, 250), folder / f"{k}.parquet", row_group_size=60)
    return nrs.Table(folder, "y")


def _encode(batch, places):
    x = torch.from_numpy(batch.column("x").to_numpy().copy())[:, None]
    y = torch.from_numpy(batch.column("y").to_numpy().copy())
    return x, y, torch.from_numpy(Folds(4, seed=0).of(places))


def _source(table, batch_size=32, **options):
    return StreamedBatches(table, _encode, N, 1, batch_size, **options)


def _draw(source, seed=0):
    return list(source(0, torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("buffer_rows", [40, 300, 5000])
@pytest.mark.parametrize("batch_size", [32, 37, 111, 999])
def test_a_pass_gives_every_row_once(table, buffer_rows, batch_size):
    source = _source(table, batch_size, passes=2, buffer_rows=buffer_rows)
    batches = _draw(source)
    assert len(batches) == len(source)
    half = len(batches) // 2
    for part in (batches[:half], batches[half:]):
        assert sorted(torch.cat([y for _, y, _, _ in part]).tolist()) == list(range(N))
        sizes = [len(y) for _, y, _, _ in part]
        assert set(sizes[:-1]) <= {batch_size}
        assert 1 < sizes[-1] <= batch_size + 1
    for x, y, weights, folds in batches:
        assert torch.equal(x[:, 0].long(), y)
        assert weights is None
        assert len(folds) == len(y)


@pytest.mark.parametrize("buffer_rows", [300, 5000])
def test_the_generator_decides_the_order(table, buffer_rows):
    first, again, other = (
        torch.cat([y for _, y, _, _ in _draw(_source(table, buffer_rows=buffer_rows), seed)])
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    # Rows of all files are among the first hundred.
    assert set((first[:100] // 250).tolist()) == {0, 1, 2, 3}


def test_a_row_keeps_its_fold(table):
    folds = [
        {
            int(k): int(f)
            for _, y, _, fold in _draw(source, seed)
            for k, f in zip(y, fold, strict=True)
        }
        for seed, source in enumerate((_source(table), _source(table, buffer_rows=100)))
    ]
    assert folds[0] == folds[1]
    assert set(folds[0].values()) == {0, 1, 2, 3}


@pytest.mark.parametrize("buffer_rows", [60, 5000])
@pytest.mark.parametrize("size", [2, 3])
def test_processes_divide_the_row_groups_and_give_equally_many_batches(table, size, buffer_rows):
    sources = [
        _source(table, 48, shard=(rank, size), buffer_rows=buffer_rows, passes=2)
        for rank in range(size)
    ]
    drawn = [_draw(source) for source in sources]
    assert {len(batches) for batches in drawn} == {2 * (N // (48 // size * size))}
    assert {len(y) for batches in drawn for _, y, _, _ in batches} == {48 // size}
    half = len(drawn[0]) // 2
    seen = [Counter(int(k) for _, y, _, _ in one[:half] for k in y) for one in drawn]
    # No row group is read by two of them in a pass.
    groups = [{(k // 250, k % 250 // 60) for k in one} for one in seen]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert sum(map(len, seen)) > 0.8 * N


@pytest.mark.parametrize("buffer_rows", [40, 300, 600])
def test_a_process_gives_all_of_its_rows_before_any_comes_again(tmp_path, buffer_rows):
    path = tmp_path / "rows.parquet"
    rows = pyarrow.table({"x": np.arange(N, dtype=np.float32), "y": np.arange(N)})
    parquet.write_table(rows, path, row_group_size=50)
    seen = Counter()
    for rank in range(2):
        source = _source(nrs.Table(path, "y"), 20, shard=(rank, 2), buffer_rows=buffer_rows)
        seen.update(int(k) for _, y, _, _ in _draw(source) for k in y)
    assert seen == Counter(range(N))


def test_more_processes_than_row_groups(table):
    with pytest.raises(ValueError, match="20 row groups for 21 processes"):
        _source(table, shard=(0, 21))


def test_what_goes_wrong_in_the_thread_is_raised_where_batches_are_used(table):
    def fails(batch, places):
        raise ValueError("column 'x' is odd")

    source = StreamedBatches(table, fails, N, 1, 32)
    with pytest.raises(TableFileError, match=r"0.parquet, rows from \d+ on: column 'x' is odd"):
        _draw(source)
    with pytest.raises(ValueError, match="5 are missing"):
        _draw(StreamedBatches(table, _encode, N + 5, 1, 32, buffer_rows=100))
    assert not _readers()


def test_a_pass_that_is_left_ends_its_thread(table):
    batches = _source(table, buffer_rows=50, passes=100)(0, torch.Generator())
    next(batches)
    assert _readers()
    batches.close()
    assert not _readers()


def _readers():
    return [thread for thread in threading.enumerate() if thread.name == "nrs-read-ahead"]


def test_waiting_is_counted(table):
    source = _source(table, buffer_rows=100)
    _draw(source)
    assert 0 < source.waited <= source.seconds
    assert 0 < source.wait_share <= 1


def test_batches_go_to_the_device(table):
    x, y, _, folds = _draw(_source(table, device="meta"))[0]
    assert x.device.type == y.device.type == folds.device.type == "meta"


def test_the_buffer_gives_back_what_it_got():
    buffer = ShuffleBuffer(10, np.random.default_rng(0))
    blocks = []
    for part in torch.arange(57).split(25):
        blocks += buffer.exchange((part, -part))
    blocks += buffer.rest(4)
    a, b = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    assert sorted(a.tolist()) == list(range(57))
    assert torch.equal(a, -b)
    assert a.tolist() != list(range(57))
