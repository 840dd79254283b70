"""A shared layer and the maximum over a group of points, without a backward pass for the losers.

Batch normalisation and ReLU are monotone in each channel, so the maximum may be taken before them.
The batch statistics of W·x follow from the mean and covariance of x. So nothing of the size
(points × channels) is kept, and the gradient flows through one point a channel, not through all:
with 512 points a group, training costs little more than the forward pass. The numbers are those
of the plain sequence of layers, which the tests check.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nrs.core.norm import bias_cancels
from nrs.points.shared import SharedLayer, check_rows

# Elements of W·x that are held at a time: 4 MB of float32.
_CHUNK = 1 << 20
# From this many points a group on, winners are handled one by one.
_LARGE = 128


class PooledLayer(SharedLayer):
    """A `SharedLayer` followed by the maximum over the points of a group.

    **Shape** input ``(..., K, in_features)``, output ``(..., out_features)``.

    Examples
    --------
    >>> PooledLayer(64, 1024)(torch.randn(2, 100, 64)).shape
    torch.Size([2, 1024])
    """

    def forward(self, x: Tensor) -> Tensor:
        groups = x.reshape(-1, *x.shape[-2:])
        if not self.norm.training:
            h = self._evaluate(groups)
        elif bias_cancels(self.norm):
            # The winners are found in full precision: ties are rarer, and statistics exact.
            with torch.autocast(x.device.type, enabled=False):
                h = self._train(groups.float() if x.dtype != self.weight.dtype else groups)
        else:
            rows = groups.flatten(0, 1)
            h = self._layer(rows).view(*groups.shape[:2], -1).amax(1)
        return h.view(*x.shape[:-2], self.out_features)

    def _train(self, groups: Tensor) -> Tensor:
        norm = self.norm
        rows = groups.shape[0] * groups.shape[1]
        check_rows(rows)
        # A negative factor of the normalisation turns the maximum into a minimum.
        sign = torch.where(norm.weight.detach() < 0, -1.0, 1.0).to(self.weight.dtype)
        winner, mean, variance = _Winners.apply(groups, self.weight * sign.unsqueeze(1))
        scale = norm.weight * sign * torch.rsqrt(variance + norm.eps)
        # The bias cancels; it enters the graph so that its gradient is zero and not None.
        shift = norm.bias if self.bias is None else torch.add(norm.bias, self.bias, alpha=0)
        h = (winner - mean) * scale + shift
        with torch.no_grad():
            assert norm.momentum is not None
            assert norm.running_mean is not None
            assert norm.running_var is not None
            mean = mean * sign if self.bias is None else mean * sign + self.bias
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance * (rows / (rows - 1)), norm.momentum)
            if norm.num_batches_tracked is not None:
                norm.num_batches_tracked.add_(1)
        return self._activate(h)

    def _evaluate(self, groups: Tensor) -> Tensor:
        weight, shift = self._folded()
        if torch.compiler.is_compiling():
            # A graph must not depend on the number of groups.
            return self._activate(_products(groups, weight).amax(-1) + shift)
        best = [_products(part, weight).amax(-1) for part in groups.split(_step(groups, weight))]
        return self._activate(torch.cat(best) + shift)


def _step(groups: Tensor, weight: Tensor) -> int:
    """Groups whose products fit into a chunk."""
    return max(1, _CHUNK // (groups.shape[1] * weight.shape[0]))


def _products(groups: Tensor, weight: Tensor) -> Tensor:
    """W·x as (R, C, K), the points last."""
    if groups.shape[1] >= _LARGE:
        # Not matmul, which multiplies the other way round and copies.
        return torch.bmm(weight.expand(groups.shape[0], -1, -1), groups.transpose(1, 2))
    # One product for all groups is faster than many small ones.
    return torch.matmul(groups, weight.t()).transpose(1, 2)


class _Winners(torch.autograd.Function):
    """Maximum over points of W·x, and mean and biased variance of W·x over all points.

    **Shape** groups ``(R, K, I)``, weight ``(C, I)``; returns ``(R, C)``, ``(C,)``, ``(C,)``.
    """

    @staticmethod
    def forward(ctx: Any, groups: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        groups = groups.contiguous()
        best = groups.new_empty(groups.shape[0], weight.shape[0])
        index = torch.empty(best.shape, dtype=torch.int64, device=best.device)
        step = _step(groups, weight)
        for first in range(0, len(groups), step):
            some = slice(first, first + step)
            best[some], index[some] = _products(groups[some], weight).max(-1)
        rows = groups.flatten(0, 1)
        mean = rows.mean(0)
        centred = rows - mean
        covariance = centred.t() @ centred / len(rows)
        ctx.save_for_backward(groups, weight, index, mean, covariance)
        return best, weight @ mean, ((weight @ covariance) * weight).sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_best: Tensor, of_mean: Tensor, of_variance: Tensor) -> Any:
        groups, weight, index, mean, covariance = ctx.saved_tensors
        rows = groups.flatten(0, 1)
        # Through the statistics: var = w·cov·w, cov = Σ (x − mean)(x − mean)ᵀ / n.
        grad_weight = torch.outer(of_mean, mean)
        grad_weight.addcmul_(of_variance.unsqueeze(1), weight @ covariance, value=2)
        if not ctx.needs_input_grad[0]:
            grad_rows = None
        else:
            turn = (weight.t() * of_variance) @ weight * (2 / len(rows))
            constant = (of_mean @ weight) / len(rows) - mean @ turn
            grad_rows = torch.addmm(constant, rows, turn)
        if groups.shape[1] >= _LARGE:
            _large_groups(groups, weight, index, of_best, grad_weight, grad_rows)
        else:
            _small_groups(groups, weight, index, of_best, grad_weight, grad_rows)
        return None if grad_rows is None else grad_rows.view_as(groups), grad_weight


def _large_groups(
    groups: Tensor,
    weight: Tensor,
    index: Tensor,
    gradient: Tensor,
    grad_weight: Tensor,
    grad_rows: Tensor | None,
) -> None:
    """Add the gradient of the winners, one of many points a channel, by gathering them."""
    for number, group in enumerate(groups):
        factor = gradient[number].unsqueeze(1)
        grad_weight.addcmul_(group.index_select(0, index[number]), factor)
        if grad_rows is not None:
            mine = grad_rows.view_as(groups)[number]
            mine.index_add_(0, index[number], weight * factor)


def _small_groups(
    groups: Tensor,
    weight: Tensor,
    index: Tensor,
    gradient: Tensor,
    grad_weight: Tensor,
    grad_rows: Tensor | None,
) -> None:
    """Add the gradient of the winners, one of few points a channel, as a dense product."""
    step = _step(groups, weight)
    for first in range(0, len(groups), step):
        some = slice(first, first + step)
        part = groups[some]
        dense = part.new_zeros(len(part), part.shape[1], weight.shape[0])
        dense.scatter_(1, index[some].unsqueeze(1), gradient[some].unsqueeze(1))
        flat = dense.flatten(0, 1)
        grad_weight.addmm_(flat.t(), part.flatten(0, 1))
        if grad_rows is not None:
            grad_rows.view_as(groups)[some].flatten(0, 1).addmm_(flat, weight)
