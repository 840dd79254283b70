"""A fit that was killed, or found the disk full, resumes and gives a bit-identical model."""

import errno
import os
import random
import signal
import time

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from sklearn.datasets import load_digits

import nrs
from nrs import NRSClassifier
from nrs._util import atomic
from nrs.tabular.rows import stream
from nrs.training import Callback
from nrs.training.checkpoint import CheckpointError
from tests.forked import Forked
from tests.tabular.mixed import mixed_table
from tests.tabular.table_files import write_parts

FIT = """
import sys, time
from sklearn.datasets import load_digits
from nrs import NRSClassifier
from nrs.training import Callback

class Slow(Callback):
    def on_epoch_end(self, state):
        print(state.epoch, flush=True)
        time.sleep(0.05)

X, y = load_digits(return_X_y=True)
model = NRSClassifier(epochs=12, n_mul=1, random_state=0)
model.set_params(checkpoint=sys.argv[1], callbacks=[Slow()])
model.fit(X[:600], y[:600]).save(sys.argv[2])
"""
SHORT = {"preset": "fast", "epochs": 4, "random_state": 0, "verbose": 0, "n_mul": 1}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    frame, target = mixed_table(1200)
    frame["target"] = np.where(target, "yes", "no")
    folder = tmp_path_factory.mktemp("table") / "rows"
    write_parts(frame, folder)
    return nrs.Table(folder, "target")


def _start(folder):
    return Forked(FIT, folder / "checkpoint", folder / "model")


@pytest.mark.slow
def test_killed_at_three_random_points(tmp_path):
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    unbroken.mkdir(), broken.mkdir()
    process = _start(unbroken)
    epochs = [int(line) for line in process.rest()]
    assert process.returncode == 0
    assert len(epochs) >= 10
    chance = random.Random(time.time_ns())
    seen = []
    for kill in range(3):
        process = _start(broken)
        for line in process.stdout:
            seen.append(int(line))
            if seen[-1] >= (kill + 1) * 3:
                break
        time.sleep(chance.uniform(0, 0.15))
        seen += [int(line) for line in process.kill()]
        assert process.returncode == -signal.SIGKILL
    process = _start(broken)
    seen += [int(line) for line in process.rest()]
    assert process.returncode == 0
    assert len(seen) < 2 * len(epochs), "a resumed fit starts where it was"
    first, second = (NRSClassifier.load(folder / "model") for folder in (unbroken, broken))
    for key, value in first.network_.state_dict().items():
        assert np.array_equal(value.numpy(), second.network_.state_dict()[key].numpy()), key
    assert first.history_ == second.history_


def test_a_checkpoint_of_other_data_or_settings_is_refused(tmp_path):
    X, y = load_digits(return_X_y=True)
    arguments = {"epochs": 2, "random_state": 0, "checkpoint": tmp_path, "n_mul": 1}
    NRSClassifier(**arguments).fit(X[:200], y[:200])
    with pytest.raises(CheckpointError, match="data"):
        NRSClassifier(**arguments).fit(X[1:201], y[1:201])
    with pytest.raises(CheckpointError, match="lr"):
        NRSClassifier(lr=1e-3, **arguments).fit(X[:200], y[:200])


@pytest.mark.parametrize("preset", ["fast", "single"])
def test_a_checkpoint_of_other_held_out_rows_is_refused(tmp_path, preset):
    X, y = load_digits(return_X_y=True)
    arguments = {"epochs": 2, "random_state": 0, "checkpoint": tmp_path, "preset": preset}
    held_out = X[200:300], y[200:300]
    first = NRSClassifier(**arguments).fit(X[:200], y[:200], eval_set=held_out)
    again = NRSClassifier(**arguments).fit(X[:200], y[:200], eval_set=held_out)
    assert first.history_ == again.history_
    with pytest.raises(CheckpointError, match="held_out"):
        NRSClassifier(**arguments).fit(X[:200], y[:200], eval_set=(X[300:400], y[300:400]))
    with pytest.raises(CheckpointError, match="held_out"):
        NRSClassifier(**arguments).fit(X[:200], y[:200])


def test_a_checkpoint_needs_a_seed(tmp_path):
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match="integer random_state"):
        NRSClassifier(checkpoint=tmp_path / "c").fit(X[:100], y[:100])
    assert not (tmp_path / "c").exists()


# Of tables in files.


class _KilledError(Exception):
    pass


class _Kill(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_begin(self, state):
        if state.epoch == self.epoch:
            raise _KilledError


def _same(one, other):
    states = one.network_.state_dict(), other.network_.state_dict()
    return all(np.array_equal(states[0][k].numpy(), states[1][k].numpy()) for k in states[0])


def test_a_resumed_fit_is_bit_identical(labelled, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "BUFFER_CELLS", 20_000)
    unbroken = NRSClassifier(**SHORT).fit(labelled)
    with pytest.raises(_KilledError):
        NRSClassifier(**SHORT, checkpoint=tmp_path, callbacks=[_Kill(2)]).fit(labelled)
    resumed = NRSClassifier(**SHORT, checkpoint=tmp_path).fit(labelled)
    assert _same(unbroken, resumed)
    assert unbroken.history_ == resumed.history_
    other = labelled.drop(labelled.columns[-1:])
    with pytest.raises(CheckpointError, match="data"):
        NRSClassifier(**SHORT, checkpoint=tmp_path).fit(other)


def test_a_checkpoint_of_other_labels_or_class_weights_is_refused(tmp_path):
    x = np.random.default_rng(0).normal(size=300)
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": x, "y": x > 0}), path)
    model = NRSClassifier(**SHORT, checkpoint=tmp_path / "checkpoint")
    model.fit(nrs.Table(path, "y"))
    with pytest.raises(CheckpointError, match="data"):
        NRSClassifier(
            **SHORT, checkpoint=tmp_path / "checkpoint", class_weight={False: 1, True: 9}
        ).fit(nrs.Table(path, "y"))
    size = path.stat().st_size
    parquet.write_table(pyarrow.table({"x": x, "y": x < 0}), path)
    assert path.stat().st_size == size
    with pytest.raises(CheckpointError, match="data"):
        model.fit(nrs.Table(path, "y"))


def test_a_full_disk_leaves_the_last_checkpoint_and_model(labelled, tmp_path, monkeypatch):
    model = NRSClassifier(**SHORT, checkpoint=tmp_path / "checkpoint")
    synced = os.fsync
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        # A file and its folder are synced for every checkpoint: the third finds no room.
        if len(calls) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match=r"epoch 2 could not be written.*make room and run again"):
        model.fit(labelled)
    monkeypatch.setattr(atomic.os, "fsync", synced)
    assert not list((tmp_path / "checkpoint").glob("*.tmp-*"))
    assert len(list((tmp_path / "checkpoint").iterdir())) == 2
    model.fit(labelled)
    assert _same(model, NRSClassifier(**SHORT).fit(labelled))

    path = tmp_path / "model.safetensors"
    model.save(path)
    before = path.read_bytes()

    def no_room(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", no_room)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
