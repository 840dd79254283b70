"""Multiply-adds of a fit, counted rather than timed: two commits compare on any machine.

Every pass of a forest is counted while it happens, those of a pilot, of out-of-bag scores, of
importances and of trainings that were thrown away among them: members × rows × (subspaces × inputs
of a subspace + products of the layers after them). A row that is trained on also has the gradients
of the weights and, but for the subspaces', of the inputs. Normalisation, activations and the
optimizer's steps are left out: they are no products.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch

from nrs.engine import Predictor, Step, Training
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
    take, forward, applied = Training.take, Training.forward, Predictor.outputs

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

    def members(
        folded: FoldedForest, x: torch.Tensor, chosen: torch.Tensor | None = None
    ) -> torch.Tensor:
        asked = folded.n_members if chosen is None else len(chosen)
        work.total += _once(folded) * x.shape[0] * asked // folded.n_members
        return score(folded, x, chosen)

    def outputs(
        engine: Predictor, x: np.ndarray, chosen: np.ndarray | None = None, threads: int = 1
    ) -> np.ndarray:
        asked = engine.members if chosen is None else len(chosen)
        once = sum(one.size for one in (engine.weight, *engine.hidden, engine.out_weight))
        work.total += once * len(x) * asked // engine.members
        return applied(engine, x, chosen, threads)

    def of_step(engine: Training, step: Step) -> None:
        """What the compiled engine does of a batch."""
        _, subspaces, size = engine.shape.index.shape
        widths = (*engine.shape.widths, engine.shape.outputs)
        after = sum(one * other for one, other in itertools.pairwise(widths))
        work.total += engine.members * len(step.x) * (2 * subspaces * size + 3 * after)

    def in_one_call(engine: Training, steps: Sequence[Step]) -> np.ndarray:
        for step in steps:
            of_step(engine, step)
        return take(engine, steps)

    def in_two_calls(engine: Training, step: Step) -> np.ndarray:
        of_step(engine, step)
        return forward(engine, step)

    with (
        mock.patch.object(ForestNetwork, "members_from", members_from),
        mock.patch.object(FoldedForest, "members", members),
        mock.patch.object(Predictor, "outputs", outputs),
        mock.patch.object(Training, "take", in_one_call),
        mock.patch.object(Training, "forward", in_two_calls),
    ):
        yield work


def _once(folded: Any) -> int:
    """Multiply-adds of a row in a forest for inference, whose products are as they are."""
    layers = [getattr(folded, f"weight{number}") for number in range(folded.n_hidden)]
    return sum(weight.numel() for weight in (folded.weight, *layers, folded.out_weight))
