"""What trees read: the encoder's features and, in a forest, their bins, with names for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.network import ForestNetwork

if TYPE_CHECKING:
    from nrs.tabular.classifier import NRSClassifier
    from nrs.tabular.regressor import NRSRegressor

Model: TypeAlias = "NRSClassifier | NRSRegressor"


def encoded(model: Model, X: Any) -> np.ndarray:
    """Features of a raw table as a dense array, (n_rows, n_features_out)."""
    features = model.encoder_.transform(model.read_table(X))
    dense: np.ndarray = features if isinstance(features, np.ndarray) else features.toarray()
    return dense


@dataclass
class Inputs:
    """Names and source columns of all inputs.

    names : list of str; a bin is called ``age[30…45]``, in the units of the table, and a level
        ``rooms[3]``.
    groups : (n_inputs,) the source column of each.
    column_names : list of str, the names of the table's columns.
    bins : the bins of a forest that has some.
    """

    names: list[str]
    groups: np.ndarray
    column_names: list[str]
    bins: PiecewiseLinear | None

    @classmethod
    def of(cls, model: Model) -> Inputs:
        """Name the inputs of a fitted model."""
        encoder, network = model.encoder_, model.network_
        names, groups = encoder.feature_names_out_.tolist(), encoder.groups_
        if not isinstance(network, ForestNetwork) or not network.bins.n_bins:
            return cls(names, groups, encoder.column_names, None)
        bins = network.bins
        source = bins.source.cpu().numpy()
        low = bins.low.double().cpu().numpy()
        high = low + 1 / bins.rate.double().cpu().numpy()
        for place, (feature, *edges) in enumerate(zip(source.tolist(), low, high, strict=True)):
            ends = edges if place < bins.n_steps else edges[:1]
            shown = "…".join(encoder.original(feature, end) for end in ends)
            names.append(f"{names[feature]}[{shown}]")
        return cls(names, np.append(groups, groups[source]), encoder.column_names, bins)

    def columns_of(self, inputs: np.ndarray) -> list[str]:
        """Names of the columns that some inputs come from, in the table's order."""
        return [self.column_names[index] for index in np.unique(self.groups[inputs]).tolist()]

    def values(self, model: Model, X: Any) -> np.ndarray:
        """All inputs for the rows of a raw table: (n_rows, n_inputs) float64."""
        features = encoded(model, X)
        if self.bins is not None:
            with torch.no_grad():
                binned = self.bins(torch.from_numpy(features).to(self.bins.low.device))
            features = np.hstack([features, binned.cpu().numpy()])
        return features.astype(np.float64)
