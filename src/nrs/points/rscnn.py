"""RS-CNN (Liu et al., CVPR 2019): weights learned from the relation between two points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nrs.points.encoder import PointEncoder
from nrs.points.gather import gather_points
from nrs.points.grouping import sample_centres
from nrs.points.head import PointHead
from nrs.points.neighbours import ball_query
from nrs.points.pooled import PooledLayer
from nrs.points.shared import SharedLayer, SharedMap

# Distance, both points, and their difference: the published relation prior 1.
RELATION = 10
# Width to which the first level raises the coordinates.
RAISED = 16


class RelationConv(nn.Module):
    """A convolution whose weights are a function of the relation of a point to its centre.

    **Shape** xyz ``(B, N, 3)``, features ``(B, N, C)`` or None; output the centres ``(B, S, 3)``
    and their features ``(B, S, out_features)``.

    Parameters
    ----------
    in_features : C, 0 for None.
    out_features : of a centre.
    first : whether it is the first level, which raises its input to 16 features.
    centres, radius, k : how many centres; a neighbourhood is the nearest k points within the
        radius.

    Examples
    --------
    >>> level = RelationConv(0, 32, first=True, centres=8, radius=0.5, k=4)
    >>> level(torch.rand(2, 50, 3), None)[1].shape
    torch.Size([2, 8, 32])
    """

    def __init__(
        self, in_features: int, out_features: int, *, first: bool, centres: int, radius: float,
        k: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.centres, self.radius, self.k = centres, radius, k
        width = 3 + in_features
        self.raise_input = SharedLayer(width, RAISED) if first else None
        width = RAISED if first else width
        hidden = out_features // (2 if first else 4)
        self.relation = SharedLayer(RELATION, hidden)
        self.relation_weights = SharedMap(hidden, width)
        self.norm = nn.BatchNorm1d(width)
        self.join = SharedLayer(width, out_features)
        # The published network counts this normalisation in every level and uses it in the first
        # only; without a gradient it stays out of the way of training on several processes.
        self.unused = None if first else nn.BatchNorm1d(RAISED).requires_grad_(False)

    def forward(self, xyz: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        centres = sample_centres(xyz, self.centres, random=self.training)
        near = ball_query(xyz, min(self.k, xyz.shape[1]), self.radius, centres)
        table = xyz if features is None else torch.cat([xyz, features], dim=-1)
        groups = gather_points(table, near)
        place = groups[..., :3]
        centre = centres.unsqueeze(2).expand_as(place)
        offset = place - centre
        distance = torch.linalg.vector_norm(offset, dim=-1, keepdim=True)
        relation = torch.cat([distance, centre, place, offset], dim=-1)
        weights = self.relation_weights(self.relation(relation))
        h = torch.cat([offset, groups[..., 3:]], dim=-1)
        if self.raise_input is not None:
            h = self.raise_input(h)
        h = h * weights
        h = self.norm(h.flatten(0, 2)).view_as(h)
        return centres, self.join(torch.relu(h.amax(2)))


class RSCNN(PointEncoder):
    """RS-CNN, single scale, relation prior 1.

    **Shape** input ``(B, N, 3)``, or ``(B, N, 6)`` with normals; output ``(B, num_classes)``.

    Parameters
    ----------
    num_classes : width of the output.
    subspace : arguments of :class:`nrs.NRS` between the global feature of 1,024 numbers and the
        classifier. None is the plain network.
    normals : whether a point has a normal besides its coordinates.
    centres, radii, k : of the two levels; the defaults are the published ones.
    dropout : of the hidden layers of the classifier.

    Examples
    --------
    >>> sum(p.numel() for p in RSCNN(40).parameters())
    1289505
    """

    num_features = 1024

    def __init__(
        self,
        num_classes: int = 40,
        subspace: Mapping[str, Any] | None = None,
        normals: bool = False,
        *,
        centres: tuple[int, int] = (512, 128),
        radii: tuple[float, float] = (0.23, 0.32),
        k: tuple[int, int] = (48, 64),
        dropout: float = 0.5,
    ) -> None:
        super().__init__(normals=normals)
        self.level1 = RelationConv(
            self.channels - 3, 128, first=True, centres=centres[0], radius=radii[0], k=k[0]
        )
        self.level2 = RelationConv(
            128, 512, first=False, centres=centres[1], radius=radii[1], k=k[1]
        )
        self.pool = PooledLayer(3 + 512, 1024)
        self.head = PointHead(1024, num_classes, subspace=subspace, dropout=dropout, bias=False)

    def _features(self, x: Tensor) -> Tensor:
        xyz, normals = x[..., :3], x[..., 3:] if self.normals else None
        xyz, h = self.level1(xyz, normals)
        xyz, h = self.level2(xyz, h)
        features: Tensor = self.pool(torch.cat([xyz, h], dim=-1))
        return features
