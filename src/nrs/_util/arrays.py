"""What NumPy and torch call by other names: one formula serves arrays and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nrs._util.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

# An array or a tensor; what comes out is what came in.
A = TypeVar("A", np.ndarray, "Tensor")


def concatenate(parts: Sequence[A], axis: int) -> A:
    """Parts one after the other along an axis."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis)
    return torch.cat(list(parts), axis)


def split(x: A, sizes: Sequence[int], axis: int) -> list[A]:
    """Parts of these sizes along an axis."""
    if isinstance(x, np.ndarray):
        return np.split(x, np.cumsum(sizes)[:-1], axis)
    return list(x.split(list(sizes), axis))


def where(condition: A, x: A, y: A) -> A:
    """The entries of `x` where the condition holds, else those of `y`."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, x, y)
    return torch.where(condition, x, y)
