"""Train a classification network on a map-style dataset: pictures, point clouds, anything.

The loop is `nrs.training.train`; this file says what a batch is, what its loss is, and how good a
network is. Data order and augmentation come from one generator, a seed a sample, so a run sees
the same batches however many workers or processes load them, and goes on exactly where it was.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, default_collate

from nrs._util.seeds import seeded
from nrs.training.callbacks import Callback, Progress, TensorBoard
from nrs.training.checkpoint import Checkpoint
from nrs.training.files import write_model
from nrs.training.history import History
from nrs.training.loop import train
from nrs.training.precision import plain_modes
from nrs.training.processes import ALONE, Processes
from nrs.training.settings import TrainSettings

_LOGGER = logging.getLogger(__name__)


class SampleError(ValueError):
    """A sample that cannot be read: it is named and left out, and training goes on."""


class Samples(Protocol):
    """A map-style dataset: ``dataset[i]`` is ``(x, label)``, x a tensor, the label a number.

    Whatever is random in ``dataset[i]`` must come from torch's global generator, as it does in
    torchvision's transforms. A sample that cannot be read raises `SampleError`.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class RunSettings:
    """What a run needs besides `TrainSettings`.

    Parameters
    ----------
    batch_size : int
        Samples of a step, of all processes together.
    label_smoothing : float
        From 0 to below 1.
    seed : int
        Decides weights, data order and augmentation.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, …
    workers : int
        Processes that load data; 0 loads in the training process.
    tensorboard : bool
        Whether to write TensorBoard scalars into the run's folder.
    channels_last : bool
        Whether pictures and kernels have their channels last in memory, which is faster for most
        CNNs and changes no number but by rounding.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    batch_size: int = 32
    label_smoothing: float = 0.0
    seed: int = 0
    device: str = "auto"
    workers: int = 0
    tensorboard: bool = False
    channels_last: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {self.batch_size}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and below 1; got {self.label_smoothing}"
            )
        if self.workers < 0:
            raise ValueError(f"workers must be at least 0; got {self.workers}")


Loss = Callable[[nn.Module, Any, Tensor], Tensor]


@plain_modes()
def train_network(
    module: nn.Module,
    train_set: Samples,
    eval_set: Samples | None,
    settings: TrainSettings,
    run: RunSettings,
    *,
    select: bool = False,
    loss: Loss | None = None,
    group: Processes = ALONE,
    folder: str | os.PathLike[str] | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    callbacks: Sequence[Callback] = (),
    head: Collection[nn.Parameter] = (),
    layers: Sequence[Collection[nn.Parameter]] = (),
    weights: Sequence[float] | None = None,
    mix: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
    extend: bool = False,
    verbose: int = 1,
) -> History:
    """Train a network in place; started again with the same folder, it resumes where it was.

    Parameters
    ----------
    module : nn.Module
        Maps a batch of x to class scores (B, K); moved to the group's device.
    train_set, eval_set : map-style datasets
        See `Samples`. After every epoch ``eval_set`` is measured: columns ``loss``, ``top1``,
        ``top5``, ``class_mean`` (mean of the accuracies by class), in percent.
    settings, run : TrainSettings, RunSettings
        How long and by which optimizer it learns; where and in what precision.
    select : bool
        Whether the epoch with the best ``top1`` is kept; only for an ``eval_set`` held out of the
        training data. Otherwise the last epoch is.
    loss : callable (module, x, labels) -> Tensor, optional
        Cross-entropy with ``run.label_smoothing`` by default.
    group : Processes
        See `nrs.training.processes`.
    folder : path, optional
        For checkpoints and TensorBoard files.
    fingerprint : mapping, optional
        JSON values that tell this run from others in the same folder.
    callbacks : sequence of Callback
        Called as training goes on.
    head, layers : parameters, sequence of parameters
        See `nrs.training.train`.
    weights : sequence of float, optional
        How often each training sample is drawn, relative to others; by default each once per epoch.
    mix : callable (x, labels) -> (x, shares of classes), optional
        What is done to a training batch, such as mixup; it may draw from torch's global generator.
    extend : bool
        Whether a finished run in the folder resumes where ``settings.epochs`` is more than it had.
    verbose : int
        0 silence, 1 a progress bar on a terminal, 2 also log lines elsewhere.

    Returns
    -------
    History
        A table of what was measured by epoch.

    Raises
    ------
    ValueError
        If a dataset has no sample.

    Examples
    --------
    >>> rows = [(torch.tensor([float(i % 2)]), i % 2) for i in range(32)]
    >>> network = nn.Linear(1, 2)
    >>> history = train_network(network, rows, rows, TrainSettings(epochs=20, lr=0.3),
    ...                         RunSettings(batch_size=8), verbose=0)
    >>> history["top1"][-1]
    100.0
    """
    if eval_set is not None and len(eval_set) == 0:
        raise ValueError(
            "eval_set must hold at least one sample; it is empty. Pass None to skip evaluation."
        )
    module.to(group.device)
    if run.channels_last:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = Batches(train_set, run, group, weights)
    compute = loss if loss is not None else _cross_entropy(run.label_smoothing)

    def step(called: nn.Module, batch: tuple[Any, Tensor]) -> Tensor:
        x, labels = _to(batch, group.device, run.channels_last)
        if mix is not None:
            x, labels = mix(x, labels)
        return compute(called, x, labels)

    named: set[str] = set()

    def evaluate(network: nn.Module) -> dict[str, float]:
        assert eval_set is not None
        return evaluate_network(network, eval_set, run, group, named)

    used = list(callbacks)
    if verbose:
        used.append(Progress(verbose))
    checkpoint = None
    if folder is not None:
        identity = {"run": asdict(run) | {"workers": None, "tensorboard": None}}
        identity |= dict(fingerprint or {})
        checkpoint = Checkpoint(Path(folder) / "checkpoint", identity, extend=extend)
        if run.tensorboard:
            used.append(TensorBoard(Path(folder) / "tensorboard"))
    return train(
        module,
        batches,
        step,
        settings,
        generator=torch.Generator().manual_seed(run.seed),
        evaluate=None if eval_set is None else evaluate,
        monitor="top1" if select else None,
        callbacks=used,
        checkpoint=checkpoint,
        steps_per_epoch=len(batches),
        group=group,
        head=head,
        layers=layers,
    )


@plain_modes()
def evaluate_network(
    module: nn.Module,
    dataset: Samples,
    run: RunSettings,
    group: Processes = ALONE,
    named: set[str] | None = None,
) -> dict[str, float]:
    """Loss and accuracies (percent) of a network on a dataset, exact over all processes.

    Every sample counts once, however the processes divide them; those that cannot be read count
    nowhere, and the log names those that are not in `named`.
    """
    was_training = module.training
    module.eval()
    order = list(group.share(range(len(dataset))))
    size = max(1, run.batch_size // group.size)
    pairs = [[(index, index) for index in order[i : i + size]] for i in range(0, len(order), size)]
    totals = {"loss": 0.0, "top1": 0.0, "top5": 0.0, "n": 0.0}
    right: list[Tensor] = []
    truth: list[Tensor] = []
    n_classes = 0
    with torch.no_grad():
        for batch in Readable(_loader(dataset, pairs, run.workers), named):
            x, labels = _to(batch, group.device, run.channels_last)
            scores = module(x).float()
            n_classes = scores.shape[1]
            best = scores.topk(min(5, n_classes), dim=1).indices
            hits = best == labels[:, None]
            totals["loss"] += F.cross_entropy(scores, labels, reduction="sum").item()
            totals["top1"] += hits[:, 0].sum().item()
            totals["top5"] += hits.sum().item()
            totals["n"] += len(labels)
            right.append(hits[:, 0].cpu())
            truth.append(labels.cpu())
    module.train(was_training)
    totals = group.sum(totals)
    by_class = _class_mean(right, truth, n_classes, group)
    n = totals["n"]
    if n == 0:
        raise ValueError("none of the samples to evaluate on can be read")
    return {
        "loss": totals["loss"] / n,
        "top1": 100 * totals["top1"] / n,
        "top5": 100 * totals["top5"] / n,
        "class_mean": by_class,
    }


def save_network(
    path: str | os.PathLike[str],
    module: nn.Module,
    *,
    kind: str,
    model: Mapping[str, Any],
    classes: Sequence[str],
    history: History,
    further: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
) -> None:
    """Write a trained network to one model file.

    Parameters
    ----------
    path : path
        Where to write.
    module : nn.Module
        Whose weights are written.
    kind : {"image", "points"}
        What it reads, for ``nrs predict``.
    model : mapping
        JSON values from which the package of that kind makes the module again.
    classes : sequence of str
        Names of its outputs.
    history : History
        Of its training.
    further : mapping, optional
        More for the header, such as the configuration and how inputs are prepared.
    made : mapping, optional
        Where the network comes from, see `nrs.training.made_now`.
    """
    header = {
        "model": dict(model),
        "classes": list(classes),
        "history": history.to_dict(),
        **(further or {}),
    }
    write_model(path, module.state_dict(), header, kind=kind, made=made)


def hold_out(labels: Sequence[int], fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Divide samples into those to train on and a part of each class to choose settings by.

    Examples
    --------
    >>> kept, held = hold_out([0, 0, 0, 0, 1, 1, 1, 1], 0.25, seed=0)
    >>> len(kept), len(held), {[0, 0, 0, 0, 1, 1, 1, 1][i] for i in held}
    (6, 2, {0, 1})
    """
    if not 0 < fraction < 1:
        raise ValueError(f"the held-out fraction must be between 0 and 1; got {fraction}")
    generator = torch.Generator().manual_seed(seed)
    by_class: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        by_class.setdefault(int(label), []).append(index)
    kept, held = [], []
    for _, members in sorted(by_class.items()):
        order = [members[i] for i in torch.randperm(len(members), generator=generator).tolist()]
        cut = min(len(order) - 1, max(1, round(fraction * len(order))))
        held += order[:cut]
        kept += order[cut:]
    return sorted(kept), sorted(held)


class Batches:
    """The shuffled batches of every epoch, for `nrs.training.train`.

    The generator gives the order and a seed a sample; the latter decides what is random in the
    sample's augmentation. What is left after the last whole batch waits for another epoch's order.

    Parameters
    ----------
    dataset : map-style dataset
    run : RunSettings
    group : Processes
    weights : sequence of float, optional
        How often each sample is drawn, relative to others; by default each once per epoch.
    """

    def __init__(
        self,
        dataset: Samples,
        run: RunSettings,
        group: Processes = ALONE,
        weights: Sequence[float] | None = None,
    ) -> None:
        n = len(dataset)
        size = min(run.batch_size, n)
        if size < group.size:
            raise ValueError(
                f"batch_size and the number of samples must be at least the number of processes "
                f"{group.size}; got batch_size={run.batch_size} and {n} samples"
            )
        self.dataset, self.run, self.group = dataset, run, group
        # Gradients are averaged over processes, so their shares must be equal.
        self.size = size - size % group.size
        self.n_batches = n // self.size
        self.weights = None if weights is None else torch.tensor(weights, dtype=torch.float64)
        self._named: set[str] = set()

    def __len__(self) -> int:
        return self.n_batches

    def __call__(self, epoch: int, generator: torch.Generator) -> _Epoch:
        n = len(self.dataset)
        if self.weights is None:
            order = torch.randperm(n, generator=generator).tolist()
        else:
            order = torch.multinomial(self.weights, n, True, generator=generator).tolist()
        seeds = torch.randint(2**62, (n,), generator=generator).tolist()
        pairs = list(zip(order, seeds, strict=True))
        cut = range(0, self.n_batches * self.size, self.size)
        shares = [list(self.group.share(pairs[start : start + self.size])) for start in cut]
        loader = _loader(self.dataset, shares, self.run.workers)
        return _Epoch(Readable(loader, self._named, whole=self.group.size > 1), len(self))


@dataclass(frozen=True)
class _Epoch:
    batches: Any
    n_batches: int

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        return iter(self.batches)


class _Seeded:
    """A dataset whose samples are asked for by index and seed."""

    def __init__(self, dataset: Samples) -> None:
        self.dataset = dataset

    def __getitem__(self, pair: tuple[int, int]) -> tuple[Any, Any]:
        index, seed = pair
        # The network's own randomness (dropout) must not depend on how samples are made.
        with seeded(seed):
            try:
                return self.dataset[index]
            except SampleError as error:
                # A worker's exception would end the run.
                return str(error), None


def _collate(samples: list[tuple[Any, Any]]) -> tuple[Any, list[str]]:
    """A batch of those samples that could be read (None if there is none), and why others not."""
    unread = [x for x, label in samples if label is None]
    read = [sample for sample in samples if sample[1] is not None]
    return (default_collate(read) if read else None), unread


class Readable:
    """The batches of a loader without the samples that cannot be read, which the log names once.

    Parameters
    ----------
    loader : iterable
    named : set of str
        What the log has named already.
    whole : bool
        Whether no batch may be left out, as where several processes take the same steps.
    """

    def __init__(self, loader: Any, named: set[str] | None = None, *, whole: bool = False) -> None:
        self.loader, self.named, self.whole = loader, set() if named is None else named, whole

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        for batch, unread in self.loader:
            for why in unread:
                if why not in self.named:
                    self.named.add(why)
                    _LOGGER.warning("skipped %s", why)
            if batch is not None:
                yield batch
            elif self.whole:
                raise ValueError(
                    f"no sample of a batch can be read; the first: {unread[0]}. Remove these "
                    "files, or use a larger batch_size."
                )


def _loader(dataset: Samples, pairs: list[list[tuple[int, int]]], workers: int) -> Any:
    # A loader draws a seed for its workers from the global generator when it is asked for
    # batches; a generator of its own leaves that alone. Samples have their own seeds.
    return DataLoader(
        _Seeded(dataset),  # type: ignore[arg-type]
        batch_sampler=pairs,
        collate_fn=_collate,
        num_workers=workers,
        generator=torch.Generator(),
    )


def class_balance(labels: Sequence[int], num_classes: int) -> Tensor:
    """What a sample of each class counts, so that all classes count the same; 1 on average.

    **Shape** output ``(num_classes,)``; a class without samples counts nothing.

    Examples
    --------
    >>> class_balance([0, 0, 0, 1], 2).tolist()
    [0.6666666865348816, 2.0]
    """
    counts = torch.bincount(torch.as_tensor(labels), minlength=num_classes)
    present = counts > 0
    return torch.where(present, len(labels) / (int(present.sum()) * counts.clamp(min=1)), 0.0)


def _cross_entropy(smoothing: float) -> Loss:
    def loss(module: nn.Module, x: Any, labels: Tensor) -> Tensor:
        outputs = module(x)
        return F.cross_entropy(outputs, labels, label_smoothing=smoothing)

    return loss


def _to(batch: tuple[Any, Tensor], device: torch.device, channels_last: bool) -> tuple[Any, Tensor]:
    x, labels = batch
    if channels_last and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    return x.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def _class_mean(
    right: list[Tensor], truth: list[Tensor], n_classes: int, group: Processes
) -> float:
    # A process without a sample does not know the number of classes.
    width = int(max(group.sum_tensor(torch.eye(group.size)[group.rank] * n_classes)))
    counts = torch.zeros(2, width, dtype=torch.float64)
    if truth:
        labels = torch.cat(truth)
        counts[0] = torch.bincount(labels, minlength=width)[:width]
        counts[1] = torch.bincount(labels[torch.cat(right)], minlength=width)[:width]
    counts = group.sum_tensor(counts)
    seen = counts[0] > 0
    return float(100 * (counts[1][seen] / counts[0][seen]).mean())
