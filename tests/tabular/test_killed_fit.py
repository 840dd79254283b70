"""A fit killed with SIGKILL and started again ends with the bits of one that never was."""

import random
import signal
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nrs import NRSClassifier
from nrs.training.checkpoint import CheckpointError
from tests.forked import Forked

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
def test_a_checkpoint_judged_by_other_held_out_rows_is_refused(tmp_path, preset):
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
