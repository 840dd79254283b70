"""Who answers for a training row without having seen it, after the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.network import FoldedForest, ForestNetwork


@dataclass(frozen=True)
class Unseen:
    """The members of a fit that answer for its training rows out of bag.

    Attributes
    ----------
    network : ForestNetwork
        Whose members these are.
    shares : Tensor (members, folds)
        How much each member counts for the rows of a fold; 0 where it does not answer for them.
    temperature : float
        What divides their joint outputs.
    folds : Folds
        Of the training rows.
    """

    network: ForestNetwork
    shares: Tensor
    temperature: float
    folds: Folds

    @classmethod
    def of(
        cls, network: ForestNetwork, scoring: Tensor, shares: Tensor, temperature: float,
        folds: Folds, n_views: int = 1,
    ) -> Unseen:  # fmt: skip
        """Members that score each fold, of which every view counts as a whole.

        Parameters
        ----------
        scoring : (members, folds), see :meth:`Folds.tables`.
        shares : (members,) how much the view of each member counts.
        """
        by_view = scoring.double().unflatten(0, (n_views, -1))
        equal = (by_view / by_view.sum(1, keepdim=True).clamp_min(1)).flatten(0, 1)
        return cls(network, (equal * shares.to(equal)[:, None]).float(), temperature, folds)

    @property
    def n_rows(self) -> int:
        """Rows of the fit that were in memory."""
        return 0 if self.folds.drawn is None else len(self.folds.drawn)

    def keep(self, network: ForestNetwork, members: Tensor) -> Unseen:
        """Of some members, which `network` holds."""
        shares = self.shares[members.to(self.shares.device)]
        return Unseen(network, shares, self.temperature, self.folds)

    def scored(self, places: np.ndarray) -> np.ndarray:
        """Whether some member can answer for the training rows at these places."""
        return self.shares.any(0).cpu().numpy()[self.folds.of(places)]

    def networks(self, places: np.ndarray) -> Iterator[tuple[np.ndarray, FoldedForest]]:
        """Numbers among `places`, and the network that answers for the training rows there.

        Rows that no member can answer for, the earliest in order of time, are left out.
        """
        of_rows = self.folds.of(places)
        for fold in np.unique(of_rows).tolist():
            members = self.shares[:, fold].nonzero()[:, 0]
            if not len(members):
                continue
            folded = self.network.keep(members.to(self.network.index.device)).fold()
            folded.shares.copy_(self.shares[members, fold])
            folded.temperature.copy_(torch.tensor(self.temperature))
            yield np.flatnonzero(of_rows == fold), folded.requires_grad_(False)
