"""Centres of neighbourhoods: sampled by distance, from a random start while training."""

from __future__ import annotations

import torch
from torch import Tensor

from nrs.points.farthest import farthest_point_sampling
from nrs.points.gather import gather_points


def sample_centres(xyz: Tensor, n: int, *, random: bool) -> Tensor:
    """Choose n points that cover each cloud; all of them, if it has no more.

    **Shape** xyz ``(B, N, 3)``, output ``(B, min(n, N), 3)``.

    Parameters
    ----------
    xyz : Tensor
    n : int
    random : bool
        Whether the first centre is random, from torch's global generator (training), or the
        point farthest from the centroid (evaluation).

    Examples
    --------
    >>> sample_centres(torch.rand(2, 10, 3), 4, random=False).shape
    torch.Size([2, 4, 3])
    """
    batch, points = xyz.shape[:2]
    if n >= points:
        return xyz
    start = torch.randint(points, (batch,), device=xyz.device) if random else None
    return gather_points(xyz, farthest_point_sampling(xyz, n, start=start))
