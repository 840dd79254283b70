"""Picking points by index, and the order in which a cloud is read."""

from __future__ import annotations

import torch
from torch import Tensor


def gather_points(x: Tensor, index: Tensor) -> Tensor:
    """Pick rows of every cloud by their numbers.

    **Shape** x ``(B, N, C)``, index ``(B, ...)`` int64, output ``(B, ..., C)``.

    Examples
    --------
    >>> x = torch.tensor([[[0.0], [1.0], [2.0]]])
    >>> gather_points(x, torch.tensor([[2, 0]])).tolist()
    [[[2.0], [0.0]]]
    """
    flat = flat_index(index, x.shape[1]).reshape(-1)
    # Rows of one long matrix: its gradient is a plain sum by rows, that of x[b, index] is slow.
    rows = x.reshape(-1, x.shape[-1]).index_select(0, flat)
    return rows.view(*index.shape, x.shape[-1])


def flat_index(index: Tensor, n_points: int) -> Tensor:
    """Turn row numbers within each cloud into row numbers of the clouds put end to end.

    Examples
    --------
    >>> flat_index(torch.tensor([[0, 1], [0, 1]]), 3).tolist()
    [[0, 1], [3, 4]]
    """
    start = torch.arange(index.shape[0], device=index.device) * n_points
    return index + start.view(-1, *[1] * (index.dim() - 1))


def canonical_order(x: Tensor) -> Tensor:
    """Sort the points of every cloud by their first channel, then the second, and so on.

    A cloud has no order, yet sums in floating point do, and so do ties between neighbours: an
    encoder that reads its points in this order gives the same bits for any order.

    **Shape** ``(B, N, C)`` to ``(B, N, C)``.

    Examples
    --------
    >>> canonical_order(torch.tensor([[[1.0, 5.0], [0.0, 3.0], [1.0, 2.0]]])).tolist()
    [[[0.0, 3.0], [1.0, 2.0], [1.0, 5.0]]]
    """
    with torch.no_grad():
        first, order = x[..., 0].sort(dim=1)
        # A graph cannot look at values; it sorts by every channel.
        if torch.compiler.is_compiling() or bool((first[:, 1:] == first[:, :-1]).any()):
            order = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
            for channel in reversed(range(x.shape[2])):
                key = x[..., channel].gather(1, order)
                order = order.gather(1, key.sort(dim=1, stable=True).indices)
    return gather_points(x, order)
