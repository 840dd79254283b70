"""Multiply-adds of a fit, counted rather than timed: two commits compare on any machine.

Every pass of a forest is counted while it happens, those of a pilot, of out-of-bag scores, of
importances and of trainings that were thrown away among them: members × rows × (subspaces × inputs
of a subspace + products of the layers after them). A row that is trained on also has the gradients
of the weights and, but for the subspaces', of the inputs. Normalisation, activations and the
optimizer's steps are left out: they are no products.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from nrs.tabular.forest.network import FoldedForest, ForestNetwork


@dataclass
class Work:
    """Multiply-adds so far."""

    total: int = 0


@contextmanager
def counting() -> Iterator[Work]:
    """Count the multiply-adds of the forests of this process.

    Examples
    --------
    >>> from nrs.tabular.forest.bins import PiecewiseLinear
    >>> index = torch.tensor([[[0, 1], [2, 3]], [[1, 3], [0, 2]]])  # two members
    >>> forest = ForestNetwork(3, 4, index, PiecewiseLinear.between([]), hidden=(8,))
    >>> with counting() as work, torch.no_grad():
    ...     _ = forest.members(torch.zeros(5, 3))
    >>> work.total == 5 * 2 * (2 * 2 + 2 * 8 + 8 * 4)
    True
    """
    work = Work()
    train, score = ForestNetwork.members_from, FoldedForest.members

    def members_from(forest: ForestNetwork, inputs: torch.Tensor) -> torch.Tensor:
        _, subspaces, size = forest.index.shape
        width, after = subspaces, 0
        for layer in (*forest.hidden, forest.out_weight):
            units = layer.shape[1]
            after, width = after + units * width, units
        forward, backward = subspaces * size + after, 0
        if torch.is_grad_enabled():
            backward = subspaces * size + 2 * after
        work.total += forest.n_members * inputs.shape[0] * (forward + backward)
        return train(forest, inputs)

    def members(folded: FoldedForest, x: torch.Tensor) -> torch.Tensor:
        work.total += _once(folded) * x.shape[0]
        return score(folded, x)

    with (
        mock.patch.object(ForestNetwork, "members_from", members_from),
        mock.patch.object(FoldedForest, "members", members),
    ):
        yield work


def _once(folded: Any) -> int:
    """Multiply-adds of a row in a forest for inference, whose products are as they are."""
    layers = [getattr(folded, f"weight{number}") for number in range(folded.n_hidden)]
    return sum(weight.numel() for weight in (folded.weight, *layers, folded.out_weight))
