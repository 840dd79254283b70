import errno
import os
import random
import signal

import numpy as np
import pytest
import torch
from torch import nn

from nrs._util.atomic import temporary_prefix
from nrs.training import Callback, Checkpoint, CheckpointError, TrainSettings, files, train
from nrs.training.loop import copy_weights
from tests.forked import Forked

torch.set_num_threads(1)

SETTINGS = {
    "adamw": {"optimizer": "adamw", "ema": 0.9, "schedule": "cosine", "warmup": 0.1},
    "cycles": {"schedule": "cosine", "epochs": 2, "cycles": 3},
    "adam": {"optimizer": "adam", "clip_norm": 0.5, "patience": 30},
    "sgd": {"optimizer": "sgd", "schedule": "step", "step_every": 2},
    "sgd without momentum": {"optimizer": "sgd", "momentum": 0.0},
}
EVALUATED = ("adamw", "adam", "cycles")


class Killed(BaseException):
    """Stands for a process that ends here."""


class KillAt(Callback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, state):
        if state.step == self.step:
            raise Killed


def fit(
    directory,
    name="adamw",
    callbacks=(),
    fingerprint=None,
    seed=0,
    width=4,
    monitor="score",
    extend=False,
    **changes,
):
    """A run whose dropout, order, batch noise and scores all depend on what must be saved."""
    torch.manual_seed(5)
    module = nn.Sequential(
        nn.Linear(3, width), nn.BatchNorm1d(width), nn.Dropout(0.3), nn.Linear(width, 1)
    )
    x = torch.randn(40, 3)

    def batches(epoch, generator):
        for rows in torch.randperm(40, generator=generator).split(10):
            yield x[rows] + 0.1 * torch.randn(10, 3, generator=generator)

    def step(module, x):
        return nn.functional.mse_loss(module(x), x.sum(1, keepdim=True))

    def evaluate(module):
        error = nn.functional.mse_loss(module(x), x.sum(1, keepdim=True)).item()
        # The best epoch is neither the first nor the last.
        return {"score": -abs(error - 0.5), "error": error, "val_loss": error / 99}

    generator = torch.Generator().manual_seed(seed)
    settings = TrainSettings(**{"epochs": 6, "lr": 0.03, **SETTINGS[name], **changes})
    history = train(
        module,
        batches,
        step,
        settings,
        generator=generator,
        evaluate=evaluate if name in EVALUATED else None,
        monitor=monitor,
        callbacks=callbacks,
        checkpoint=Checkpoint(directory, fingerprint, extend=extend) if directory else None,
        steps_per_epoch=4,
    )
    return copy_weights(module), history, generator.get_state()


def assert_same(one, two):
    assert one[0].keys() == two[0].keys()
    for name in one[0]:
        assert torch.equal(one[0][name], two[0][name]), name
    assert one[1] == two[1]
    assert torch.equal(one[2], two[2])


@pytest.mark.parametrize("name", SETTINGS)
def test_killed_and_resumed_is_the_same_bits(tmp_path, name):
    unbroken = fit(None, name)
    for step in (2, 4, 5, 11, 19):
        with pytest.raises(Killed):
            fit(tmp_path, name, callbacks=[KillAt(step)])
    assert_same(fit(tmp_path, name), unbroken)


def test_the_best_epoch_of_the_example_lies_in_the_middle():
    history = fit(None)[1]
    assert 0 < history.best_epoch < len(history) - 1


def test_a_finished_run_returns_at_once(tmp_path):
    class Refuse(Callback):
        def on_train_begin(self, state):
            raise AssertionError("trained again")

    first = fit(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert_same(fit(tmp_path, callbacks=[Refuse()]), first)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_that_stopped_early_is_finished(tmp_path):
    class Stop(Callback):
        def on_epoch_end(self, state):
            state.stop = state.epoch == 2

    first = fit(tmp_path, callbacks=[Stop()])
    assert len(first[1]) == 3
    assert first[1].stopped_early
    assert_same(fit(tmp_path), first)


def test_callbacks_of_a_resumed_run_see_where_it_is(tmp_path):
    seen = []

    class See(Callback):
        def on_train_begin(self, state):
            seen.append((state.epoch, state.step, len(state.history)))

    with pytest.raises(Killed):
        fit(tmp_path, callbacks=[KillAt(10)])
    fit(tmp_path, callbacks=[See()])
    assert seen == [(2, 8, 2)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 0.5}, "settings.lr is 0.03 there, 0.5 here"),
        ({"epochs": 7}, "settings.epochs is 6 there, 7 here"),
        ({"seed": 1}, "generator is '"),
        ({"monitor": None}, "monitor is 'score' there, None here"),
        ({"width": 5}, r"torch.float32 \[4, 3\]' there, 'torch.float32 \[5, 3\]' here"),
        ({"fingerprint": {"data": "b", "rows": 3}}, "fingerprint.data is 'a' there, 'b' here"),
        ({"fingerprint": None}, "fingerprint.data is 'a' there, 'absent' here"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, changes, message):
    with pytest.raises(Killed):
        fit(tmp_path, fingerprint={"data": "a", "rows": 3}, callbacks=[KillAt(6)])
    with pytest.raises(CheckpointError, match=message) as caught:
        fit(tmp_path, **{"fingerprint": {"data": "a", "rows": 3}, **changes})
    assert "belongs to another run" in str(caught.value)
    assert "name another directory" in str(caught.value)


def test_a_fingerprint_is_compared_as_json(tmp_path):
    with pytest.raises(Killed):
        fit(tmp_path, fingerprint={"shape": (3, np.int64(4))}, callbacks=[KillAt(6)])
    assert_same(fit(tmp_path, fingerprint={"shape": [3, 4]}), fit(None))
    with pytest.raises(TypeError, match="fingerprint must hold JSON values"):
        fit(tmp_path / "other", fingerprint={"shape": object()})


def newest_and_before(directory):
    paths = sorted(directory.iterdir(), key=lambda p: files.read_model(p).header["epoch"])
    return paths[::-1]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "delete"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, caplog, damage):
    with pytest.raises(Killed):
        fit(tmp_path, callbacks=[KillAt(18)])
    newest, _ = newest_and_before(tmp_path)
    content = bytearray(newest.read_bytes())
    if damage == "delete":
        newest.unlink()
    else:
        content[-1] ^= 1
        newest.write_bytes({"truncate": content[:-9], "flip": content, "empty": b""}[damage])
    assert_same(fit(tmp_path), fit(None))
    assert ("going on from the checkpoint before" in caplog.text) == (damage != "delete")


def test_two_damaged_checkpoints_are_an_error(tmp_path):
    fit(tmp_path)
    for path in list(tmp_path.iterdir()):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="Delete the directory"):
        fit(tmp_path)


def test_the_leftover_of_a_killed_write_is_ignored_and_removed(tmp_path):
    with pytest.raises(Killed):
        fit(tmp_path, callbacks=[KillAt(6)])
    leftover = tmp_path / f"{temporary_prefix('checkpoint-1.safetensors')}0123"
    leftover.write_bytes(b"half a checkp")
    mine = tmp_path / "notes.txt"
    mine.write_text("not a checkpoint")
    assert_same(fit(tmp_path), fit(None))
    assert not leftover.exists()
    assert mine.exists()


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    real, calls = os.replace, []

    def full_at_the_third(*args):
        calls.append(args)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*args)

    monkeypatch.setattr(os, "replace", full_at_the_third)
    with pytest.raises(OSError, match=r"epoch 2 could not.*No space left.*is intact") as caught:
        fit(tmp_path)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 2
    assert files.read_model(newest_and_before(tmp_path)[0]).header["epoch"] == 1
    assert_same(fit(tmp_path), fit(None))


def test_checkpoints_are_plain_safetensors(tmp_path):
    fit(tmp_path)
    from safetensors.torch import load_file

    assert len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.iterdir():
        parts = {name.split("/")[0] for name in load_file(path)}
        assert parts == {"module", "average", "best", "optimizer", "random"}


CHILD = """
import sys, time
import torch
from safetensors.torch import save_file
from torch import nn
from nrs.training import Callback, Checkpoint, TrainSettings, train
from nrs.training.loop import copy_weights

torch.set_num_threads(1)
torch.manual_seed(3)
module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))
x = torch.randn(60, 4)

class Tell(Callback):
    def on_step_end(self, state):
        sys.stdout.write(f"{state.step}\\n")
        sys.stdout.flush()
        time.sleep(0.001)

def batches(epoch, generator):
    return torch.randperm(60, generator=generator).split(20)

def loss(module, x):
    return nn.functional.mse_loss(module(x), x.sum(1, keepdim=True))

train(
    module,
    batches,
    lambda module, rows: loss(module, x[rows]),
    TrainSettings(epochs=120, ema=0.95, schedule="cosine", clip_norm=1.0, lr=0.02),
    generator=torch.Generator().manual_seed(7),
    evaluate=lambda module: {"score": -loss(module, x).item()},
    callbacks=[Tell()],
    checkpoint=Checkpoint(sys.argv[1], {"data": "x"}),
)
save_file(copy_weights(module), sys.argv[2])
"""


def test_a_process_killed_three_times_ends_with_the_same_bits(tmp_path):
    def start(directory, result):
        return Forked(CHILD, directory, result)

    unbroken = start(tmp_path / "unbroken", tmp_path / "unbroken.safetensors")
    killed = tmp_path / "killed.safetensors"
    # Three steps an epoch, 360 in all: each process gets through a part of what is left.
    points = [random.randint(1, 50) for _ in range(3)]
    reached = []
    for point in points:
        process = start(tmp_path / "killed", killed)
        for _ in range(point):
            line = process.stdout.readline()
        process.kill()
        assert process.returncode == -signal.SIGKILL, points
        reached.append(int(line))
    last = start(tmp_path / "killed", killed)
    first_line = last.rest()[0]
    assert last.returncode == 0, points
    # It went on where the third was killed rather than from the beginning.
    assert int(first_line) >= reached[-1] - 5, (points, reached)
    unbroken.rest()
    assert unbroken.returncode == 0
    assert killed.read_bytes() == (tmp_path / "unbroken.safetensors").read_bytes(), points


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_path_that_is_a_file_is_refused_in_words(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match=r"must be a folder; .* is a file. Choose another"):
        fit(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_finished_run_resumes_for_more_epochs(tmp_path):
    changes = {"name": "sgd without momentum", "epochs": 3}
    fit(tmp_path, **changes)
    more = {**changes, "epochs": 5}
    with pytest.raises(CheckpointError, match=r"epochs is 3 there, 5 here"):
        fit(tmp_path, **more)
    # At a constant rate it is the run that had five epochs from the beginning.
    assert_same(fit(tmp_path, extend=True, **more), fit(None, **more))
    assert_same(fit(tmp_path, extend=True, **more), fit(None, **more))
    with pytest.raises(CheckpointError, match=r"must be more than .* got 2, and the"):
        fit(tmp_path, extend=True, **{**changes, "epochs": 2})


def test_half_precision_resumes_with_its_scale(tmp_path):
    with pytest.raises(Killed):
        fit(tmp_path, callbacks=[KillAt(9)], precision="fp16")
    assert_same(fit(tmp_path, precision="fp16"), fit(None, precision="fp16"))
