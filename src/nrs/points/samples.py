"""Clouds with labels as a map-style dataset, for the training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nrs.points.clouds import choose_points, unit_sphere


class CloudSamples:
    """Arrays of clouds as samples: points chosen, put into the unit sphere, maybe augmented.

    Parameters
    ----------
    clouds : array (n, N, 3 or 6)
        Any floating-point type.
    labels : sequence of int
        From 0.
    points : int
        How many points a sample has: drawn at random with an `augmentation`, else the first.
    augmentation : callable, optional
        Changes a cloud at random; see `nrs.points.Augmentation`.
    normals : bool
        Whether samples have six channels.

    Raises
    ------
    ValueError
        If the arrays do not fit.

    Examples
    --------
    >>> clouds = np.random.default_rng(0).normal(size=(4, 50, 3)).astype(np.float32)
    >>> samples = CloudSamples(clouds, [0, 1, 0, 1], points=20)
    >>> cloud, label = samples[1]
    >>> len(samples), cloud.shape, label
    (4, torch.Size([20, 3]), 1)
    """

    def __init__(
        self,
        clouds: Any,
        labels: Sequence[int],
        *,
        points: int,
        augmentation: Callable[[Tensor], Tensor] | None = None,
        normals: bool = False,
    ) -> None:
        channels = 6 if normals else 3
        shape = tuple(np.shape(clouds))
        if len(shape) != 3 or shape[2] < channels or shape[1] == 0:
            raise ValueError(
                f"clouds must be an array (clouds, points, {channels}), however: {shape}; "
                + ("sample the meshes with normals" if normals else "give coordinates x, y, z")
            )
        if len(labels) != shape[0]:
            raise ValueError(
                f"clouds and labels must be as many, however: {shape[0]} and {len(labels)}"
            )
        if points < 1:
            raise ValueError(f"points must be at least 1, however: points={points}")
        self.clouds, self.labels = clouds, [int(label) for label in labels]
        self.points, self.augmentation, self.channels = points, augmentation, channels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        whole = torch.from_numpy(np.asarray(self.clouds[index], np.float32))[:, : self.channels]
        cloud = choose_points(whole, self.points, random=self.augmentation is not None)
        cloud = unit_sphere(cloud)
        if self.augmentation is not None:
            cloud = self.augmentation(cloud)
        return cloud, self.labels[index]
