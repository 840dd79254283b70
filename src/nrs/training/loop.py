"""The training loop: batches in, trained weights and a history out.

It knows no data type. Its callers bring three functions: ``batches`` (where data comes from),
``step`` (what the loss of a batch is) and ``evaluate`` (how good the module is).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence, Sized
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nrs._util.seeds import lent
from nrs.core.dropout import drawing_from
from nrs.training.callbacks import Callback
from nrs.training.checkpoint import Checkpoint
from nrs.training.history import History
from nrs.training.precision import forward_dtype, lowered_forward, plain_modes
from nrs.training.processes import ALONE, Processes
from nrs.training.settings import TrainSettings, build_optimizer, learning_rate
from nrs.training.state import TrainState
from nrs.training.weights import WeightAverage, copy_weights, put_weights

T = TypeVar("T")
R = TypeVar("R")
# Reading a loss waits for the device, so losses are read this many at a time.
_CHECK_EVERY = 64
# So many steps apart, processes ask each other whether one of them wants to stop.
_AGREE_EVERY = 16
# Share of a limited time from which on the learning rate falls to its end.
_FALL_FROM = 0.7
_OWN_COLUMNS = ("epoch", "train_loss", "lr", "seconds")


class DivergenceError(RuntimeError):
    """The loss or the weights became NaN or infinite."""


@plain_modes()
def train(
    module: nn.Module,
    batches: Callable[[int, torch.Generator], Iterable[Any]],
    step: Callable[[nn.Module, Any], Tensor],
    settings: TrainSettings,
    *,
    generator: torch.Generator,
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
    monitor: str | None = "score",
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    steps_per_epoch: int | None = None,
    group: Processes = ALONE,
    head: Collection[nn.Parameter] = (),
    global_draws: bool = True,
) -> History:
    """Train a module in place; the same generator state gives the same bits.

    The grad mode and the default device of the calling thread do not matter, and are the same
    afterwards.

    Parameters
    ----------
    module : nn.Module
        Only its parameters with ``requires_grad`` are trained. Left in evaluation mode.
    batches : callable (epoch, generator) -> iterable
        The batches of an epoch (from 0); whatever is random in their order or content must
        come from the generator.
    step : callable (module, batch) -> Tensor
        The loss of a batch: a scalar, the mean over the batch.
    settings : TrainSettings
        How to train.
    generator : torch.Generator
        On the CPU. Data order, and the randomness inside the module (dropout), come from it;
        torch's global generators are left as they were.
    evaluate : callable module -> dict of str to float, optional
        Runs after every epoch, in evaluation mode, without gradients. With it the module ends
        with the weights of the best epoch (the first of equals); without, of the last.
    monitor : str or None
        The metric of ``evaluate`` that tells the best epoch; higher is better. None: nothing is
        selected, the module ends with the weights of the last epoch.
    callbacks : sequence of Callback
        Called in this order, by the process that writes.
    checkpoint : Checkpoint, optional
        Where to save each epoch, and to go on from if it holds this run already.
    steps_per_epoch : int, optional
        Number of batches of an epoch. Needed by a schedule that changes within an epoch
        if ``len`` of the batches does not tell it.
    group : Processes
        The processes that share the work, see `nrs.training.processes`. Each brings the same
        module and generator, and its own share of every batch.
    head : parameters
        Those that ``settings.head_lr`` is for.
    global_draws : bool
        Whether `step` or `evaluate` may draw from torch's global generators, as ``nn.Dropout``
        does. Then these are the run's own during a step, and the steps of several threads take
        turns. False if the module draws by :class:`nrs.core.dropout.PooledDropout` alone.

    Returns
    -------
    History
        A row for each epoch: epoch, train_loss (mean over its batches), metrics, lr, seconds.

    Raises
    ------
    ValueError
        If there is nothing to train, no batch, or an argument does not fit.
    DivergenceError
        If the loss or a weight becomes NaN or infinite.

    Examples
    --------
    >>> x = torch.linspace(-1, 1, 64)[:, None]
    >>> def batches(epoch, generator):
    ...     return x[torch.randperm(64, generator=generator)].split(16)
    >>> def step(module, x):
    ...     return nn.functional.mse_loss(module(x), 2 * x + 1)
    >>> line = nn.Linear(1, 1)
    >>> history = train(line, batches, step, TrainSettings(epochs=60, lr=0.1),
    ...                 generator=torch.Generator().manual_seed(0))
    >>> round(line.weight.item(), 2), round(line.bias.item(), 2), len(history)
    (2.0, 1.0, 60)
    """
    parameters = [p for p in module.parameters() if p.requires_grad]
    _check_arguments(parameters, settings, generator, evaluate and monitor, callbacks)
    device = parameters[0].device
    state = TrainState(
        module=module,
        settings=settings,
        optimizer=build_optimizer(parameters, settings, head),
        generator=generator,
        noise=_noise(device, global_draws),
        device=device,
        average=WeightAverage(module, settings.ema) if settings.ema is not None else None,
        steps_per_epoch=steps_per_epoch,
        monitor=monitor if evaluate is not None else None,
    )
    dtype = forward_dtype(settings.precision, device)
    callbacks = callbacks if group.is_writer else ()
    loss_of = _drawing(state, group.wrap(module, step), global_draws)
    # The loop asks on every step, so it asks only those who listen.
    each_step = [c for c in callbacks if type(c).on_step_end is not Callback.on_step_end]

    with contextlib.nullcontext() if global_draws else drawing_from(module, state.noise[0]):
        complete = checkpoint.restore(state, group) if checkpoint is not None else False
        if state.epoch == 0:
            _seed_noise(state, generator)
        begun: list[Callback] = []
        pace = _Pace(group)
        try:
            for callback in callbacks if not complete else ():
                begun.append(callback)
                callback.on_train_begin(state)
            while not complete:
                started = time.perf_counter()
                module.train()
                state.step_in_epoch = 0
                if group.divides_rows:
                    # Dropout differs between processes and is the same in a resumed run. From a
                    # copy: the data are those of a single process.
                    _seed_noise(state, _copied(generator), group.rank + 1)
                for callback in callbacks:
                    callback.on_epoch_begin(state)

                with lowered_forward(module, dtype, device):
                    train_loss = _train_epoch(
                        state, loss_of, batches, parameters, each_step, group, pace
                    )
                _check_weights(state, parameters)

                if group.size > 1:
                    train_loss = group.mean_loss(train_loss)
                row = {"epoch": state.epoch, "train_loss": train_loss}
                if evaluate is not None:
                    measure = _drawing(state, evaluate, global_draws)
                    state.metrics = _evaluate(state, measure, monitor, group)
                    row |= state.metrics
                row |= {"lr": state.lr, "seconds": time.perf_counter() - started}
                state.history.append(row)
                if settings.patience is not None and state.history.best_epoch is not None:
                    stale = state.epoch - state.history.best_epoch
                    state.stop = state.stop or stale >= settings.patience
                for callback in callbacks:
                    callback.on_epoch_end(state)
                if group.size > 1:
                    state.stop = group.any(state.stop)
                    pace.agree(state, group)

                complete = state.stop or state.epoch + 1 >= settings.epochs
                state.history.stopped_early = state.epoch + 1 < settings.epochs and complete
                if checkpoint is not None and (group.is_writer or not group.divides_rows):
                    checkpoint.save(state, complete=complete)
                state.epoch += 1
        finally:
            state.optimizer.zero_grad(set_to_none=True)
            for callback in begun:
                callback.on_train_end(state)

    if state.best_weights is not None:
        put_weights(module, state.best_weights)
    elif state.average is not None:
        state.average.put()
    module.eval()
    return state.history


class _Pace:
    """How far the time of a run has passed, the same in all processes that train together.

    One process looks at the clock after every step; several agree after every epoch, and take the
    next to pass as fast as the last.
    """

    def __init__(self, group: Processes) -> None:
        self.alone = group.size == 1
        self.known, self.per_step, self.at = 0.0, 0.0, 0

    def position(self, state: TrainState, step: int, steps: int) -> float:
        """Where in a schedule of so many steps a run stands.

        A run that will not take all of them in time warms up by time, then follows its steps, and
        falls to the end of the schedule in the last part of its time.
        """
        passed = state.time_passed
        if not self.alone:
            passed = self.known + self.per_step * (state.step - self.at)
        if step >= passed * steps:
            return step
        reached = max(step, min(passed, state.settings.warmup) * steps)
        left = max(0.0, 1 - passed) / (1 - _FALL_FROM)
        return reached if left >= 1 else steps - (steps - reached) * left

    def agree(self, state: TrainState, group: Processes) -> None:
        """Take the writer's clock at the end of an epoch."""
        now = group.of_writer(state.time_passed)
        self.per_step = (now - self.known) / max(1, state.step - self.at)
        self.known, self.at = now, state.step


def _train_epoch(
    state: TrainState,
    loss_of: Callable[[Any], Tensor],
    batches: Callable[[int, torch.Generator], Iterable[Any]],
    parameters: list[nn.Parameter],
    each_step: list[Callback],
    group: Processes,
    pace: _Pace,
) -> float:
    """All steps of an epoch; returns the mean of their losses."""
    settings, optimizer = state.settings, state.optimizer
    source = batches(state.epoch, state.generator)
    if state.steps_per_epoch is None and isinstance(source, Sized):
        state.steps_per_epoch = len(source)
    known = state.steps_per_epoch
    if known is None and (settings.schedule == "cosine" or settings.warmup > 0):
        raise ValueError(
            f"schedule={settings.schedule!r} with warmup={settings.warmup} needs the number of "
            "batches per epoch, and the batches have no length. Pass steps_per_epoch."
        )
    unread: list[Tensor] = []
    total = 0.0
    for index, batch in enumerate(source):
        # Without a known number of steps the schedule changes with epochs only.
        position = state.epoch * known + min(index, known - 1) if known else state.epoch
        hurried = pace.position(state, position, settings.epochs * (known or 1))
        lr = learning_rate(settings, hurried, known or 1)
        if lr != state.lr or index == 0:
            state.lr = lr
            for parameter_group in optimizer.param_groups:
                parameter_group["lr"] = lr * parameter_group.get("times", 1.0)

        loss = loss_of(batch)
        if loss.ndim != 0:
            raise ValueError(
                f"step must return a scalar loss; its shape is {tuple(loss.shape)}. "
                "Return the mean over the batch."
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if settings.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, settings.clip_norm)
        optimizer.step()

        state.loss = loss.detach()
        state.step += 1
        state.step_in_epoch = index + 1
        if state.average is not None:
            state.average.update(state.step)
        unread.append(state.loss)
        if len(unread) == _CHECK_EVERY:
            total += _read_losses(unread, state)
            unread = []
        for callback in each_step:
            callback.on_step_end(state)
        if group.size > 1:
            # Processes that share rows leave an epoch together, those with parts of their own
            # after it: either way none waits for another that has gone.
            if not group.divides_rows or state.step_in_epoch % _AGREE_EVERY:
                continue
            state.stop = group.any(state.stop)
        if state.stop:
            break
    if state.step_in_epoch == 0:
        raise ValueError(
            f"batches must give at least one batch; got none in epoch {state.epoch}. "
            "Use a smaller batch size or more data."
        )
    return (total + _read_losses(unread, state)) / state.step_in_epoch


def _evaluate(
    state: TrainState,
    evaluate: Callable[[nn.Module], dict[str, float]],
    monitor: str | None,
    group: Processes,
) -> dict[str, float]:
    """The metrics of the present weights (or their average); keeps the weights if best."""
    state.module.eval()
    averaged = state.average.applied() if state.average is not None else contextlib.nullcontext()
    # Not inference_mode: tensors that a module caches there can never enter a graph again.
    with torch.no_grad(), averaged:
        if group.size > 1:
            group.share_buffers(state.module)
        metrics = {name: float(value) for name, value in evaluate(state.module).items()}
        known = monitor is None or monitor in metrics
        if not known or not metrics.keys().isdisjoint(_OWN_COLUMNS):
            raise ValueError(
                f"evaluate must give the monitored metric {monitor!r} and none of "
                f"{_OWN_COLUMNS}; it gave {list(metrics)}. Change monitor or evaluate."
            )
        if monitor is None:
            return metrics
        score, best = metrics[monitor], state.best_score
        # NaN is worse than any number.
        if state.best_weights is None or score > best or math.isnan(best) > math.isnan(score):
            state.best_score = score
            state.best_weights = copy_weights(state.module)
            state.history.best_epoch = state.epoch
    return metrics


def _noise(device: torch.device, global_draws: bool) -> list[torch.Generator]:
    """What the module draws from; the global generator of a GPU is another than the CPU's."""
    on_gpu = device.type == "cuda" and global_draws
    return [torch.Generator(), torch.Generator(device)] if on_gpu else [torch.Generator()]


def _drawing(state: TrainState, function: Callable[[T], R], global_draws: bool) -> Callable[[T], R]:
    """The function, for which torch's global generators are the run's own if it needs them."""

    def call(argument: T) -> R:
        with lent(state.noise):
            return function(argument)

    return call if global_draws else function


def _seed_noise(state: TrainState, generator: torch.Generator, rank: int = 0) -> None:
    seed = int(torch.randint(2**62, (), generator=generator)) + rank
    for own in state.noise:
        own.manual_seed(seed)


def _copied(generator: torch.Generator) -> torch.Generator:
    copy = torch.Generator()
    copy.set_state(generator.get_state())
    return copy


def _read_losses(losses: list[Tensor], state: TrainState) -> float:
    """The sum of the losses of the last steps; raises if one is not finite."""
    if not losses:
        return 0.0
    values = torch.stack(losses).double().tolist()
    for index, value in enumerate(values):
        if not math.isfinite(value):
            step = state.step_in_epoch - len(values) + index
            raise _diverged(f"the loss was {value} in epoch {state.epoch}, step {step}", state)
    return math.fsum(values)


def _check_weights(state: TrainState, parameters: list[nn.Parameter]) -> None:
    # A last step may break the weights after a loss that was finite.
    with torch.no_grad():
        finite = torch.stack([parameter.isfinite().all() for parameter in parameters]).all()
    if not finite.item():
        raise _diverged(f"weights became NaN or infinite in epoch {state.epoch}", state)


def _diverged(what: str, state: TrainState) -> DivergenceError:
    clip = state.settings.clip_norm
    return DivergenceError(
        f"training diverged: {what} (both counted from 0). Lower lr (lr={state.settings.lr}), "
        f"set clip_norm, for instance to 1.0 (clip_norm={clip}), or scale the inputs"
    )


def _check_arguments(
    parameters: list[nn.Parameter],
    settings: TrainSettings,
    generator: torch.Generator,
    monitored: object,
    callbacks: Sequence[Callback],
) -> None:
    if not parameters:
        raise ValueError(
            "module must have a parameter with requires_grad=True; it has none, "
            "so nothing can be trained"
        )
    if generator.device.type != "cpu":
        raise ValueError(
            f"generator must be on the CPU; it is on {str(generator.device)!r}. "
            "Make it with torch.Generator()."
        )
    if settings.patience is not None and not monitored:
        raise ValueError(
            f"patience={settings.patience} needs evaluate and a metric to monitor. "
            "Pass both, or patience=None."
        )
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise ValueError(
                f"callbacks must be instances of nrs.training.Callback; got {callback!r}"
            )
