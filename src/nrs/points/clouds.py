"""Clouds as numbers: where they lie, how large they are, how many points they have."""

from __future__ import annotations

import torch
from torch import Tensor

from nrs.points.checks import check_finite


def unit_sphere(cloud: Tensor) -> Tensor:
    """Move a cloud's centroid to the origin and its farthest point to distance 1.

    Normals stay as they are. A cloud without extent stays at the origin.

    **Shape** ``(..., N, 3)``, or ``(..., N, 6)`` with normals; output the same.

    Raises
    ------
    ValueError
        If a number is NaN or infinite.

    Examples
    --------
    >>> unit_sphere(torch.tensor([[1.0, 0, 0], [5.0, 0, 0]])).tolist()
    [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    check_finite(cloud, "the cloud")
    xyz = cloud[..., :3]
    # About one of its points first: the mean of a small cloud far away would lose digits.
    xyz = xyz - xyz[..., :1, :]
    xyz = xyz - xyz.mean(-2, keepdim=True)
    largest = xyz.abs().amax((-2, -1), keepdim=True)
    xyz = xyz / torch.where(largest > 0, largest, 1)
    radius = torch.linalg.vector_norm(xyz, dim=-1, keepdim=True).amax(-2, keepdim=True)
    xyz = xyz / torch.where(radius > 0, radius, 1)
    return torch.cat([xyz, cloud[..., 3:]], dim=-1) if cloud.shape[-1] > 3 else xyz


def choose_points(cloud: Tensor, n: int, *, random: bool) -> Tensor:
    """Take n points of a cloud; a smaller one gives some of its points twice.

    Parameters
    ----------
    cloud : Tensor
    n : int
    random : bool
        Whether they are drawn (from torch's global generator) or the first ones.

    **Shape** cloud ``(N, C)``, output ``(n, C)``.

    Examples
    --------
    >>> choose_points(torch.tensor([[1.0], [2.0]]), 3, random=False).tolist()
    [[1.0], [2.0], [1.0]]
    """
    points = len(cloud)
    if points == 0:
        raise ValueError("a cloud must have a point, however: it has none")
    if not random:
        return cloud[torch.arange(n) % points] if n > points else cloud[:n]
    order = torch.randperm(points)
    if n > points:
        order = torch.cat([order, torch.randint(points, (n - points,))])
    return cloud[order[:n]]
