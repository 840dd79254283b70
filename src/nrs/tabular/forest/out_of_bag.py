"""What a forest answers for its training rows, each row by members that were not trained on it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.forest.network import FoldedForest, ForestNetwork
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import Target
from nrs.training.processes import ALONE, Processes

# Views are drawn so many times, the one that helps most each time; weights are how often.
DRAWS = 20
# Learned weights must beat equal ones by so many standard errors, or equal ones stay.
MIN_ERRORS = 2.0
# Rows that are scored to see how long it takes, and the fewest that may score the forest.
MIN_SCORED = 512


@dataclass(frozen=True)
class OutOfBag:
    """Out-of-bag results of a forest.

    Attributes
    ----------
    answers : ndarray
        Probabilities or numbers of all training rows, in their order.
    score : float or None
    residuals : ndarray or None
        See :meth:`nrs.tabular.targets.Target.residuals`.
    """

    answers: np.ndarray
    score: float | None
    residuals: np.ndarray | None = None


def out_of_bag(
    network: ForestNetwork | FoldedForest,
    rows: Rows,
    sees: Tensor,
    n_views: int = 1,
    group: Processes = ALONE,
) -> Tensor:
    """Outputs of the members that did not see each row, joint within views: (V, C, n_rows).

    Parameters
    ----------
    sees : (K, folds) bool, see :meth:`nrs.tabular.forest.folds.Folds.sees`.
    group : processes that share the rows; each scores some of them.
    """
    assert rows.folds is not None
    unseen_folds = (~sees).to(rows.device)
    parts = list(rows.parts())
    found = []
    with torch.no_grad():
        for numbers in group.share(parts):
            x, _, _ = rows.take(numbers)
            unseen = unseen_folds[:, rows.folds[numbers].to(rows.device)].to(x.dtype)
            views = zip(network.members(x).chunk(n_views), unseen.chunk(n_views), strict=True)
            joint = [network.combine(outputs, weights).t() for outputs, weights in views]
            found.append(torch.stack(joint))
    if not group.divides_rows:
        return torch.cat(found, 2)
    none = torch.empty(n_views, network.out_bias.shape[1], 0, device=rows.device)
    return _gathered([none, *found], [len(part) for part in parts], group)


def _gathered(found: list[Tensor], sizes: list[int], group: Processes) -> Tensor:
    """Put the parts that all processes scored in the order of the rows."""
    outputs = found[0].new_empty(*found[0].shape[:2], sum(sizes))
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for rank, scored in enumerate(group.gather(torch.cat(found, 2))):
        own = range(rank, len(sizes), group.size)
        for number, values in zip(own, scored.split([sizes[n] for n in own], 2), strict=True):
            outputs[..., starts[number] : starts[number + 1]] = values
    return outputs


def weigh_views(
    outputs: Tensor, truth: Tensor, target: Target, weights: Tensor | None = None
) -> Tensor:
    """Choose weights of views by the loss of their joint out-of-bag outputs.

    Greedy selection with replacement (Caruana et al., 2004). Equal weights are kept unless the
    learned ones are better by more than chance: a small table cannot tell views apart.

    **Shape** outputs ``(V, C, n)``, truth ``(n,)`` or ``(n, C)``, result ``(V,)``, which sums to V.

    Examples
    --------
    >>> from nrs.tabular.targets import ClassTarget
    >>> truth = torch.arange(100) % 2
    >>> right = torch.stack([1.0 - truth, 1.0 * truth]) * 4
    >>> target = ClassTarget(np.arange(2))
    >>> weigh_views(torch.stack([right, -right]), truth, target).tolist()
    [2.0, 0.0]
    >>> weigh_views(torch.stack([right, right]), truth, target).tolist()
    [1.0, 1.0]
    """
    n_views = len(outputs)
    equal = torch.ones(n_views)
    counts = torch.zeros(n_views)
    weight = torch.ones(outputs.shape[2]) if weights is None else weights

    def losses(of_views: Tensor) -> Tensor:
        used = of_views > 0
        joint = target.combine(outputs[used], of_views[used].unsqueeze(1))
        return target.losses(joint.t().unsqueeze(0), truth)[0] * weight

    for _ in range(DRAWS):
        tried = [losses(counts + one).mean() for one in torch.eye(n_views)]
        counts[int(torch.stack(tried).argmin())] += 1
    learned = counts * (n_views / DRAWS)
    return learned if beyond_chance((losses(equal) - losses(learned)).double()) else equal


def beyond_chance(gained: Tensor) -> bool:
    """Whether the mean of what single rows gain is above 0 by more than their spread explains."""
    return bool(gained.mean() > MIN_ERRORS * gained.std() / len(gained) ** 0.5)


@dataclass(frozen=True)
class Pace:
    """Seconds that a forest takes to score a row, and those that a fit may take.

    Examples
    --------
    >>> Pace(per_row=0.001, limit=50.0).affordable(0.1, most=20_000)
    5000
    """

    per_row: float
    limit: float

    @classmethod
    def measure(cls, network: ForestNetwork, rows: Rows, sees: Tensor, limit: float) -> Pace:
        """Score a few rows and see how long it takes."""
        few = rows.some(MIN_SCORED)
        training = network.training
        network.eval()
        for _ in range(2):  # The first time warms up.
            begin = time.monotonic()
            out_of_bag(network, few, sees)
            seconds = time.monotonic() - begin
        network.train(training)
        return cls(max(seconds, 1e-6) / len(few), limit)

    def affordable(self, share: float, most: int) -> int:
        """Rows that can be scored in a share of the limit, at most so many."""
        # The limit may be infinite, which is no integer.
        return int(min(most, max(MIN_SCORED, share * self.limit / self.per_row)))
