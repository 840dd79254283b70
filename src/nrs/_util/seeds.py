"""Randomness that comes from a seed and leaves the caller's alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
