"""Farthest point sampling: a few points that cover a cloud."""

from __future__ import annotations

import torch
from torch import Tensor

from nrs.points.checks import check_clouds, check_count


def farthest_from_centroid(xyz: Tensor) -> Tensor:
    """The point of every cloud that is farthest from the mean of its points.

    **Shape** xyz ``(B, N, D)``, output ``(B,)`` int64.

    Examples
    --------
    >>> farthest_from_centroid(torch.tensor([[[0.0], [1.0], [9.0]]])).tolist()
    [2]
    """
    return (xyz - xyz.mean(1, keepdim=True)).square().sum(-1).argmax(1)


def farthest_point_sampling(xyz: Tensor, n: int, *, start: Tensor | None = None) -> Tensor:
    """Sample n points of every cloud, each as far as can be from those before it.

    **Shape** xyz ``(B, N, D)``, start ``(B,)`` int64, output ``(B, n)`` int64.

    Parameters
    ----------
    xyz : Tensor
        The clouds.
    n : int
        How many points, from 1 to N. If a cloud has fewer distinct points, some come twice.
    start : Tensor, optional
        The first point of every cloud; by default the one farthest from the centroid, so that
        the sample depends on the cloud and not on the order of its points.

    Returns
    -------
    Tensor
        Row numbers in the order of sampling.

    Raises
    ------
    ValueError
        If a shape or n does not fit.

    Examples
    --------
    >>> line = torch.tensor([[[0.0], [1.0], [2.0], [3.0], [4.5]]])
    >>> farthest_point_sampling(line, 3).tolist()
    [[4, 0, 2]]
    """
    check_clouds(xyz)
    batch, points, _ = xyz.shape
    check_count("n", n, points)
    if start is not None and start.shape != (batch,):
        raise ValueError(
            f"start must be one row number for each of {batch} clouds, however: its shape is "
            f"{tuple(start.shape)}"
        )
    # In a graph it is one operator: hundreds of steps would be as many nodes.
    sample = torch.ops.nrs.farthest_points if torch.compiler.is_compiling() else _sample
    with torch.no_grad():
        found: Tensor = sample(xyz, n, start)
    return found


def _sample(xyz: Tensor, n: int, start: Tensor | None) -> Tensor:
    batch, points, dimensions = xyz.shape
    # A coordinate a plane: every step is then a few sums over contiguous memory, in place.
    planes = xyz.permute(2, 0, 1).contiguous()
    chosen = torch.empty(n, batch, dtype=torch.int64, device=xyz.device)
    chosen[0] = farthest_from_centroid(xyz) if start is None else start
    nearest = xyz.new_full((batch, points), torch.inf)
    distance, offset = torch.empty_like(nearest), torch.empty_like(nearest)
    for step in range(1, n):
        last = chosen[step - 1].view(1, batch, 1).expand(dimensions, -1, -1)
        centre = planes.gather(2, last)
        torch.sub(planes[0], centre[0], out=distance).mul_(distance)
        for plane, coordinate in zip(planes[1:], centre[1:], strict=True):
            torch.sub(plane, coordinate, out=offset)
            distance.addcmul_(offset, offset)
        torch.minimum(nearest, distance, out=nearest)
        torch.argmax(nearest, 1, out=chosen[step])
    return chosen.t().contiguous()


_operator = torch.library.custom_op(
    "nrs::farthest_points", _sample, mutates_args=(),
    schema="(Tensor xyz, int n, Tensor? start) -> Tensor",
)  # fmt: skip


@_operator.register_fake
def _shape_of_sample(xyz: Tensor, n: int, start: Tensor | None) -> Tensor:
    return xyz.new_empty(xyz.shape[0], n, dtype=torch.int64)
