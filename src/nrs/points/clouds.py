"""Clouds as numbers: where they lie, how large they are, how many points they have."""

from __future__ import annotations

import torch
from torch import Tensor

from nrs.points.checks import check_finite
from nrs.points.farthest import farthest_point_sampling
from nrs.points.gather import canonical_order

# Of more points so many are drawn before the farthest are looked for, which takes a second then.
MOST_POINTS = 100_000


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

    **Shape** cloud ``(N, C)``, output ``(n, C)``.

    Parameters
    ----------
    cloud : Tensor
    n : int
    random : bool
        Whether they are drawn (from torch's global generator) or the first ones.

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


def spread_points(cloud: Tensor, n: int, *, most: int = MOST_POINTS) -> Tensor:
    """Take n points that cover a cloud, the same ones whatever their order.

    **Shape** cloud ``(N, C)``, its first three channels the coordinates; output ``(n, C)``.

    Parameters
    ----------
    cloud : Tensor
    n : int
        How many; a cloud that has no more is given as it is.
    most : int
        Of a longer cloud so many points are drawn first, always the same.

    Examples
    --------
    >>> line = torch.arange(9.0).unsqueeze(1) * torch.tensor([1.0, 0, 0])
    >>> sorted(spread_points(line, 3)[:, 0].tolist())
    [0.0, 4.0, 8.0]
    """
    if len(cloud) <= n:
        return cloud
    cloud = canonical_order(cloud.unsqueeze(0))[0]
    if len(cloud) > most:
        drawn = torch.randperm(len(cloud), generator=torch.Generator().manual_seed(0))
        cloud = cloud[drawn[: max(n, most)]]
    # In the unit sphere, where squares of distances neither overflow nor vanish.
    places = unit_sphere(cloud[:, :3])
    return cloud[farthest_point_sampling(places.unsqueeze(0), n)[0]]
