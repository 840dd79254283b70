"""WassRank: the cost of moving the histogram of scores onto that of labels.

The cost of moving mass between two documents depends on their grades alone, but for the diagonal.
So a product with the kernel e^{−C/ε} is a product of grades with grades, and one step of Sinkhorn
costs documents × grades where the plain form costs documents × documents. It stays in log space.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nrs.ranking.grades import Grades
from nrs.ranking.padded import LOWEST, gains_of

# Below every sum that matters, above 0 where a grade has no document.
_TINY = 1e-38


def transport_costs(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    *,
    epsilon: float = 0.1,
    iterations: int = 50,
    gap: float = 100.0,
    within: float = math.e,
    boost: Tensor | None = None,
) -> Tensor:
    """Entropic transport between softmax(s) and softmax(y) of each query, (queries,).

    The cost C_ij of moving mass between documents is 0 on the diagonal, `within` between documents
    of a grade, and |G_i − G_j| between grades, with a further `gap` between relevant and
    irrelevant ones. The loss is the dual value Σ_i a_i f_i + Σ_i b_i g_i of the transport from
    a = softmax(s) to b = softmax(y) with entropy `epsilon`, after so many iterations of Sinkhorn
    from f = g = 0 (g, then f); its gradient is that of these very iterations. (The primal value
    ⟨P, C⟩ would not do: within 50 iterations no mass crosses the gap, and only the potentials
    tell that it should.)
    With `boost`, (queries, documents), b is softmax(y) times it, normalised.
    """
    gains = gains_of(labels)
    log_a = scores.masked_fill(~mask, LOWEST).log_softmax(1).masked_fill(~mask, LOWEST)
    with torch.no_grad():
        logits = labels if boost is None else labels + boost.log()
        log_b = logits.masked_fill(~mask, LOWEST).log_softmax(1).masked_fill(~mask, LOWEST)
        kernel = _kernel(gains, mask, epsilon, gap, within)
    costs: Tensor = _Sinkhorn.apply(log_a, log_b, kernel, epsilon, iterations)
    return costs


class _Kernel(NamedTuple):
    """log e^{−C/ε} by grades.

    grades : the grades of the documents.
    between : (grades, grades) log-kernel between different documents of two grades.
    own : log(1 − e^{−within/ε}), by which the diagonal exceeds its grade's entry.
    lowest, zeros : (queries, grades) where maxima and sums over grades begin.
    far : (queries, documents) 0, and at padding so much that 1 / (K x) is nothing there.
    """

    grades: Grades
    between: Tensor
    own: float
    lowest: Tensor
    zeros: Tensor
    far: Tensor


def _kernel(gains: Tensor, mask: Tensor, epsilon: float, gap: float, within: float) -> _Kernel:
    grades = Grades.of(gains, mask)
    values, relevant = grades.values, grades.values > 0
    apart = (relevant[:, None] != relevant).to(values)
    cost = (values[:, None] - values).abs() + gap * apart
    cost.fill_diagonal_(within)
    zeros = gains.new_zeros(len(gains), len(values))
    own = math.log(-math.expm1(-within / epsilon))
    lowest = torch.full_like(zeros, LOWEST)
    far = torch.zeros_like(gains).masked_fill_(~mask, -LOWEST)
    return _Kernel(grades, -cost / epsilon, own, lowest, zeros, far)


def _log_product(log_x: Tensor, kernel: _Kernel) -> Tensor:
    """log(K x) of each document, (queries, documents); log x is `LOWEST` at padding."""
    place = kernel.grades.place
    shift = kernel.lowest.scatter_reduce(1, place, log_x, "amax")
    parts = (log_x - shift.gather(1, place)).exp_()
    by_grade = kernel.zeros.scatter_add(1, place, parts).clamp_min_(_TINY).log_().add_(shift)
    reach = by_grade[:, None, :] + kernel.between
    farthest = reach.amax(2, keepdim=True)
    from_grades = (reach - farthest).exp_().sum(2).log_().add_(farthest[:, :, 0])
    return torch.logaddexp(from_grades.gather(1, place), log_x + kernel.own).add_(kernel.far)


def _pull_back(gradient: Tensor, log_x: Tensor, log_product: Tensor, kernel: _Kernel) -> Tensor:
    """Gradient with respect to log x of what has `gradient` with respect to log(K x).

    Σ_i gradient_i K_ij x_j / (K x)_i. Taken relative to the largest 1 / (K x)_i of each grade, no
    factor exceeds 1. The gradient is 0 at padding.
    """
    place = kernel.grades.place
    inverse = -log_product
    largest = kernel.lowest.scatter_reduce(1, place, inverse, "amax")
    weights = (inverse - largest.gather(1, place)).exp_().mul_(gradient)
    sums = kernel.zeros.scatter_add(1, place, weights)
    reach = largest[:, None, :] + kernel.between
    farthest = reach.amax(2, keepdim=True)
    shares = torch.bmm((reach - farthest).exp_(), sums[:, :, None])[:, :, 0]
    from_grades = farthest[:, :, 0].gather(1, place).add_(log_x).exp_()
    from_grades *= shares.gather(1, place)
    return from_grades.addcmul_(gradient, (log_x + inverse).add_(kernel.own).exp_())


class _Sinkhorn(torch.autograd.Function):
    """Dual value of each query, (queries,), with the exact gradient by the iterations reversed."""

    @staticmethod
    def forward(
        ctx: Any, log_a: Tensor, log_b: Tensor, kernel: _Kernel, epsilon: float, iterations: int
    ) -> Tensor:
        # Padding has no mass from the beginning.
        log_u = torch.where(kernel.grades.mask, 0.0, LOWEST).to(log_a)
        steps = []
        for _ in range(iterations):
            product_v = _log_product(log_u, kernel)
            log_v = log_b - product_v
            product_u = _log_product(log_v, kernel)
            steps.append((log_u, product_v, log_v, product_u))
            log_u = log_a - product_u
        a, b = log_a.exp(), log_b.exp()
        ctx.steps, ctx.kernel, ctx.epsilon = steps, kernel, epsilon
        ctx.ends = a, b, log_u
        return epsilon * ((a * log_u).sum(1) + (b * log_v).sum(1))

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None, None, None, None]:
        a, b, log_u = ctx.ends
        scale = ctx.epsilon * outputs[0][:, None]
        in_log_a = scale * a * log_u
        in_log_u = scale * a
        in_log_v = scale * b
        for before, product_v, log_v, product_u in reversed(ctx.steps):
            in_log_a = in_log_a + in_log_u
            in_log_v = in_log_v - _pull_back(in_log_u, log_v, product_u, ctx.kernel)
            in_log_u = -_pull_back(in_log_v, before, product_v, ctx.kernel)
            in_log_v = torch.zeros_like(in_log_v)
        return in_log_a, None, None, None, None
