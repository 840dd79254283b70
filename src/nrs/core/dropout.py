"""Dropout whose masks are slices of a pool that is drawn once.

Drawing a fresh Bernoulli mask costs more than the rest of a training step on a CPU. A slice that
starts at a random place of a large pool drops units just as independently within a batch; two
batches share part of a mask only if their slices overlap, shifted against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

MIN_POOL = 1 << 18


class PooledDropout(nn.Module):
    """Drop a share `p` of the units in training and scale up the rest, as ``nn.Dropout`` does.

    The pool depends on its size alone, and the place is drawn from `generator`, so that a run that
    restores the generator's state continues with the same masks. A part of a larger layer (see
    `part`) drops what the whole would drop there.

    **Shape** any; the output has the memory layout of the input.

    Attributes
    ----------
    generator : torch.Generator or None
        On the CPU, see :func:`drawing_from`; None is torch's global generator.

    Examples
    --------
    >>> layer = PooledDropout(0.25)
    >>> dropped = layer(torch.ones(100, 100))
    >>> sorted(dropped.unique().tolist()), bool((dropped == 0).float().mean() < 0.3)
    ([0.0, 1.3333333730697632], True)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        # First unit, units and units of the whole layer, as shares of the input's first dimension.
        self.part = (0, 1, 1)
        self.generator: torch.Generator | None = None
        self._pools: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0 or x.numel() == 0:
            return x
        first, own, whole = self.part
        count = x.numel()
        unit = count // own
        pool = self._pool(unit * whole, x)
        places = len(pool) - unit * whole + 1
        place = torch.randint(places, (), generator=self.generator, device="cpu")
        start = int(place) + unit * first
        mask = pool[start : start + count]
        if x.dim() == 2 and not x.is_contiguous() and x.t().is_contiguous():
            return x * mask.view(x.shape[1], x.shape[0]).t()
        return x * mask.view(x.shape)

    def _pool(self, count: int, x: Tensor) -> Tensor:
        # A power of two of at least twice the slice: the same for every run and batch size.
        size = max(MIN_POOL, 1 << (2 * count - 1).bit_length())
        key = (size, x.dtype, x.device)
        if key not in self._pools:
            generator = torch.Generator().manual_seed(size)
            # The same pool whatever torch's default dtype and device are.
            drawn = torch.rand(size, generator=generator, dtype=torch.float32, device="cpu")
            kept = (drawn >= self.p).float() / (1 - self.p)
            self._pools[key] = kept.to(x.device, x.dtype)
        return self._pools[key]

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_pools": {}, "generator": None}

    def extra_repr(self) -> str:
        return f"p={self.p}"


@contextmanager
def drawing_from(module: nn.Module, generator: torch.Generator) -> Iterator[None]:
    """Within the block every `PooledDropout` of a module draws from `generator`.

    Examples
    --------
    >>> layer, x = PooledDropout(0.25), torch.ones(100, 100)
    >>> with drawing_from(layer, torch.Generator().manual_seed(0)):
    ...     first = layer(x)
    >>> with drawing_from(layer, torch.Generator().manual_seed(0)):
    ...     bool((layer(x) == first).all())
    True
    """
    layers = [layer for layer in module.modules() if isinstance(layer, PooledDropout)]
    for layer in layers:
        layer.generator = generator
    try:
        yield
    finally:
        for layer in layers:
            layer.generator = None
