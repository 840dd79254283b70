"""Who answers for a training row without having seen it, after the fit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from nrs.tabular.forest.folded import Folded
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.network import FoldedForest, ForestNetwork


@dataclass(frozen=True)
class Unseen:
    """The members of a fit that answer for its training rows out of bag.

    Attributes
    ----------
    network : ForestNetwork
        Whose members these are.
    scoring : Tensor (members, folds)
        Which folds each member scores.
    shares, views : Tensor (members,)
        The view of each member, and how much that counts.
    temperature : float
        What divides their joint outputs.
    folds : Folds
        Of the training rows.
    """

    network: ForestNetwork
    scoring: Tensor
    shares: Tensor
    views: Tensor
    temperature: float
    folds: Folds

    @property
    def n_rows(self) -> int:
        """Rows of the fit that were in memory."""
        return 0 if self.folds.drawn is None else len(self.folds.drawn)

    def scored(self, places: np.ndarray) -> np.ndarray:
        """Whether some member can answer for the training rows at these places."""
        return self.scoring.any(0).cpu().numpy()[self.folds.of(places)]

    def networks(self, places: np.ndarray) -> Iterator[tuple[np.ndarray, FoldedForest | Folded]]:
        """Numbers among `places`, and the network that answers for the training rows there.

        Rows that no member can answer for, the earliest in order of time, are left out.
        """
        of_rows = self.folds.of(places)
        for fold in np.unique(of_rows).tolist():
            members = self.scoring[:, fold].nonzero()[:, 0].cpu()
            if not len(members):
                continue
            kept = self.network.keep(members.to(self.network.index.device))
            if kept is self.network:
                kept = copy.deepcopy(kept)
            # A view counts as a whole, however many of its members answer.
            _, view, sizes = self.views[members].unique(return_inverse=True, return_counts=True)
            kept.shares.copy_(self.shares[members] / sizes[view])
            kept.temperature.fill_(self.temperature)
            compiled = kept.eval().compiled()
            folded = kept.fold().requires_grad_(False) if compiled is None else compiled.arrays
            yield np.flatnonzero(of_rows == fold), folded
