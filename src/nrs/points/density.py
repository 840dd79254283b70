"""How densely the surface of a cloud is sampled around each of its points."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nrs.points.checks import check_clouds
from nrs.points.neighbours import CHUNK, raised, squared_distances


def density(xyz: Tensor, bandwidth: float, *, chunk: int = CHUNK) -> Tensor:
    """Estimate the density at every point of a cloud with a Gaussian kernel.

    The mean over the cloud of exp(−‖p − q‖² / 2h²) / (√(2π)·h).

    **Shape** xyz ``(B, N, D)``, output ``(B, N)``.

    Parameters
    ----------
    xyz : Tensor
        The clouds.
    bandwidth : float
        h, more than 0.
    chunk : int
        At most so many distances are held at once (at least a row of N).

    Raises
    ------
    ValueError
        If a shape or the bandwidth does not fit.

    Examples
    --------
    >>> pair = torch.tensor([[[0.0], [0.0], [9.0]]])
    >>> [round(value, 3) for value in density(pair, 0.1)[0].tolist()]
    [2.66, 2.66, 1.33]
    """
    check_clouds(xyz)
    if not bandwidth > 0:
        raise ValueError(f"bandwidth must be more than 0, however: bandwidth={bandwidth}")
    batch, points, _ = xyz.shape
    found = xyz.new_empty(batch, points)
    scale = 1 / (math.sqrt(2 * math.pi) * bandwidth)
    rows = max(1, min(points, chunk // points))
    with torch.no_grad():
        precise = raised(xyz)
        centred = precise - precise.mean(1, keepdim=True)
        if torch.compiler.is_compiling():
            # A graph must not depend on the number of clouds.
            apart = 1 - torch.eye(points, device=xyz.device)
            squares = squared_distances(centred, centred) * apart
            return (squares * (-0.5 / bandwidth**2)).exp().mean(-1).mul(scale).to(xyz.dtype)
        for cloud in range(batch):
            for row in range(0, points, rows):
                part = slice(row, row + rows)
                squares = squared_distances(
                    centred[cloud : cloud + 1], centred[cloud : cloud + 1, part]
                )
                # Rounding must not move a point away from itself: its density is never 0.
                squares[0].diagonal(row).zero_()
                kernel = squares.mul_(-0.5 / bandwidth**2).exp_()
                found[cloud, part] = kernel[0].mean(-1).mul_(scale)
    return found
