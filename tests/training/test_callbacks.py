import copy
import io
import logging
import pickle
import sys
import time

import pytest
import torch
from torch import nn

from nrs.training import Callback, Progress, TensorBoard, TimeLimit, TrainSettings, train

torch.set_num_threads(1)


def run(callbacks, epochs=3, step_seconds=0.0, **settings):
    def batches(epoch, generator):
        return torch.randn(8, 2, generator=generator).split(4)

    def step(module, x):
        time.sleep(step_seconds)
        return module(x).square().mean()

    torch.manual_seed(0)
    return train(
        nn.Linear(2, 1),
        batches,
        step,
        TrainSettings(epochs=epochs, **settings),
        generator=torch.Generator().manual_seed(0),
        evaluate=lambda module: {"score": float(module.weight.sum())},
        callbacks=callbacks,
    )


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Recorder(Callback):
    def __init__(self):
        self.calls = []

    def on_train_begin(self, state):
        self.calls.append("train")

    def on_epoch_begin(self, state):
        assert state.module.training
        self.calls.append(f"epoch {state.epoch}")

    def on_step_end(self, state):
        assert state.loss.ndim == 0
        assert not state.loss.requires_grad
        self.calls.append(f"step {state.step_in_epoch}/{state.steps_per_epoch}")

    def on_epoch_end(self, state):
        assert len(state.history) == state.epoch + 1
        assert state.metrics["score"] == state.history["score"][-1]
        self.calls.append(f"epoch {state.epoch} end")

    def on_train_end(self, state):
        self.calls.append("end")


def test_calls_come_in_order():
    recorder = Recorder()
    run([recorder], epochs=2)
    epochs = [[f"epoch {e}", "step 1/2", "step 2/2", f"epoch {e} end"] for e in range(2)]
    assert recorder.calls == ["train", *epochs[0], *epochs[1], "end"]


def test_a_callback_can_stop_training():
    class Stop(Callback):
        def on_epoch_end(self, state):
            state.stop = state.epoch == 1

    history = run([Stop()], epochs=9)
    assert len(history) == 2
    assert history.stopped_early


def test_train_end_is_called_after_a_failure_but_not_for_those_never_begun():
    class Fail(Callback):
        def on_train_begin(self, state):
            raise KeyError("broken")

    before, after = Recorder(), Recorder()
    with pytest.raises(KeyError, match="broken"):
        run([before, Fail(), after])
    assert before.calls == ["train", "end"]
    assert after.calls == []


def test_something_else_than_a_callback_is_refused():
    with pytest.raises(ValueError, match=r"Callback; got <function"):
        run([test_calls_come_in_order])


def test_callbacks_do_not_change_the_result(tmp_path):
    plain = run([])
    watched = run([Recorder(), Progress(2), TensorBoard(tmp_path), TimeLimit(1000)])
    assert watched == plain


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 0), (2, 3)])
def test_progress_off_a_terminal(caplog, capsys, verbose, lines):
    with caplog.at_level(logging.INFO, "nrs.training"):
        run([Progress(verbose)])
    assert len(caplog.messages) == lines
    assert all("train_loss" in message and "score" in message for message in caplog.messages)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_is_a_bar(monkeypatch, caplog, capsys):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with caplog.at_level(logging.INFO, "nrs.training"):
        run([Progress()])
    assert "100%" in terminal.getvalue()
    assert not caplog.messages
    assert capsys.readouterr().out == ""


def test_progress_on_a_terminal_without_rich_logs(monkeypatch, caplog):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setitem(sys.modules, "rich", None)
    with caplog.at_level(logging.INFO, "nrs.training"):
        run([Progress()])
    assert [message.split("  ")[0] for message in caplog.messages] == [
        "epoch 1 of 3",
        "epoch 2 of 3",
        "epoch 3 of 3",
    ]


def test_progress_with_verbose_0_is_silent_on_a_terminal(monkeypatch, caplog):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with caplog.at_level(logging.INFO, "nrs.training"):
        run([Progress(0)])
    assert terminal.getvalue() == ""
    assert not caplog.messages


def test_tensorboard_holds_the_history(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = run([TensorBoard(tmp_path)])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(history.columns) - {"epoch"}
    for name in ("train_loss", "score"):
        scalars = events.Scalars(name)
        assert [scalar.step for scalar in scalars] == [0, 1, 2]
        assert [scalar.value for scalar in scalars] == pytest.approx(history[name], rel=1e-6)


def test_tensorboard_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"needs tensorboard, .*-subspace\[tensorboard\]"):
        run([TensorBoard(tmp_path)])


def test_time_limit_stops_before_it_is_passed():
    began = time.monotonic()
    # Two steps an epoch: the limit falls into the twelfth.
    history = run([TimeLimit(0.47)], epochs=1000, step_seconds=0.02)
    assert time.monotonic() - began < 2
    assert 2 <= len(history) <= 12
    assert history.stopped_early


def test_time_limit_counts_what_came_before_and_what_is_to_come():
    assert len(run([TimeLimit(1000, begun=time.monotonic() - 2000)])) == 1
    assert len(run([TimeLimit(1000, evaluation=2000)])) == 1
    assert len(run([TimeLimit(1000, begun=time.monotonic() - 10, evaluation=10)])) == 3


def test_time_limit_leaves_a_short_run_alone_and_trains_at_least_once():
    assert len(run([TimeLimit(1000)])) == 3
    assert len(run([TimeLimit(1e-9)])) == 1
    with pytest.raises(ValueError, match="more than 0; got 0"):
        run([TimeLimit(0)])


class Clock:
    """A clock that shows seconds of its own."""

    def __init__(self, now=100.0):
        self.now = now

    def monotonic(self):
        return self.now


class Rates(Callback):
    """Keeps the learning rate of every step, each of which takes a second of a clock."""

    def __init__(self, clock):
        self.clock, self.seen = clock, []

    def on_step_end(self, state):
        self.clock.now += 1
        self.seen.append(state.lr)


def rates(monkeypatch, limit, epochs=50, begun=None, **settings):
    clock = Clock()
    monkeypatch.setattr("nrs.training.callbacks.time", clock)
    watch = Rates(clock)
    limits = [] if limit is None else [TimeLimit(limit, begun=begun)]
    run([watch, *limits], epochs=epochs, lr=1.0, **settings)
    return watch.seen


COSINE = {"schedule": "cosine", "warmup": 0.1}


@pytest.mark.parametrize("limit", [10, 20, 30, 60])
def test_the_learning_rate_reaches_its_end_in_time(monkeypatch, limit):
    whole, seen = rates(monkeypatch, None, **COSINE), rates(monkeypatch, limit, **COSINE)
    assert len(whole) == 100
    assert limit <= len(seen) <= limit + 1
    # Warm after a tenth of the time, as by all steps after a tenth of them.
    assert max(seen[: limit // 10 + 2]) > 0.9
    assert seen[-1] < 0.02
    # In between, and not before, it falls as it would.
    middle = slice(limit // 10 + 2, int(0.7 * limit))
    assert all(one >= other for one, other in zip(seen[middle], whole[middle], strict=True))
    assert min(seen[middle], default=1.0) > 0.7
    falls = seen[int(0.7 * limit) :]
    assert falls == sorted(falls, reverse=True)


def test_time_for_all_steps_changes_nothing(monkeypatch):
    for settings in (COSINE, {}, {"schedule": "step", "step_every": 9}):
        whole = rates(monkeypatch, None, **settings)
        assert rates(monkeypatch, 101, **settings) == whole
        assert rates(monkeypatch, 1000, begun=0.0, **settings) == whole


def test_what_came_before_training_is_no_part_of_its_schedule(monkeypatch):
    assert rates(monkeypatch, 120, begun=0.0, **COSINE) == rates(monkeypatch, 20, **COSINE)


def test_used_callbacks_can_be_copied_and_pickled(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    callbacks = [Progress(2), TensorBoard(tmp_path), TimeLimit(9)]
    run(callbacks)
    again = pickle.loads(pickle.dumps(copy.deepcopy(callbacks)))
    assert again[0].verbose == 2
    assert again[1].log_dir == tmp_path
    assert again[2].seconds == 9


def test_a_long_epoch_has_a_line_per_minute(monkeypatch, caplog):
    monkeypatch.setattr("nrs.training.callbacks._LINE_EVERY", -1.0)
    with caplog.at_level(logging.INFO, "nrs.training"):
        run([Progress(2)])
    within = [message for message in caplog.messages if "train_loss" not in message]
    assert within[0].startswith("epoch 1 of 3  ")
    assert within[-1] == "epoch 3 of 3  100 %"
