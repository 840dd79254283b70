"""PointNet++ with single-scale grouping (Qi et al., NeurIPS 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nrs.points.encoder import PointEncoder
from nrs.points.gather import gather_points
from nrs.points.grouping import sample_centres
from nrs.points.head import PointHead
from nrs.points.neighbours import ball_query
from nrs.points.pooled import PooledLayer
from nrs.points.shared import shared_layers


class SetAbstraction(nn.Module):
    """A small PointNet on the neighbourhood of each of a few centres.

    **Shape** xyz ``(B, N, 3)``, features ``(B, N, C)`` or None; output the centres ``(B, S, 3)``
    and their features ``(B, S, widths[-1])``. Without `centres` the whole cloud is one group and
    the output ``(B, widths[-1])``.

    Parameters
    ----------
    in_features : C, 0 for None.
    widths : of the shared layers.
    centres : how many centres (all points of a smaller cloud).
    radius, k : a neighbourhood is the nearest k points within the radius.

    Examples
    --------
    >>> level = SetAbstraction(0, (16, 32), centres=8, radius=0.5, k=4)
    >>> centres, features = level(torch.rand(2, 50, 3), None)
    >>> centres.shape, features.shape
    (torch.Size([2, 8, 3]), torch.Size([2, 8, 32]))
    """

    def __init__(
        self,
        in_features: int,
        widths: Sequence[int],
        *,
        centres: int | None = None,
        radius: float = 0.0,
        k: int = 0,
    ) -> None:
        super().__init__()
        self.centres, self.radius, self.k = centres, radius, k
        self.layers = shared_layers(3 + in_features, *widths[:-1])
        self.pool = PooledLayer(widths[-2], widths[-1])

    def forward(self, xyz: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.centres is None:
            return xyz, self.pool(self.layers(_joined(xyz, features)))
        centres = sample_centres(xyz, self.centres, random=self.training)
        near = ball_query(xyz, min(self.k, xyz.shape[1]), self.radius, centres)
        groups = gather_points(_joined(xyz, features), near)
        offset = groups[..., :3] - centres.unsqueeze(2)
        return centres, self.pool(self.layers(torch.cat([offset, groups[..., 3:]], dim=-1)))


class PointNet2(PointEncoder):
    """PointNet++ with single-scale grouping: two levels of neighbourhoods, then the whole.

    **Shape** input ``(B, N, 6)`` with normals, else ``(B, N, 3)``; output ``(B, num_classes)``.

    Parameters
    ----------
    num_classes : width of the output.
    subspace : arguments of :class:`nrs.NRS` between the global feature of 1,024 numbers and the
        classifier; the paper's are ``dict(n_mul=1, n_per=32)``. None is the plain network.
    normals : whether a point has a normal besides its coordinates.
    centres, radii, k : of the two levels; the defaults are the published ones. Fewer centres and
        neighbours are faster, with the same weights.
    dropout : of the hidden layers of the classifier.

    Examples
    --------
    >>> model = PointNet2(40, subspace=dict(n_mul=1, n_per=32))
    >>> sum(p.numel() for p in model.parameters())
    1773864
    >>> model.eval()(torch.rand(2, 64, 6)).shape
    torch.Size([2, 40])
    """

    num_features = 1024

    def __init__(
        self,
        num_classes: int = 40,
        subspace: Mapping[str, Any] | None = None,
        normals: bool = True,
        *,
        centres: tuple[int, int] = (512, 128),
        radii: tuple[float, float] = (0.2, 0.4),
        k: tuple[int, int] = (32, 64),
        dropout: float = 0.4,
    ) -> None:
        super().__init__(normals=normals)
        self.level1 = SetAbstraction(
            self.channels - 3, (64, 64, 128), centres=centres[0], radius=radii[0], k=k[0]
        )
        self.level2 = SetAbstraction(
            128, (128, 128, 256), centres=centres[1], radius=radii[1], k=k[1]
        )
        self.level3 = SetAbstraction(256, (256, 512, 1024))
        self.head = PointHead(1024, num_classes, subspace=subspace, dropout=dropout)

    def _features(self, x: Tensor) -> Tensor:
        xyz, normals = x[..., :3], x[..., 3:] if self.normals else None
        xyz, h = self.level1(xyz, normals)
        xyz, h = self.level2(xyz, h)
        features: Tensor = self.level3(xyz, h)[1]
        return features


def _joined(xyz: Tensor, features: Tensor | None) -> Tensor:
    return xyz if features is None else torch.cat([xyz, features], dim=-1)
