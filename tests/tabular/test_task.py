"""A task that is written and read again is the same task, wherever its rows are."""

import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import scipy.sparse as sp
import torch
from pyarrow import fs, parquet

import nrs
from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.rows.table import TableSource
from nrs.tabular.run import Run
from nrs.tabular.task import Task
from nrs.training.processes import ALONE

CPU = torch.device("cpu")
SETTINGS = {"preset": "fast", "n_mul": 2, "hidden": 16, "epochs": 2, "random_state": 0}
N = 90
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)
SPARSE = sp.random(N, 5, 0.3, "csr", dtype=np.float32, random_state=0)
LABELS = np.where(X[:, 0] > 0, "yes", "no")
WEIGHTS = RNG.integers(1, 4, N).astype(float)
GROUPS = np.array([f"g{k}" for k in RNG.integers(0, 12, N)])


def _task(model, X, y=None, weights=None, groups=None, eval_set=None):
    """What fit() hands to its workers."""
    source = model.read_source(X, y, weights, groups)
    recipe = model.resolve(source.n_rows, source.n_columns)
    folds = source.split(recipe, 5, spare=False)
    target = model.make_target(source)
    encoder = source.encoder(None, recipe.scale, target, folds)
    rows, held_out = source.rows(encoder, target, folds, CPU)
    if eval_set is not None:
        held_out = model.read_held_out(eval_set, encoder, target, CPU)
    run = Run(
        seed=5, device=CPU, begin=0.0, n_jobs=2, divide="rows", precision="bf16",
        checkpoint="folder", time_limit=60.0, verbose=1,
    )  # fmt: skip
    return Task(rows, held_out, encoder, target, recipe, folds, run)


def _write(folder, names=("a", "b")):
    """The rows in two files, with a column of weights, one of groups and an empty target."""
    order = np.arange(N)
    columns = {f"x{k}": X[:, k] for k in range(3)} | {"text": GROUPS, "weight": WEIGHTS}
    labels = pyarrow.array(LABELS, mask=order == 7)
    rows = pyarrow.table(columns | {"group": GROUPS, "y": labels})
    paths = [folder / f"{name}.parquet" for name in names]
    for k, path in enumerate(paths):
        parquet.write_table(rows.slice(45 * k, 45), path, row_group_size=20)
    return paths


def _tasks(name, folder):
    classify, number = NRSClassifier(**SETTINGS), NRSRegressor(**SETTINGS)
    if name == "dense":
        return _task(classify, X, LABELS)
    if name == "weights, groups and held-out rows":
        balanced = NRSClassifier(class_weight="balanced", **SETTINGS)
        return _task(balanced, X, LABELS, WEIGHTS, GROUPS, eval_set=(X[:9], LABELS[:9]))
    if name == "two outputs":
        return _task(number, X, X[:, :2])
    if name == "sparse":
        return _task(number, SPARSE, X[:, 0], WEIGHTS)
    # Not in the order of their names.
    paths = _write(folder, ("b", "a"))
    if name == "stream":
        return _task(classify, nrs.Table(paths, "y", columns=["x0", "x1", "x2", "text"]))
    table = nrs.Table(paths, "y")
    if name == "stream by columns":
        balanced = NRSClassifier(class_weight={"yes": 1.0, "no": 3.0}, **SETTINGS)
        return _task(balanced, table, None, "weight", "group")
    return _task(classify, table.drop(["group"]), None, WEIGHTS, GROUPS)


NAMES = ["dense", "weights, groups and held-out rows", "two outputs", "sparse"]
STREAMS = ["stream", "stream by columns", "stream by row"]


def _same(one, other):
    return (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize("name", NAMES + STREAMS)
def test_a_task_comes_back(name, tmp_path):
    task = _tasks(name, tmp_path)
    (tmp_path / "task").mkdir()
    task.write(tmp_path / "task")
    again = Task.read(tmp_path / "task")
    for part, there in ((task.rows, again.rows), (task.held_out, again.held_out)):
        assert (part is None) == (there is None)
        if part is None:
            continue
        assert type(part) is type(there)
        assert part.sparse == there.sparse
        for attribute in ("index", "targets", "weights", "folds"):
            assert _same(getattr(part, attribute), getattr(there, attribute)), attribute
        assert part.checksum() == there.checksum()
        for mine, theirs in zip(part.in_order(), there.in_order(), strict=True):
            assert all(map(_same, mine, theirs))
    assert again.encoder.to_state() == task.encoder.to_state()
    assert again.target.state() == task.target.state()
    assert again.recipe == task.recipe
    folds, run = again.folds, again.run
    assert (folds.n_folds, folds.seed) == (task.folds.n_folds, task.folds.seed)
    assert torch.equal(folds.sees(8), task.folds.sees(8))
    kept = ("seed", "device", "n_jobs", "divide", "precision", "checkpoint", "repeatable")
    for setting in (*kept, "time_limit"):
        assert getattr(run, setting) == getattr(task.run, setting)
    # Progress is shown by the first process.
    assert (run.verbose, run.callbacks) == (0, ())


@pytest.mark.parametrize("name", STREAMS)
def test_the_batches_of_a_stream_come_back(name, tmp_path):
    task = _tasks(name, tmp_path)
    (tmp_path / "task").mkdir()
    task.write(tmp_path / "task")
    rows = task.rows
    drawn = [
        list(one.batches(16, 2, ALONE)(0, torch.Generator().manual_seed(0)))
        for one in (rows, Task.read(tmp_path / "task").rows)
    ]
    for mine, theirs in zip(*drawn, strict=True):
        assert all(map(_same, mine, theirs))
    assert np.array_equal(rows.places, Task.read(tmp_path / "task").rows.places)


@pytest.mark.parametrize("X", [X, SPARSE], ids=["dense", "sparse"])
def test_the_encoder_gives_the_same_features(X, tmp_path):
    task = _task(NRSRegressor(**SETTINGS), X, np.arange(N))
    task.write(tmp_path)
    found, expected = (one.encoder.transform(X) for one in (Task.read(tmp_path), task))
    assert type(found) is type(expected)
    assert (found != expected).sum() == 0


def test_a_function_stays_with_the_first_process(tmp_path):
    model = NRSClassifier(metric=lambda truth, predicted: 1.0, **SETTINGS)
    _task(model, X, LABELS).write(tmp_path)
    assert Task.read(tmp_path).recipe.metric == "default"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mappings are read from /proc")
def test_rows_are_mapped_and_nothing_is_pickled(tmp_path):
    _task(NRSClassifier(**SETTINGS), X, LABELS, WEIGHTS).write(tmp_path)
    files = sorted((tmp_path / "rows").iterdir())
    names = ["features", "folds", "index", "score_weights", "targets", "weights"]
    assert [path.stem for path in files] == names
    for path in files:
        np.load(path, allow_pickle=False)
    task = Task.read(tmp_path)
    mapped = Path("/proc/self/maps").read_text()
    assert all(str(path) in mapped for path in files)
    del task


def test_a_filesystem_of_its_own_cannot_be_sent(tmp_path):
    _write(tmp_path)
    handler = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    table = nrs.Table("a.parquet", "y", filesystem=handler)
    task = _task(NRSClassifier(**SETTINGS), table)
    assert isinstance(task.rows.encode.source, TableSource)
    with pytest.raises(ValueError, match="filesystem of its own"):
        task.write(tmp_path)
