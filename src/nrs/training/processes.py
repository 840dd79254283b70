"""Several processes, one run: what ``torchrun`` starts shares the work of every batch.

Every process holds the whole network and reads its share of each batch; gradients are averaged
(DDP). Random numbers that decide the data come from one seed, so a run sees the same batches
however many processes it has. One process, the writer, shows progress and writes files. Instead
of the rows the network may be divided: then each process trains a part of its own on all rows.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The processes of a run; by default there is one, and everything here does nothing.

    Attributes
    ----------
    rank : int
        Which of them this one is, from 0.
    size : int
        How many there are.
    device : torch.device
        Where this one computes.
    divided : "rows" or "parts"
        What is shared out: the rows of every batch, all processes having the same weights, or the
        network, each process having weights of its own.
    own_statistics : bool
        Whether the network keeps its buffers equal by itself, so that nobody has to send them.
    divides_rows : bool
        Whether several processes share the rows of a batch.
    is_writer : bool
        Whether this process is the one that shows progress and writes files.

    Examples
    --------
    >>> alone = Processes()
    >>> alone.is_writer, alone.share([3, 1, 2]), alone.sum({"correct": 7.0})
    (True, [3, 1, 2], {'correct': 7.0})
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    divided: str = "rows"
    own_statistics: bool = False
    divides_rows: bool = field(init=False)
    is_writer: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "divides_rows", self.size > 1 and self.divided == "rows")
        object.__setattr__(self, "is_writer", self.rank == 0)

    def share(self, items: T) -> T:
        """This process's part of a batch or of a list; together the parts are all, each once.

        Parameters
        ----------
        items : Tensor, array or list
            The whole, the same in all processes. Its first dimension is divided.
        """
        part: T = items[self.rank :: self.size] if self.divides_rows else items  # type: ignore[index]
        return part

    def wrap(
        self, module: nn.Module, step: Callable[[nn.Module, Any], Tensor]
    ) -> Callable[[Any], Tensor]:
        """The loss of a batch, whose gradients are then averaged over processes that share rows.

        Buffers (running statistics, permutations) are those of the writer before every step.

        Parameters
        ----------
        module : nn.Module
            The network, with the same weights in all processes that share rows.
        step : callable (module, batch) -> Tensor
            The loss of a batch: a scalar, the mean over the batch.
        """
        loss = _Step(module, step)
        if not self.divides_rows:
            return loss
        options: dict[str, Any] = {}
        if self.own_statistics:
            known = inspect.signature(DistributedDataParallel).parameters
            newer = "forward_sync_buffers"
            options[newer if newer in known else "broadcast_buffers"] = False
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(loss, device_ids=devices, **options)

    def sum(self, values: Mapping[str, float]) -> dict[str, float]:
        """The sum of each number over all processes, in float64: counts stay exact.

        Parameters
        ----------
        values : mapping of str to float
            Numbers of this process, under the same names in all.
        """
        if self.size == 1:
            return dict(values)
        total = torch.tensor(list(values.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return dict(zip(values, total.tolist(), strict=True))

    def sum_tensor(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in float64 on the CPU.

        Parameters
        ----------
        values : Tensor
            Of the same shape in all processes.
        """
        total = values.to(self.device, torch.float64, copy=True)
        if self.size > 1:
            dist.all_reduce(total)
        return total.cpu()

    def total(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes: the same bits in each; no gradient passes.

        Parameters
        ----------
        values : Tensor
            Of the same shape and dtype in all processes.
        """
        total = values.detach().clone()
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def gather(self, values: Tensor) -> list[Tensor]:
        """The tensors of all processes in the order of their ranks; sizes may differ.

        Parameters
        ----------
        values : Tensor
            Of the same dtype and number of dimensions in all processes.
        """
        values = values.detach().contiguous()
        if self.size == 1:
            return [values]
        shape = torch.zeros(self.size, values.dim(), dtype=torch.int64, device=values.device)
        shape[self.rank] = torch.tensor(values.shape, dtype=torch.int64)
        shapes = self.total(shape).tolist()
        gathered = [values.new_empty(shape) for shape in shapes]
        gathered[self.rank] = values
        for rank, part in enumerate(gathered):
            if part.numel():
                dist.broadcast(part, src=rank)
        return gathered

    def of_writer(self, value: Any) -> Any:
        """The writer's value, in every process; a JSON value, in which NaN may stand.

        Parameters
        ----------
        value : JSON value
            Read from the writer only.
        """
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.is_writer else b""
        size = int(self.sum({"bytes": len(text)})["bytes"])
        content = torch.zeros(size, dtype=torch.uint8, device=self.device)
        if self.is_writer:
            content.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        dist.broadcast(content, src=0)
        return json.loads(bytes(content.tolist()))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in some process.

        Parameters
        ----------
        flag : bool
            Of this process.
        """
        return self.sum({"flag": float(flag)})["flag"] > 0

    def mean_loss(self, loss: float) -> float:
        """The loss of the run: the mean over shares of the rows, the sum over parts.

        Parameters
        ----------
        loss : float
            Of this process.
        """
        total = self.sum({"loss": loss})["loss"]
        return total / self.size if self.divides_rows else total

    def share_buffers(self, module: nn.Module) -> None:
        """Give every process the writer's buffers, so that all evaluate the same network.

        Parameters
        ----------
        module : nn.Module
            The same network in all processes; its buffers are changed in place.
        """
        if self.divides_rows and not self.own_statistics:
            for buffer in module.buffers():
                dist.broadcast(buffer.detach(), src=0)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            # Not barrier(), which on CUDA guesses the device.
            self.sum({"here": 1.0})


class _Step(nn.Module):
    """A network and what its loss is, as one module: what DDP wraps."""

    def __init__(self, module: nn.Module, step: Callable[[nn.Module, Any], Tensor]) -> None:
        super().__init__()
        self.module, self.step = module, step

    def forward(self, batch: Any) -> Tensor:
        return self.step(self.module, batch)


ALONE = Processes()
_PRESENT: ContextVar[Processes | None] = ContextVar("processes", default=None)
# Torch has one process group: threads that make one of their own take turns.
_TURN = threading.RLock()
_ours = False


def present() -> Processes:
    """The processes of the innermost :func:`joined` or :func:`processes` block.

    Outside of any, the process group that the caller has initialised; alone if there is none. All
    processes of a group must take part: within ``joined(ALONE)`` one of them works by itself.

    >>> present().size
    1
    """
    group = _PRESENT.get()
    if group is not None:
        return group
    # A group that a thread of ours has made for one fit is not for the fits of other threads.
    return _adopted("auto") if _has_group() and not _ours else ALONE


@contextlib.contextmanager
def joined(group: Processes) -> Iterator[Processes]:
    """Within the block `group` is what :func:`present` gives."""
    token = _PRESENT.set(group)
    try:
        yield group
    finally:
        _PRESENT.reset(token)


def check_no_group() -> None:
    """Refuse to start workers where the caller has initialised a process group.

    Raises
    ------
    ValueError
        If there is one: torch cannot have two.
    """
    if _has_group() and not _ours:
        raise ValueError(
            "n_workers needs a process group of its own, and torch.distributed is initialised "
            "already. Use n_workers=1, or call torch.distributed.destroy_process_group() first."
        )


@contextlib.contextmanager
def own_group() -> Iterator[None]:
    """Within the block this thread may initialise torch's process group, which then ends with it.

    The blocks of several threads take turns.
    """
    global _ours
    with _TURN:
        _ours = True
        try:
            yield
        finally:
            if _has_group():
                dist.destroy_process_group()
            _ours = False


@contextlib.contextmanager
def processes(device: str = "auto") -> Iterator[Processes]:
    """Join the other processes that ``torchrun`` started; alone if it did not.

    Reads ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``. CUDA devices talk by NCCL, CPUs by gloo.
    A process group that is initialised already (by Lightning, Accelerate, Ray or the caller) is
    used as it is, and not destroyed at the end. Estimators that are fitted within the block share
    their work.

    Parameters
    ----------
    device : str
        ``"auto"`` is CUDA where there is one, else the CPU.

    Raises
    ------
    ValueError
        If ``RANK`` is not a number below ``WORLD_SIZE``, or there is no such device.

    Examples
    --------
    >>> with processes("cpu") as group:
    ...     group.size
    1
    """
    if _PRESENT.get() is not None or (_has_group() and not _ours):
        with joined(_PRESENT.get() or _adopted(device)) as group:
            yield group
        return
    rank, size, local = _placement()
    where = find_device(device)
    if where == torch.device("cuda") and size > 1:
        where = torch.device("cuda", local)
    if size == 1:
        yield Processes(0, 1, where)
        return
    if where.type == "cuda":
        torch.cuda.set_device(where)
    with own_group():
        # A store that outlives a restart of the workers still holds the keys of those before.
        store, _, _ = next(dist.rendezvous("env://", rank, size))
        store = dist.PrefixStore(f"nrs-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        backend = "nccl" if where.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
        with joined(Processes(rank, size, where)) as group:
            yield group


def _has_group() -> bool:
    return dist.is_available() and dist.is_initialized()


def _adopted(device: str) -> Processes:
    """The processes of the group that the caller has initialised."""
    where = find_device(device)
    if device == "auto" and "nccl" not in dist.get_backend_config():
        where = torch.device("cpu")
    if where == torch.device("cuda"):
        where = torch.device("cuda", torch.cuda.current_device())
    return Processes(dist.get_rank(), dist.get_world_size(), where)


def find_device(name: str | torch.device) -> torch.device:
    """The device of a name; ``"auto"`` is CUDA where there is one, else the CPU.

    Raises
    ------
    ValueError
        If torch does not know the name, or finds no GPU.
    """
    found = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if found else "cpu")
    try:
        where = torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"device must be 'auto' or a name that torch knows; got {name!r}"
        ) from None
    if where.type == "cuda" and not found:
        raise ValueError(
            f"device must be one of this machine; got {name!r}, and torch finds no GPU. "
            "Use device='auto'."
        )
    return where


def _placement() -> tuple[int, int, int]:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    found = {name: os.environ[name] for name in names if os.environ.get(name)}
    if "RANK" not in found or "WORLD_SIZE" not in found:
        return 0, 1, 0
    try:
        rank, size = int(found["RANK"]), int(found["WORLD_SIZE"])
        local = int(found.get("LOCAL_RANK", rank))
    except ValueError:
        rank, size, local = -1, 0, 0
    if not 0 <= rank < size:
        raise ValueError(
            f"RANK must be a number below WORLD_SIZE; got {found}. Start several processes "
            "with torchrun, which sets both."
        )
    return rank, size, local
