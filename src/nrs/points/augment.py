"""Random changes of a cloud that leave its class as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Augmentation:
    """The paper's augmentations, in this order; all randomness is torch's global generator.

    Parameters
    ----------
    drop : float
        At most this part of the points, drawn anew for every cloud, is replaced by the first
        point (0.875 for PointNet and PointNet++).
    rotate : {"", "y", "z", "any"}
        Turn about an axis, about any, or not. ModelNet's meshes stand along z, the published
        HDF5 clouds along y.
    scale : (float, float)
        Least and largest factor of all coordinates.
    shift : float
        Largest shift along each axis.
    jitter : float
        Standard deviation of the noise of each coordinate, cut off at five times that.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> cloud = torch.rand(100, 3)
    >>> Augmentation(drop=0.5, scale=(0.8, 1.25), shift=0.1)(cloud).shape
    torch.Size([100, 3])
    """

    drop: float = 0.0
    rotate: str = ""
    scale: tuple[float, float] = (1.0, 1.0)
    shift: float = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.drop < 1:
            raise ValueError(f"drop must be at least 0 and below 1, however: drop={self.drop}")
        if self.rotate not in ("", "y", "z", "any"):
            raise ValueError(
                f"rotate must be '', 'y', 'z' or 'any', however: rotate={self.rotate!r}"
            )
        if len(self.scale) != 2 or not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(
                f"scale must be a least and a largest factor above 0, however: scale={self.scale}"
            )
        for name in ("shift", "jitter"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} must be at least 0, however: {name}={getattr(self, name)}"
                )

    def __call__(self, cloud: Tensor) -> Tensor:
        """Change a cloud (N, 3), or (N, 6) with normals; the given one stays as it is."""
        if self.drop:
            cloud = random_drop(cloud, self.drop)
        if self.rotate:
            cloud = rotate(cloud, random_rotation(self.rotate))
        xyz = cloud[:, :3]
        low, high = self.scale
        if low != high or low != 1:
            xyz = xyz * (low + (high - low) * torch.rand(()))
        if self.shift:
            xyz = xyz + (2 * torch.rand(3) - 1) * self.shift
        if self.jitter:
            limit = 5 * self.jitter
            xyz = xyz + (torch.randn(xyz.shape) * self.jitter).clamp_(-limit, limit)
        return torch.cat([xyz, cloud[:, 3:]], dim=1) if cloud.shape[1] > 3 else xyz


def random_drop(cloud: Tensor, most: float) -> Tensor:
    """Replace a random part of the points, at most `most`, by the first point.

    Examples
    --------
    >>> random_drop(torch.rand(50, 3), 0.875).shape
    torch.Size([50, 3])
    """
    ratio = torch.rand(()) * most
    dropped = torch.rand(len(cloud)) < ratio
    return torch.where(dropped.unsqueeze(1), cloud[:1], cloud)


def random_rotation(axis: str = "any") -> Tensor:
    """A random rotation (3, 3): about the axis "y" or "z", or uniform over all rotations.

    Examples
    --------
    >>> turn = random_rotation("y")
    >>> bool(torch.allclose(turn @ turn.T, torch.eye(3), atol=1e-6)), turn[1].tolist()
    (True, [0.0, 1.0, 0.0])
    """
    if axis != "any":
        angle = float(torch.rand(())) * 2 * math.pi
        c, s = math.cos(angle), math.sin(angle)
        if axis == "z":
            return torch.tensor([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        return torch.tensor([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    # A random unit quaternion.
    w, x, y, z = (q := torch.randn(4)).div_(q.norm()).tolist()
    return torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def rotate(cloud: Tensor, turn: Tensor) -> Tensor:
    """Rotate the points of a cloud, and their normals with them.

    **Shape** cloud ``(N, 3)`` or ``(N, 6)``, turn ``(3, 3)``.

    Examples
    --------
    >>> rotate(torch.tensor([[1.0, 0, 0]]), torch.tensor([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]]))
    tensor([[ 0.,  0., -1.]])
    """
    turned = [part @ turn.t() for part in cloud.split(3, dim=1)]
    return torch.cat(turned, dim=1)
