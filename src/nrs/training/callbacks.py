"""Small objects that the training loop calls at fixed moments."""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from nrs._util.optional import import_optional
from nrs._util.progress import Bar
from nrs.training.state import TrainState

logger = logging.getLogger("nrs.training")
# Seconds between log lines within an epoch.
_LINE_EVERY = 60.0


class Callback:
    """Base of all callbacks: every method does nothing.

    Every method gets one argument, `state`: the :class:`nrs.training.TrainState` of the run, as
    it stands at that moment. Setting ``state.stop = True`` ends training after the present epoch.
    `on_train_end` is called even if training fails.

    Examples
    --------
    >>> class StopWhenGood(Callback):
    ...     def on_epoch_end(self, state):
    ...         state.stop = state.metrics["score"] > 0.9
    """

    # Whether `on_step_end` may be called for a few steps together, after the last of them.
    may_lag = False

    def on_train_begin(self, state: TrainState) -> None:
        """Before the first epoch of this process."""

    def on_epoch_begin(self, state: TrainState) -> None:
        """Before the first batch of an epoch."""

    def on_step_end(self, state: TrainState) -> None:
        """After every optimizer step; the loop skips callbacks that do not define it."""

    def on_epoch_end(self, state: TrainState) -> None:
        """After an epoch, its evaluation and its row of the history."""

    def on_train_end(self, state: TrainState) -> None:
        """After the last epoch, or when training fails."""


class Progress(Callback):
    """Show how far training is.

    On a terminal: a progress bar on stderr (rich), or, without rich, one log line per epoch.
    Elsewhere: silence, or one log line per epoch with ``verbose`` of at least 2, and one per minute
    of an epoch that takes longer. Log lines go to the logger ``nrs.training`` at level INFO.

    Parameters
    ----------
    verbose : int
        0 for silence, 1 for a bar on a terminal, 2 for log lines where there is no terminal.
    """

    may_lag = True

    def __init__(self, verbose: int = 1) -> None:
        self.verbose = verbose
        self._bar: Bar | None = None
        self._shown_at = 0.0

    def on_train_begin(self, state: TrainState) -> None:
        self._shown_at = time.monotonic()
        bar = Bar(total=_epochs_so_far(state), done=state.epoch, verbose=self.verbose)
        self._bar = bar.start() if bar.shown or bar.logs else None

    def on_epoch_begin(self, state: TrainState) -> None:
        if self._bar is not None:
            self._bar.update(total=_epochs_so_far(state))

    def on_step_end(self, state: TrainState) -> None:
        if self._bar is None or not state.steps_per_epoch:
            return
        # A bar that moves ten times a second is smooth; moving it at every step costs.
        if time.monotonic() - self._shown_at > (_LINE_EVERY if self._bar.logs else 0.1):
            self._shown_at = time.monotonic()
            part = min(1.0, state.step_in_epoch / state.steps_per_epoch)
            self._bar.update(completed=state.epoch + part)
            if self._bar.logs:
                epoch, epochs = state.epoch + 1, _epochs_so_far(state)
                logger.info("epoch %d of %d  %.0f %%", epoch, epochs, 100 * part)

    def on_epoch_end(self, state: TrainState) -> None:
        if self._bar is None:
            return
        row = state.history.rows[-1]
        shown = {k: v for k, v in row.items() if k not in ("epoch", "lr", "seconds")}
        text = "  ".join(f"{name} {value:.4g}" for name, value in shown.items())
        self._bar.update(completed=state.epoch + 1, description=text)
        if self._bar.logs:
            epochs, seconds = _epochs_so_far(state), row["seconds"]
            logger.info("epoch %d of %d  %s  (%.2f s)", state.epoch + 1, epochs, text, seconds)
            self._shown_at = time.monotonic()

    def on_train_end(self, state: TrainState) -> None:
        if self._bar is not None:
            self._bar.stop()
        # A finished callback can be copied and pickled with its estimator.
        self._bar = None


def _epochs_so_far(state: TrainState) -> int:
    """Epochs of the cycles that have begun."""
    return state.settings.epochs * (1 + state.epoch // state.settings.epochs)


class TensorBoard(Callback):
    """Write the columns of the history as TensorBoard scalars.

    Parameters
    ----------
    log_dir : path
        Where the event files go.

    Raises
    ------
    ImportError
        When training begins, if tensorboard is not installed.
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        self.log_dir = log_dir
        self._writer: Any = None

    def on_train_begin(self, state: TrainState) -> None:
        user = "the TensorBoard callback"
        tensorboard = import_optional("torch.utils.tensorboard", user, "tensorboard")
        # A resumed run repeats the epochs after its checkpoint: purge what was written of them.
        self._writer = tensorboard.SummaryWriter(
            os.fspath(self.log_dir), purge_step=state.epoch or None
        )

    def on_epoch_end(self, state: TrainState) -> None:
        for name, value in state.history.rows[-1].items():
            if name != "epoch":
                self._writer.add_scalar(name, value, state.epoch)

    def on_train_end(self, state: TrainState) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None


class TimeLimit(Callback):
    """Stop in time for a limit, in the middle of an epoch if need be.

    Time is kept for the evaluation that ends an epoch, as long as the longest so far. The epochs
    before a resumed checkpoint count. At least one step is taken. Where not all
    steps fit in, the learning rate warms up by time, and falls to its end in the last part of it;
    several processes learn of that after every epoch.

    Parameters
    ----------
    seconds : float
        The limit, more than 0.
    begun : float, optional
        When the time began, by ``time.monotonic()``; when training begins by default.
    evaluation : float
        How long an evaluation is thought to take before there has been one.
    """

    may_lag = True

    def __init__(
        self, seconds: float, *, begun: float | None = None, evaluation: float = 0.0
    ) -> None:
        self.seconds = seconds
        self.begun = begun
        self._begin = 0.0
        # Seconds before training.
        self._before = 0.0
        self._last_step = 0.0
        self._evaluation = evaluation

    def on_train_begin(self, state: TrainState) -> None:
        if not self.seconds > 0:
            raise ValueError(f"seconds must be more than 0; got {self.seconds}")
        before = sum(state.history["seconds"]) if len(state.history) else 0.0
        self._last_step = time.monotonic()
        begun = self._last_step if self.begun is None else self.begun
        self._begin, self._before = begun - before, self._last_step - begun

    def on_step_end(self, state: TrainState) -> None:
        self._last_step = time.monotonic()
        passed, limit = self._last_step - self._begin, self.seconds - self._evaluation
        state.time_passed = (passed - self._before) / max(limit - self._before, 1e-9)
        if passed > limit:
            state.stop = True

    def on_epoch_end(self, state: TrainState) -> None:
        now = time.monotonic()
        self._evaluation = max(self._evaluation, now - self._last_step)
        # Not even a short stretch of the next epoch would fit.
        if now - self._begin + self._evaluation > self.seconds:
            state.stop = True
