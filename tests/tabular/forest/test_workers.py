"""Processes that fit() starts itself: the same model, and errors that reach the user."""

import errno
import multiprocessing
import os
import signal

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from sklearn.datasets import make_classification, make_regression

import nrs
from nrs import NRSClassifier, NRSRegressor
from nrs._util import atomic
from nrs._util.launch import launch
from nrs.datasets.table_file_errors import TableFileError
from nrs.tabular.forest.workers import WorkerError
from nrs.training import Callback, DivergenceError

TINY = {"preset": "fast", "n_mul": 2, "hidden": 16, "random_state": 0, "verbose": 0}


@pytest.fixture
def parts(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(3):
        x = rng.normal(size=(240, 7)).astype(np.float32)
        text = rng.choice(["north", "south", None], 240)
        y = np.where(x[:, 0] + (text == "south") > 0.5, "yes", "no")
        when = np.datetime64("2024-01-01") + rng.integers(0, 400, 240)
        columns = {f"x{k}": x[:, k] for k in range(7)} | {"where": text, "when": when, "y": y}
        path = folder / f"part-{number}.parquet"
        parquet.write_table(pyarrow.table(columns), path, row_group_size=80)
    return folder


def test_workers_help_a_fit(tmp_path):
    X, y = make_regression(150, 8, random_state=0)
    seen = []

    class Watch(Callback):
        def on_epoch_end(self, state):
            seen.append(state.epoch)

    def closest(truth, predicted):
        return -float(np.abs(truth - predicted).min())

    arguments = TINY | {"epochs": 4, "metric": closest, "callbacks": [Watch()]}
    helped = NRSRegressor(
        n_workers=2, divide="members", checkpoint=tmp_path / "c", **arguments
    ).fit(X, y)
    assert seen == [0, 1, 2, 3]
    assert len(list((tmp_path / "c").glob("part-*-of-2/checkpoint-*"))) == 4
    alone = NRSRegressor(**arguments).fit(X, y)
    np.testing.assert_array_equal(helped.predict(X), alone.predict(X))
    helped.save(tmp_path / "model.safetensors")
    again = NRSRegressor.load(tmp_path / "model.safetensors")
    assert again.n_workers == 1
    np.testing.assert_array_equal(again.predict(X), alone.predict(X))


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("divide", ["members", "rows"])
def test_workers_know_the_time_limit(divide):
    # Columns of few values, and rows enough to ask whether they are codes: with less than a minute
    # nobody asks. All processes must agree on that, and on the learning rate.
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(2000, 40)).astype(float)
    y = (X[:, 0] == 3).astype(int)
    settings = {"epochs": 20, "n_mul": 1, "hidden": 8, "random_state": 0, "verbose": 0}
    model = NRSClassifier(n_workers=2, divide=divide, time_limit=2.0, **settings).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.usefixtures("forked_workers")
def test_workers_go_on_with_a_metric_that_only_the_first_process_knows(tmp_path):
    X, y = make_classification(200, 6, random_state=0)

    def hits(truth, predicted):
        return float((truth == predicted).mean())

    def fit():
        arguments = TINY | {"epochs": 2, "metric": hits, "checkpoint": tmp_path}
        return NRSClassifier(n_workers=2, divide="rows", **arguments).fit(X, y)

    assert fit().history_ == fit().history_


def test_errors_of_workers_reach_the_user(tmp_path, monkeypatch):
    X, y = make_classification(150, 8, random_state=0)
    model = NRSClassifier(n_workers=2, divide="rows", epochs=400, **TINY)
    monkeypatch.setattr(
        "nrs.tabular.forest.workers.launch",
        lambda start, *given, **named: launch("raise SystemExit(3)", *given, **named),
    )
    with pytest.raises(WorkerError, match="worker 1 ended with code 3"):
        model.fit(X, y)
    monkeypatch.undo()

    class Kill(Callback):
        def on_epoch_begin(self, state):
            (worker,) = _children()
            os.kill(worker, signal.SIGKILL)

    with pytest.raises(WorkerError, match="killed by signal 9"):
        model.set_params(callbacks=[Kill()]).fit(X, y)
    assert not _children()


@pytest.mark.usefixtures("forked_workers")
def test_an_error_of_the_first_process_is_its_own():
    X, y = make_classification(150, 8, random_state=0)

    class Fail(Callback):
        def on_epoch_begin(self, state):
            assert len(multiprocessing.active_children()) == 1
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        NRSClassifier(n_workers=2, callbacks=[Fail()], epochs=2, **TINY).fit(X, y)
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("forked_workers")
def test_divergence_in_a_worker_is_divergence():
    X, y = make_regression(150, 8, random_state=0)
    with pytest.raises(DivergenceError, match="Lower lr"):
        NRSRegressor(n_workers=2, lr=1e30, epochs=4, **TINY).fit(X, y)


# Workers that read a table in files.


@pytest.mark.usefixtures("forked_workers")
def test_members_of_workers_that_read_files_are_those_of_one_process(parts):
    table = nrs.Table(parts, "y")
    alone = NRSClassifier(class_weight="balanced", epochs=3, **TINY).fit(table)
    helped = NRSClassifier(class_weight="balanced", n_workers=2, divide="members", epochs=3, **TINY)
    helped.fit(table)
    np.testing.assert_array_equal(alone.predict_proba(table), helped.predict_proba(table))
    assert alone.oob_score_ == helped.oob_score_


@pytest.mark.usefixtures("forked_workers")
def test_more_processes_than_row_groups_are_refused(parts):
    one = parts / "part-0.parquet"
    parquet.write_table(parquet.read_table(one), one)
    with pytest.raises(ValueError, match="1 row groups for 2 processes"):
        NRSClassifier(n_workers=2, divide="rows", epochs=3, **TINY).fit(nrs.Table(one, "y"))


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_faults_end_with_their_reason_and_leave_the_checkpoint_intact(parts, tmp_path, monkeypatch):
    table = nrs.Table(parts, "y")
    arguments = TINY | {"epochs": 6}
    # Members are divided, and so the bits are those of one process.
    unbroken = NRSClassifier(**arguments).fit(table)
    model = NRSClassifier(n_workers=2, checkpoint=tmp_path / "run", **arguments)
    synced, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        # A file and its folder an epoch.
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match=r"epoch 2 could not be written .*make room"):
        model.fit(table)
    monkeypatch.setattr(atomic.os, "fsync", synced)
    resumed = model.fit(table)
    np.testing.assert_array_equal(resumed.predict_proba(table), unbroken.predict_proba(table))
    # A part that is cut off after the table was opened.
    path = parts / "part-2.parquet"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(TableFileError, match=r"part-2\.parquet"):
        NRSClassifier(n_workers=2, **arguments).fit(table)


def _children():
    """Worker processes of this one that are alive."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{entry}/cmdline") as file:
                command = file.read()
        except (OSError, ValueError):
            continue
        if (
            int(fields[1]) == os.getpid()
            and fields[0] != "Z"
            and "nrs.tabular.forest.workers" in command
        ):
            found.append(int(entry))
    return found
