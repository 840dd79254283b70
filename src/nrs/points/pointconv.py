"""PointConv (Wu et al., CVPR 2019): weights as a function of place, scaled by inverse density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nrs.points.density import density
from nrs.points.encoder import PointEncoder
from nrs.points.gather import gather_points
from nrs.points.grouping import sample_centres
from nrs.points.head import PointHead
from nrs.points.neighbours import knn
from nrs.points.shared import SharedLayer, shared_layers

# Width of the weight function's output.
WEIGHTS = 16


class PointConvLevel(nn.Module):
    """A convolution over the nearest neighbours of a few centres.

    **Shape** xyz ``(B, N, 3)``, features ``(B, N, C)`` or None; output the centres ``(B, S, 3)``
    and their features ``(B, S, widths[-1])``; S is 1 without `centres`.

    Parameters
    ----------
    in_features : C, 0 for None.
    widths : of the shared layers.
    bandwidth : of the density estimate.
    centres, k : how many centres, and neighbours of each; None for one group, the whole cloud.

    Examples
    --------
    >>> level = PointConvLevel(0, (16, 32), bandwidth=0.1, centres=8, k=4)
    >>> level(torch.rand(2, 50, 3), None)[1].shape
    torch.Size([2, 8, 32])
    """

    def __init__(
        self,
        in_features: int,
        widths: Sequence[int],
        *,
        bandwidth: float,
        centres: int | None = None,
        k: int = 0,
    ) -> None:
        super().__init__()
        self.bandwidth, self.centres, self.k = bandwidth, centres, k
        self.layers = shared_layers(3 + in_features, *widths)
        self.weights = shared_layers(3, 8, 8, WEIGHTS)
        self.scale = shared_layers(1, 16, 8)
        self.last_scale = SharedLayer(8, 1, slope=None)
        self.join = SharedLayer(WEIGHTS * widths[-1], widths[-1])

    def forward(self, xyz: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        inverse = 1 / density(xyz, self.bandwidth).unsqueeze(-1)
        parts = [xyz, inverse] if features is None else [xyz, inverse, features]
        table = torch.cat(parts, dim=-1)
        if self.centres is None:
            centres = xyz.mean(1, keepdim=True)
            groups = table.unsqueeze(1)
        else:
            centres = sample_centres(xyz, self.centres, random=self.training)
            near = knn(xyz, min(self.k, xyz.shape[1]), centres)
            groups = gather_points(table, near)
        offset = groups[..., :3] - centres.unsqueeze(2)
        rare = groups[..., 3:4]
        scale = torch.sigmoid(self.last_scale(self.scale(rare / rare.amax(2, keepdim=True))))
        h = self.layers(torch.cat([offset, groups[..., 4:]], dim=-1)) * scale
        # Sum over neighbours of features × weights of their place.
        h = torch.matmul(h.transpose(2, 3), self.weights(offset))
        return centres, self.join(h.flatten(2))


class PointConv(PointEncoder):
    """PointConv with density, single scale.

    **Shape** input ``(B, N, 6)`` with normals, else ``(B, N, 3)``; output ``(B, num_classes)``.

    Parameters
    ----------
    num_classes : width of the output.
    subspace : arguments of :class:`nrs.NRS` between the global feature of 1,024 numbers and the
        classifier. None is the plain network.
    normals : whether a point has a normal besides its coordinates.
    centres, k, bandwidths : of the levels; the defaults are the published ones.
    dropout : of the hidden layers of the classifier.

    Examples
    --------
    >>> sum(p.numel() for p in PointConv(40).parameters())
    19569657
    """

    num_features = 1024

    def __init__(
        self,
        num_classes: int = 40,
        subspace: Mapping[str, Any] | None = None,
        normals: bool = True,
        *,
        centres: tuple[int, int] = (512, 128),
        k: tuple[int, int] = (32, 64),
        bandwidths: tuple[float, float, float] = (0.1, 0.2, 0.4),
        dropout: float = 0.4,
    ) -> None:
        super().__init__(normals=normals)
        self.level1 = PointConvLevel(
            self.channels - 3, (64, 64, 128), bandwidth=bandwidths[0], centres=centres[0], k=k[0]
        )
        self.level2 = PointConvLevel(
            128, (128, 128, 256), bandwidth=bandwidths[1], centres=centres[1], k=k[1]
        )
        self.level3 = PointConvLevel(256, (256, 512, 1024), bandwidth=bandwidths[2])
        self.head = PointHead(1024, num_classes, subspace=subspace, dropout=dropout)

    def _features(self, x: Tensor) -> Tensor:
        xyz, normals = x[..., :3], x[..., 3:] if self.normals else None
        xyz, h = self.level1(xyz, normals)
        xyz, h = self.level2(xyz, h)
        features: Tensor = self.level3(xyz, h)[1].squeeze(1)
        return features
