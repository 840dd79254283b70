"""DGCNN (Wang et al., ACM TOG 2019): graphs of neighbours, found anew in every layer's features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nrs.points.edge_conv import EdgeConv
from nrs.points.encoder import PointEncoder
from nrs.points.head import PointHead
from nrs.points.neighbours import knn
from nrs.points.shared import SharedLayer

SLOPE = 0.2


class DGCNN(PointEncoder):
    """DGCNN with four edge convolutions and the maximum and mean of 1,024 embedded features.

    **Shape** input ``(B, N, 3)``, or ``(B, N, 6)`` with normals; output ``(B, num_classes)``.

    Parameters
    ----------
    num_classes : width of the output.
    subspace : arguments of :class:`nrs.NRS` between the global feature of 2,048 numbers and the
        classifier; the paper's are ``dict(n_mul=1, n_per=64)``. None is the plain network.
    normals : whether a point has a normal besides its coordinates.
    k : neighbours of a point, itself among them (all points of a smaller cloud).
    dropout : of the hidden layers of the classifier.

    Examples
    --------
    >>> model = DGCNN(40, subspace=dict(n_mul=1, n_per=64))
    >>> sum(p.numel() for p in model.parameters())
    2995368
    >>> model.eval()(torch.randn(2, 64, 3)).shape
    torch.Size([2, 40])
    """

    num_features = 2048

    def __init__(
        self,
        num_classes: int = 40,
        subspace: Mapping[str, Any] | None = None,
        normals: bool = False,
        *,
        k: int = 20,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(normals=normals)
        if k < 1:
            raise ValueError(f"k must be at least 1, however: k={k}")
        self.k = k
        self.edge1 = EdgeConv(self.channels, 64, k, slope=SLOPE)
        self.edge2 = EdgeConv(64, 64, k, slope=SLOPE)
        self.edge3 = EdgeConv(64, 128, k, slope=SLOPE)
        self.edge4 = EdgeConv(128, 256, k, slope=SLOPE)
        self.embedding = SharedLayer(512, 1024, bias=False, slope=SLOPE)
        self.head = PointHead(
            2048, num_classes, subspace=subspace, dropout=dropout, slope=SLOPE, bias=(False, True)
        )

    def _features(self, x: Tensor) -> Tensor:
        k = min(self.k, x.shape[1])
        # Normals are features, not places: the first graph is that of the coordinates.
        levels = [self.edge1(x, knn(x[..., :3], k))]
        for edge in (self.edge2, self.edge3, self.edge4):
            levels.append(edge(levels[-1], knn(levels[-1].detach(), k)))
        h = self.embedding(torch.cat(levels, dim=-1))
        return torch.cat([h.amax(1), h.mean(1)], dim=-1)
