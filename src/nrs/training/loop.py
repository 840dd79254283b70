"""The training loop: batches in, trained weights and a history out.

It knows no data type. Its callers bring three functions: ``batches`` (where data comes from),
``step`` (what the loss of a batch is) and ``evaluate`` (how good the module is).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from nrs._util.seeds import lent
from nrs.core.dropout import drawing_from
from nrs.training.callbacks import Callback
from nrs.training.history import History
from nrs.training.precision import forward_dtype, lowered_forward, plain_modes
from nrs.training.processes import ALONE, Processes
from nrs.training.settings import TrainSettings, learning_rate
from nrs.training.state import TrainState

if TYPE_CHECKING:
    from nrs.training.checkpoint import Checkpoint

T = TypeVar("T")
R = TypeVar("R")
# Reading a loss waits for the device, so losses are read this many at a time.
_CHECK_EVERY = 64
# So many steps apart, processes ask each other whether one of them wants to stop.
_AGREE_EVERY = 16
# Another cycle begins if the best epoch is in this last share of the one before, with a loss of
# training rows of at least such a share of the others'.
LATE, NO_GAP = 0.1, 0.75
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
    layers: Sequence[Collection[nn.Parameter]] = (),
    global_draws: bool = True,
    steps: Steps | None = None,
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
        Those that ``settings.head_lr`` is for, and that ``settings.freeze`` leaves free.
    layers : sequence of parameters
        Those of each layer before the head, the first layer first, for ``settings.layer_decay``.
    global_draws : bool
        Whether `step` or `evaluate` may draw from torch's global generators, as ``nn.Dropout``
        does. Then these are the run's own during a step, and the steps of several threads take
        turns. False if the module draws by :class:`nrs.core.dropout.PooledDropout` alone.
    steps : Steps, optional
        What takes the optimizer's steps: torch by default.

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
    _freeze(module, settings, head)
    parameters = [p for p in module.parameters() if p.requires_grad]
    _check_arguments(parameters, settings, generator, evaluate and monitor, callbacks)
    device = parameters[0].device
    state = TrainState(
        module=module,
        settings=settings,
        optimizer=build_optimizer(parameters, settings, head, layers),
        generator=generator,
        noise=_noise(device, global_draws),
        device=device,
        average=WeightAverage(module, settings.ema) if settings.ema is not None else None,
        steps_per_epoch=steps_per_epoch,
        monitor=monitor if evaluate is not None else None,
    )
    plain = settings.precision == "float32"
    dtype = None if plain else forward_dtype(settings.precision, device)
    state.scaler = torch.amp.GradScaler(device.type) if dtype is torch.float16 else None
    callbacks = callbacks if group.is_writer else ()
    loss = group.wrap(module, step) if group.size > 1 else functools.partial(step, module)
    loss_of = _drawing(state, loss, global_draws)
    steps = steps or TorchSteps()
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
                _set_training(module, settings)
                state.step_in_epoch = 0
                if group.divides_rows:
                    # Dropout differs between processes and is the same in a resumed run. From a
                    # copy: the data are those of a single process.
                    _seed_noise(state, _copied(generator), group.rank + 1)
                for callback in callbacks:
                    callback.on_epoch_begin(state)

                with lowered_forward(module, dtype, device):
                    train_loss = _train_epoch(
                        state, steps, loss_of, batches, each_step, group, pace
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
                # A new cycle begins with a high learning rate, and worse scores.
                first = state.epoch < settings.epochs
                if first and settings.patience is not None and state.history.best_epoch is not None:
                    stale = state.epoch - state.history.best_epoch
                    state.stop = state.stop or stale >= settings.patience
                for callback in callbacks:
                    callback.on_epoch_end(state)
                if group.size > 1:
                    state.stop = group.any(state.stop)
                    pace.agree(state, group)

                cycles, rest = divmod(state.epoch + 1, settings.epochs)
                more = cycles < settings.cycles and underfits(state.history, settings.epochs)
                complete = state.stop or (rest == 0 and not more)
                state.history.stopped_early = complete and rest > 0
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


def underfits(history: History, epochs: int) -> bool:
    """Whether a cycle of so many epochs, which ends now, leaves more to learn.

    ``val_loss``, if `evaluate` gives it, was least in the last epoch or close to it, and rows that
    are trained on are not predicted much better: their loss is at least three quarters of it.

    Examples
    --------
    >>> falling = [{"epoch": k, "train_loss": 9 - k, "val_loss": 9 - k} for k in range(9)]
    >>> underfits(History(falling), 9), underfits(History(falling[:3] + falling[::-1]), 12)
    (True, False)
    >>> overfitted = [row | {"train_loss": row["val_loss"] / 2} for row in falling]
    >>> underfits(History(overfitted), 9)
    False
    """
    rows = history.rows
    if "val_loss" not in rows[-1]:
        return False
    best = min(rows, key=lambda row: (math.isnan(row["val_loss"]), row["val_loss"]))
    late = len(rows) - best["epoch"] <= max(1, LATE * epochs)
    return late and best["train_loss"] >= NO_GAP * best["val_loss"]


class _Pace:
    """How far the time of a run has passed, the same in all processes that train together.

    One process looks at the clock after every step; several agree after every epoch, and take the
    next to pass as fast as the last.
    """

    def __init__(self, group: Processes) -> None:
        self.alone = group.size == 1
        self.known, self.per_step, self.at = 0.0, 0.0, 0
        # When the present cycle began.
        self.begun = 0.0

    def position(self, state: TrainState, step: int, steps: int, ahead: int = 0) -> float:
        """Where in a schedule of so many steps, which may begin again, a run stands.

        That is, where it will when it has taken so many steps `ahead` of the present one.

        A cycle that will not take all of them in time warms up by time, then follows its steps,
        and falls to the end of the schedule in the last part of its time.
        """
        now = state.time_passed
        if not self.alone:
            now = self.known + self.per_step * (state.step + ahead - self.at)
        before = step // steps * steps
        if step == before:
            self.begun = now
        passed, taken = (now - self.begun) / max(1 - self.begun, 1e-9), step - before
        if taken >= passed * steps:
            return step
        reached = max(taken, min(passed, state.settings.warmup) * steps)
        left = max(0.0, 1 - passed) / (1 - _FALL_FROM)
        # The end is not the beginning of another cycle.
        end = steps * (1 - 1e-9)
        return before + (reached if left >= 1 else end - (end - reached) * left)

    def agree(self, state: TrainState, group: Processes) -> None:
        """Take the writer's clock at the end of an epoch."""
        now = group.of_writer(state.time_passed)
        self.per_step = (now - self.known) / max(1, state.step - self.at)
        self.known, self.at = now, state.step


class Steps(Protocol):
    """What takes the optimizer's steps of a run.

    Attributes
    ----------
    at_once : int
        How many batches it takes in one call, at most.
    """

    @property
    def at_once(self) -> int: ...

    def take(
        self,
        state: TrainState,
        loss_of: Callable[[Any], Tensor],
        batches: Sequence[Any],
        rates: Sequence[float],
    ) -> list[Tensor]:
        """Take a step for each batch; returns the losses before it, and counts ``state.step``.

        In the first call of an epoch ``state.step_in_epoch`` is 0.
        """


class TorchSteps:
    """Steps by torch: gradients by autograd, then the optimizer."""

    at_once = 1

    def take(
        self,
        state: TrainState,
        loss_of: Callable[[Any], Tensor],
        batches: Sequence[Any],
        rates: Sequence[float],
    ) -> list[Tensor]:
        """Take a step for each batch, or one for all where gradients accumulate."""
        losses = []
        together = state.settings.accumulate
        for start in range(0, len(batches), together):
            some, lr = batches[start : start + together], rates[start]
            if lr != state.lr or state.step_in_epoch == 0:
                for parameter_group in state.optimizer.param_groups:
                    parameter_group["lr"] = lr * parameter_group.get("times", 1.0)
            for place, batch in enumerate(some):
                loss = loss_of(batch)
                if loss.ndim != 0:
                    raise ValueError(
                        f"step must return a scalar loss; its shape is {tuple(loss.shape)}. "
                        "Return the mean over the batch."
                    )
                if place == 0:
                    state.optimizer.zero_grad(set_to_none=True)
                part = loss if len(some) == 1 else loss / len(some)
                (part if state.scaler is None else state.scaler.scale(part)).backward()
                losses.append(loss.detach())
            self._step(state)
            state.step += 1
            if state.average is not None:
                state.average.update(state.step)
        return losses

    def _step(self, state: TrainState) -> None:
        optimizer, clip, scaler = state.optimizer, state.settings.clip_norm, state.scaler
        if clip is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            groups = optimizer.param_groups
            parameters = [parameter for group in groups for parameter in group["params"]]
            nn.utils.clip_grad_norm_(parameters, clip)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()


def _train_epoch(
    state: TrainState,
    steps: Steps,
    loss_of: Callable[[Any], Tensor],
    batches: Callable[[int, torch.Generator], Iterable[Any]],
    each_step: list[Callback],
    group: Processes,
    pace: _Pace,
) -> float:
    """All steps of an epoch; returns the mean of their losses."""
    settings = state.settings
    source = batches(state.epoch, state.generator)
    if state.steps_per_epoch is None and isinstance(source, Sized):
        state.steps_per_epoch = len(source)
    known = state.steps_per_epoch
    if known is None and (settings.schedule == "cosine" or settings.warmup > 0):
        raise ValueError(
            f"schedule={settings.schedule!r} with warmup={settings.warmup} needs the number of "
            "batches per epoch, and the batches have no length. Pass steps_per_epoch."
        )
    at_once = steps.at_once if all(callback.may_lag for callback in each_step) else 1
    at_once = max(at_once, settings.accumulate)
    unread: list[Tensor] = []
    total = 0.0
    for taken in several(source, at_once):
        rates = []
        for ahead in range(len(taken)):
            index = state.step_in_epoch + ahead
            # Without a known number of steps the schedule changes with epochs only.
            position = state.epoch * known + min(index, known - 1) if known else state.epoch
            hurried = pace.position(state, position, settings.epochs * (known or 1), ahead)
            rates.append(learning_rate(settings, hurried, known or 1))
        losses = steps.take(state, loss_of, taken, rates)
        for lr, loss in zip(rates, losses, strict=True):
            state.lr, state.loss = lr, loss
            state.step_in_epoch += 1
            unread.append(loss)
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


def several(source: Iterable[T], most: int) -> Iterator[list[T]]:
    """Lists of so many items each, the last of what is left."""
    items = iter(source)
    while taken := list(itertools.islice(items, most)):
        yield taken


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


def build_optimizer(
    parameters: list[nn.Parameter],
    settings: TrainSettings,
    head: Collection[nn.Parameter] = (),
    layers: Sequence[Collection[nn.Parameter]] = (),
) -> torch.optim.Optimizer:
    """The optimizer of the settings, fused into one kernel where there is one.

    Parameters of another learning rate are a group of their own, which says how many times
    ``settings.lr`` that is.

    Raises
    ------
    ValueError
        If `settings` has a learning rate for a head or for layers, and there is none.
    """
    groups: list[Any] = parameters
    times = _times(settings, head, layers)
    if times:
        by_times: dict[float, list[nn.Parameter]] = {}
        for parameter in parameters:
            by_times.setdefault(times.get(id(parameter), 1.0), []).append(parameter)
        groups = [{"params": some, "times": value} for value, some in by_times.items()]

    def build(fused: bool) -> torch.optim.Optimizer:
        lr, decay = float(settings.lr), float(settings.weight_decay)
        if settings.optimizer == "sgd":
            momentum = float(settings.momentum)
            return torch.optim.SGD(groups, lr, momentum=momentum, weight_decay=decay, fused=fused)
        kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, lr, weight_decay=decay, fused=fused)

    try:
        return build(fused=True)
    except RuntimeError:  # No fused kernel for this device or dtype.
        return build(fused=False)


def _times(
    settings: TrainSettings,
    head: Collection[nn.Parameter],
    layers: Sequence[Collection[nn.Parameter]],
) -> dict[int, float]:
    """How many times the learning rate a parameter gets, by its id; 1 where it is not here."""
    times: dict[int, float] = {}
    if settings.layer_decay < 1:
        if not layers:
            raise ValueError(
                f"layer_decay must be 1 where no layers are named; got {settings.layer_decay}"
            )
        for place, layer in enumerate(layers):
            decay = settings.layer_decay ** (len(layers) - place)
            times |= dict.fromkeys(map(id, layer), decay)
    if settings.head_lr is not None:
        if not head:
            raise ValueError(f"head_lr must be None where no head is named; got {settings.head_lr}")
        times |= dict.fromkeys(map(id, head), settings.head_lr / settings.lr)
    return times


def _freeze(module: nn.Module, settings: TrainSettings, head: Collection[nn.Parameter]) -> None:
    """Let the head alone learn, if the settings say so."""
    if not settings.freeze:
        return
    if not head:
        raise ValueError("freeze must be False where no head is named")
    of_head = set(map(id, head))
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.requires_grad and id(parameter) in of_head)


def _set_training(module: nn.Module, settings: TrainSettings) -> None:
    """Training mode, but not for what is frozen: that neither drops units nor keeps statistics."""
    module.train()
    for part in module.modules() if settings.freeze else ():
        own = list(part.parameters())
        if own and not any(parameter.requires_grad for parameter in own):
            part.eval()


def live_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a module by name; shared ones once."""
    tensors: dict[str, Tensor] = {
        name: parameter.detach() for name, parameter in module.named_parameters()
    }
    tensors.update((name, buffer.detach()) for name, buffer in module.named_buffers())
    return tensors


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    """A copy of all parameters and buffers of a module."""
    return {name: tensor.clone() for name, tensor in live_tensors(module).items()}


def put_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write weights from `copy_weights` into a module, in place."""
    for name, tensor in live_tensors(module).items():
        tensor.copy_(weights[name])


class WeightAverage:
    """An exponential moving average of a module's floating-point parameters and buffers.

    After update t = 1, 2, … the average is d · average + (1 − d) · weights with
    d = min(decay, (1 + t) / (10 + t)): the average forgets the random start of a short run, and
    has the asked decay in a long one. Running statistics (batch normalisation) are averaged like
    weights, so that they belong to the same mix of past networks; whole-number buffers
    (counters, indices) are those of the module.

    Parameters
    ----------
    module : nn.Module
        Its parameters and buffers must stay the same tensors, changed in place.
    decay : float
        Between 0 and 1.

    Examples
    --------
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> average = WeightAverage(layer, decay=0.5)
    >>> _ = nn.init.ones_(layer.weight)
    >>> average.update(1)  # d = min(0.5, 2 / 11)
    >>> round(average.tensors["weight"].item(), 3), layer.weight.item()
    (0.818, 1.0)
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self._live = {n: t for n, t in live_tensors(module).items() if t.is_floating_point()}
        self.tensors = {name: tensor.clone() for name, tensor in self._live.items()}
        self._live_list = list(self._live.values())
        self._average_list = list(self.tensors.values())

    def update(self, count: int) -> None:
        """Mix in the present weights; ``count`` is 1 at the first update."""
        decay = min(self.decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(self._average_list, self._live_list, 1 - decay)

    def put(self) -> None:
        """Write the average into the module."""
        torch._foreach_copy_(self._live_list, self._average_list)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the module has the averaged weights; then its own again."""
        own = [tensor.clone() for tensor in self._live_list]
        self.put()
        try:
            yield
        finally:
            torch._foreach_copy_(self._live_list, own)
