"""The edge convolution of DGCNN, computed on points instead of on edges.

The map of an edge, W·[x_j − x_i, x_i], is A·x_j + (B − A)·x_i: two products a point instead of one
an edge. The maximum over neighbours is taken of A·x_j alone, before the normalisation, which is
monotone; the batch statistics over all edges follow from sums over neighbourhoods. Nothing of the
size (points × neighbours × channels) exists at any time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nrs.core.norm import bias_cancels
from nrs.points.gather import flat_index, gather_points
from nrs.points.shared import SharedLayer, check_rows


class EdgeConv(SharedLayer):
    """max over neighbours j of act(BN(W·[x_j − x_i, x_i])).

    `k` is how many neighbours a point has (all points of a smaller cloud).

    **Shape** x ``(B, N, in_features)``, neighbours ``(B, N, k)`` int64, output
    ``(B, N, out_features)``.

    Examples
    --------
    >>> neighbours = torch.tensor([[[0, 1], [1, 2], [2, 0]]])
    >>> EdgeConv(3, 8, k=2)(torch.randn(1, 3, 3), neighbours).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, in_features: int, out_features: int, k: int, *, slope: float = 0.2) -> None:
        super().__init__(2 * in_features, out_features, bias=False, slope=slope)
        self.edge_features, self.k = in_features, k

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:  # type: ignore[override]
        if self.norm.training and not bias_cancels(self.norm):
            return self._edges(x, neighbours)
        rows = x.reshape(-1, self.edge_features)
        index = flat_index(neighbours, x.shape[1]).view(-1, neighbours.shape[2])
        # An embedding bag has no autocast rule.
        with torch.autocast(x.device.type, enabled=False):
            rows = rows.to(self.weight.dtype)
            h = self._train(rows, index) if self.norm.training else self._evaluate(rows, index)
        return h.view(*x.shape[:2], self.out_features)

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds, and FLOPs as the paper counts them, of the map of all edges."""
        elements = output.numel() * min(self.k, x.shape[1])
        return elements * self.in_features, elements * (self.in_features + 4)

    def _edges(self, x: Tensor, neighbours: Tensor) -> Tensor:
        """The definition, edge by edge."""
        near = gather_points(x, neighbours)
        centre = x.unsqueeze(2).expand_as(near)
        edges = torch.cat([near - centre, centre], dim=-1)
        return SharedLayer.forward(self, edges).amax(2)

    def _split(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The parts of W that see x_j and x_i."""
        of_other = weight[:, : self.edge_features]
        return of_other, weight[:, self.edge_features :] - of_other

    def _train(self, rows: Tensor, index: Tensor) -> Tensor:
        norm = self.norm
        edges = index.numel()
        check_rows(edges)
        sign = torch.where(norm.weight.detach() < 0, -1.0, 1.0).to(self.weight.dtype)
        of_other, of_own = self._split(self.weight * sign.unsqueeze(1))
        other, own = F.linear(rows, of_other), F.linear(rows, of_own)
        # About their means: the sums of squares below lose no digits.
        shift_other, shift_own = other.detach().mean(0), own.detach().mean(0)
        other, own = other - shift_other, own - shift_own
        best = F.embedding_bag(index, other, mode="max") + own
        sums = F.embedding_bag(index, other, mode="sum")
        degree = torch.bincount(index.view(-1), minlength=len(rows)).to(rows.dtype)
        k = index.shape[1]
        mean = (sums.sum(0) + k * own.sum(0)) / edges
        squares = torch.mv(other.square().t(), degree) + (2 * sums * own + k * own.square()).sum(0)
        variance = (squares / edges - mean.square()).clamp_min(0)
        scale = norm.weight * sign * torch.rsqrt(variance + norm.eps)
        h = (best - mean) * scale + norm.bias
        with torch.no_grad():
            assert norm.momentum is not None
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.lerp_((mean + shift_other + shift_own) * sign, norm.momentum)
            norm.running_var.lerp_(variance * (edges / (edges - 1)), norm.momentum)
            if norm.num_batches_tracked is not None:
                norm.num_batches_tracked.add_(1)
        return self._activate(h)

    def _evaluate(self, rows: Tensor, index: Tensor) -> Tensor:
        weight, shift = self._folded()
        of_other, of_own = self._split(weight)
        other = F.linear(rows, of_other)
        best = other.index_select(0, index[:, 0])
        for column in index.t()[1:]:
            best = torch.maximum(best, other.index_select(0, column))
        return self._activate(best + F.linear(rows, of_own, shift))
