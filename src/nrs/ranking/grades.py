"""Sums over the documents of a grade: what makes some losses linear in the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nrs._util.lazy import torch
from nrs.ranking.padded import LOWEST

if TYPE_CHECKING:
    from torch import Tensor


class Grades(NamedTuple):
    """The grades of a batch of queries.

    values : (grades,) ascending.
    place : (queries, documents) the number of each document's grade.
    mask : (queries, documents) where there is a document.
    """

    values: Tensor
    place: Tensor
    mask: Tensor

    @classmethod
    def of(cls, labels: Tensor, mask: Tensor) -> Grades:
        """Find the grades of padded labels, whose padding must be among them or any value.

        Examples
        --------
        >>> Grades.of(torch.tensor([[2, 0]]), torch.ones(1, 2, dtype=torch.bool)).place
        tensor([[1, 0]])
        """
        values, place = torch.unique(labels, return_inverse=True)
        return cls(values, place, mask)

    def largest(self, x: Tensor) -> Tensor:
        """The largest x of each grade: (queries, grades); `LOWEST` without a document."""
        lowest = x.new_full((len(x), len(self.values)), LOWEST)
        return lowest.scatter_reduce(1, self.place, torch.where(self.mask, x, LOWEST), "amax")

    def total(self, x: Tensor) -> Tensor:
        """The sum of x over each grade: (queries, grades). Padding must be 0."""
        return x.new_zeros(len(x), len(self.values)).scatter_add(1, self.place, x)

    def spread(self, by_grade: Tensor) -> Tensor:
        """The value of each document's grade: (queries, grades) to (queries, documents)."""
        return by_grade.gather(1, self.place)

    def log_total(self, log_x: Tensor) -> Tensor:
        """log Σ e^{log_x} over each grade; `LOWEST` without a document. Differentiable.

        Examples
        --------
        >>> grades = Grades.of(torch.tensor([[1, 0, 0]]), torch.ones(1, 3, dtype=torch.bool))
        >>> grades.log_total(torch.zeros(1, 3))
        tensor([[0.6931, 0.0000]])
        """
        log_x = torch.where(self.mask, log_x, LOWEST)
        shift = self.largest(log_x.detach())
        parts = (log_x - self.spread(shift)).exp() * self.mask
        # The largest part is 1 wherever there is a document.
        return self.total(parts).clamp_min(torch.finfo(log_x.dtype).tiny).log() + shift


def log_sum(log_x: Tensor) -> Tensor:
    """log Σ e^{log_x} over the last axis, which torch's own computes far more slowly."""
    shift = log_x.detach().amax(-1, keepdim=True)
    return (log_x - shift).exp().sum(-1).log() + shift[..., 0]
