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

from nrs.ranking.grades import Grades, log_sum
from nrs.ranking.padded import LOWEST, check_padded, gains_of


def wass_rank(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    epsilon: float = 0.1,
    iterations: int = 50,
    gap: float = 100.0,
    within: float = math.e,
) -> Tensor:
    """WassRank: entropic transport between softmax(s) and softmax(y) (Yu et al., WSDM 2019).

    The cost C_ij of moving mass between documents is 0 on the diagonal, `within` between documents
    of a grade, and |G_i − G_j| between grades, with a further `gap` between relevant and
    irrelevant ones. The loss is the dual value Σ_i a_i f_i + Σ_i b_i g_i of the transport from
    a = softmax(s) to b = softmax(y) with entropy `epsilon`, after so many iterations of Sinkhorn
    from f = g = 0 (g, then f); its gradient is that of these very iterations. (The primal value
    ⟨P, C⟩ would not do: within 50 iterations no mass crosses the gap, and only the potentials
    tell that it should.)

    Examples
    --------
    >>> good = wass_rank(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1, 0, 0]]))
    >>> bad = wass_rank(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[1, 0, 0]]))
    >>> bool(good < bad)
    True
    """
    scores, labels, mask = check_padded(scores, labels, mask)
    gains = gains_of(labels)
    log_a = scores.masked_fill(~mask, LOWEST).log_softmax(1).masked_fill(~mask, LOWEST)
    with torch.no_grad():
        log_b = labels.masked_fill(~mask, LOWEST).log_softmax(1).masked_fill(~mask, LOWEST)
        kernel = _kernel(gains, mask, epsilon, gap, within)
    values = _Sinkhorn.apply(log_a, log_b, kernel, epsilon, iterations)
    return values.mean()


class _Kernel(NamedTuple):
    """log e^{−C/ε} by grades.

    grades : the grades of the documents.
    between : (grades, grades) log-kernel between different documents of two grades.
    own : log(1 − e^{−within/ε}), by which the diagonal exceeds its grade's entry.
    """

    grades: Grades
    between: Tensor
    own: float


def _kernel(gains: Tensor, mask: Tensor, epsilon: float, gap: float, within: float) -> _Kernel:
    grades = Grades.of(gains, mask)
    values, relevant = grades.values, grades.values > 0
    cost = (values[:, None] - values).abs() + gap * (relevant[:, None] != relevant)
    cost.fill_diagonal_(within)
    return _Kernel(grades, -cost / epsilon, math.log(-math.expm1(-within / epsilon)))


def _log_product(log_x: Tensor, kernel: _Kernel) -> Tensor:
    """log(K x) of each document, (queries, documents)."""
    grades = kernel.grades
    from_grades = log_sum(grades.log_total(log_x)[:, None, :] + kernel.between)
    return torch.logaddexp(grades.spread(from_grades), log_x + kernel.own)


def _pull_back(gradient: Tensor, log_x: Tensor, log_product: Tensor, kernel: _Kernel) -> Tensor:
    """Gradient with respect to log x of what has `gradient` with respect to log(K x).

    Σ_i gradient_i K_ij x_j / (K x)_i. Taken relative to the largest 1 / (K x)_i of each grade, no
    factor exceeds 1.
    """
    grades = kernel.grades
    largest = grades.largest(-log_product)
    # Padding may exceed the largest of its grade; its gradient is 0.
    weights = (-log_product - grades.spread(largest)).clamp_max_(0.0).exp_()
    sums = grades.total(gradient * weights * grades.mask)
    reach = largest[:, None, :] + kernel.between
    farthest = reach.amax(2)
    shares = torch.einsum("qhg,qg->qh", (reach - farthest[:, :, None]).exp(), sums)
    from_grades = (log_x + grades.spread(farthest)).exp() * grades.spread(shares)
    return from_grades + gradient * (log_x + kernel.own - log_product).exp()


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
