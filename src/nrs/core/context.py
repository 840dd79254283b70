"""What a block of code draws from, and in which precision it computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw from a seed within the block, and leave torch's global generator as it was.

    Without a seed the block draws from the global generator.

    Examples
    --------
    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     bool(torch.rand(1) == first)
    True
    """
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield


def no_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Compute in the precision of the tensors, on the device of `x`."""
    # A tensor without data has no device that autocast knows.
    off: AbstractContextManager[Any] = (
        nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)
    )
    return off
