"""Dropout whose masks are slices of a pool that is drawn once.

Drawing a fresh Bernoulli mask costs more than the rest of a training step on a CPU. A slice that
starts at a random place of a large pool drops units just as independently within a batch; two
batches share part of a mask only if their slices overlap, shifted against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
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
        self._bits: dict[int, np.ndarray] = {}

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0 or x.numel() == 0:
            return x
        count = x.numel()
        size, start = self._place(count)
        mask = self._pool(size, x)[start : start + count]
        if x.dim() == 2 and not x.is_contiguous() and x.t().is_contiguous():
            return x * mask.view(x.shape[1], x.shape[0]).t()
        return x * mask.view(x.shape)

    def bits(self, count: int) -> tuple[np.ndarray, int]:
        """The mask of the next `count` units in training, as compiled code reads it.

        Returns
        -------
        bits, start : bytes whose bits are 1 for a unit that is kept, from the lowest of each byte
            on, with a few more at their end; and the bit where the mask begins.

        Examples
        --------
        >>> layer = PooledDropout(0.25)
        >>> with drawing_from(layer, torch.Generator().manual_seed(0)):
        ...     kept = layer(torch.ones(100)) > 0
        >>> with drawing_from(layer, torch.Generator().manual_seed(0)):
        ...     bits, start = layer.bits(100)
        >>> mask = np.unpackbits(bits, bitorder="little")[start : start + 100]
        >>> bool((mask == kept.numpy()).all())
        True
        """
        size, start = self._place(count)
        if size not in self._bits:
            packed = [np.packbits(part.numpy(), bitorder="little") for part in self._kept(size)]
            self._bits[size] = np.concatenate([*packed, np.zeros(8, np.uint8)])
        return self._bits[size], start

    def _place(self, count: int) -> tuple[int, int]:
        """The size of the pool for `count` units of this part, and where their mask begins."""
        first, own, whole = self.part
        unit = count // own
        # A power of two of at least twice the slice: the same for every run and batch size.
        size = max(MIN_POOL, 1 << (2 * unit * whole - 1).bit_length())
        places = size - unit * whole + 1
        place = torch.randint(places, (), generator=self.generator, device="cpu")
        return size, int(place) + unit * first

    def _pool(self, size: int, x: Tensor) -> Tensor:
        key = (size, x.dtype, x.device)
        if key not in self._pools:
            pool = torch.empty(size, dtype=torch.float32, device="cpu")
            for own, kept in zip(pool.split(MIN_POOL), self._kept(size), strict=True):
                torch.div(kept.float(), 1 - self.p, out=own)
            self._pools[key] = pool.to(x.device, x.dtype)
        return self._pools[key]

    def _kept(self, size: int) -> Iterator[Tensor]:
        """Which units of a pool are kept, part by part: that of a long query has 2²⁶ numbers."""
        # The same pool whatever torch's default dtype and device are.
        generator = torch.Generator().manual_seed(size)
        for _ in range(size // MIN_POOL):
            drawn = torch.rand(MIN_POOL, generator=generator, dtype=torch.float32, device="cpu")
            yield drawn >= self.p

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_pools": {}, "_bits": {}, "generator": None}

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
