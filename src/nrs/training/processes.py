"""Several processes, one run: what ``torchrun`` starts shares the work of every batch.

Every process holds the whole network and reads its share of each batch; gradients are averaged
(DDP). Random numbers that decide the data come from one seed, so a run sees the same batches
however many processes it has. One process, the writer, shows progress and writes files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

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

    Examples
    --------
    >>> alone = Processes()
    >>> alone.is_writer, alone.share([3, 1, 2]), alone.sum({"correct": 7.0})
    (True, [3, 1, 2], {'correct': 7.0})
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_writer(self) -> bool:
        """Whether this process is the one that shows progress and writes files."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of a batch or of a list; together the parts are all, each once."""
        return items if self.size == 1 else items[self.rank :: self.size]

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module to call in training steps: gradients are then averaged over processes.

        Buffers (running statistics, permutations) are those of the writer before every step.
        """
        if self.size == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=devices)

    def sum(self, values: Mapping[str, float]) -> dict[str, float]:
        """The sum of each number over all processes, in float64: counts stay exact."""
        if self.size == 1:
            return dict(values)
        total = torch.tensor(list(values.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return dict(zip(values, total.tolist(), strict=True))

    def sum_tensor(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in float64 on the CPU."""
        total = values.to(self.device, torch.float64, copy=True)
        if self.size > 1:
            dist.all_reduce(total)
        return total.cpu()

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in some process."""
        return self.sum({"flag": float(flag)})["flag"] > 0

    def mean(self, value: float) -> float:
        """The mean of a number over the processes."""
        return self.sum({"value": value})["value"] / self.size

    def share_buffers(self, module: nn.Module) -> None:
        """Give every process the writer's buffers, so that all evaluate the same network."""
        if self.size > 1:
            for buffer in module.buffers():
                dist.broadcast(buffer.detach(), src=0)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            # Not barrier(), which on CUDA guesses the device.
            self.sum({"here": 1.0})


ALONE = Processes()


@contextlib.contextmanager
def processes(device: str = "auto") -> Iterator[Processes]:
    """Join the other processes that ``torchrun`` started; alone if it did not.

    Reads ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``. CUDA devices talk by NCCL, CPUs by gloo.

    Parameters
    ----------
    device : str
        ``"auto"`` is CUDA where there is one, else the CPU.

    Raises
    ------
    ValueError
        If ``RANK`` is not a number below ``WORLD_SIZE``.

    Examples
    --------
    >>> with processes("cpu") as group:
    ...     group.size
    1
    """
    rank, size, local = _placement()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(device, local) if device == "cuda" and size > 1 else torch.device(device)
    if size == 1:
        yield Processes(0, 1, where)
        return
    if where.type == "cuda":
        torch.cuda.set_device(where)
    dist.init_process_group("nccl" if where.type == "cuda" else "gloo", rank=rank, world_size=size)
    try:
        yield Processes(rank, size, where)
    finally:
        dist.destroy_process_group()


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
            f"RANK must be a number below WORLD_SIZE, however: {found}; start several processes "
            "with torchrun, which sets both"
        )
    return rank, size, local
