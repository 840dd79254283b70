"""Dropout whose masks are slices of a pool that is drawn once.

Drawing a fresh Bernoulli mask costs more than the rest of a training step on a CPU. A slice that
starts at a random place of a large pool drops units just as independently within a batch; two
batches share part of a mask only if their slices overlap, shifted against each other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEAST_POOL = 1 << 18


class PooledDropout(nn.Module):
    """Drop a share `p` of the units in training and scale up the rest, as ``nn.Dropout`` does.

    The pool is a function of its size alone and the place a draw of torch's global generator, so
    that a run that restores the generator's state goes on with the same masks. A part of a larger
    layer (see `part`) drops what the whole would drop there.

    **Shape** any; the output has the memory layout of the input.

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
        self._pools: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0 or x.numel() == 0:
            return x
        first, own, whole = self.part
        count = x.numel()
        unit = count // own
        pool = self._pool(unit * whole, x)
        start = int(torch.randint(len(pool) - unit * whole + 1, ())) + unit * first
        mask = pool[start : start + count]
        if x.dim() == 2 and not x.is_contiguous() and x.t().is_contiguous():
            return x * mask.view(x.shape[1], x.shape[0]).t()
        return x * mask.view(x.shape)

    def _pool(self, count: int, x: Tensor) -> Tensor:
        # A power of two of at least twice the slice: the same for every run and batch size.
        size = max(LEAST_POOL, 1 << (2 * count - 1).bit_length())
        key = (size, x.dtype, x.device)
        if key not in self._pools:
            generator = torch.Generator().manual_seed(size)
            kept = torch.rand(size, generator=generator) >= self.p
            self._pools[key] = (kept / (1 - self.p)).to(x.device, x.dtype)
        return self._pools[key]

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_pools": {}}

    def extra_repr(self) -> str:
        return f"p={self.p}"
