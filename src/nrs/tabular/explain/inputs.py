"""What trees read: the encoder's features and, in a forest, their bins, with names for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.network import ForestNetwork


@dataclass
class Inputs:
    """Names and source columns of all inputs.

    names : list of str; a bin is called ``age[30…45]``, in the units of the table, and a level
        ``rooms[3]``.
    groups : (n_inputs,) the source column of each.
    column_names : list of str, the names of the table's columns.
    """

    names: list[str]
    groups: np.ndarray
    column_names: list[str]

    @classmethod
    def of(cls, model: Any) -> Inputs:
        """Name the inputs of a fitted model."""
        encoder: TableEncoder = model.encoder_
        names = encoder.feature_names_out_.tolist()
        groups = encoder.groups_
        if isinstance(model.network_, ForestNetwork) and model.network_.bins.n_bins:
            bins = model.network_.bins
            source = bins.source.cpu().numpy()
            low = bins.low.double().cpu().numpy()
            high = low + 1 / bins.rate.double().cpu().numpy()
            is_level = np.arange(bins.n_bins) >= bins.n_steps
            ends = [
                [encoder.original(feature, end) for end in ((a,) if alone else (a, b))]
                for feature, a, b, alone in zip(source.tolist(), low, high, is_level, strict=True)
            ]
            names = names + [
                f"{names[feature]}[{'…'.join(shown)}]"
                for feature, shown in zip(source.tolist(), ends, strict=True)
            ]
            groups = np.concatenate([groups, groups[source]])
        return cls(names, groups, encoder.column_names)

    def columns_of(self, inputs: np.ndarray) -> list[str]:
        """Names of the columns that some inputs come from, in the table's order."""
        return [self.column_names[index] for index in np.unique(self.groups[inputs]).tolist()]

    def values(self, model: Any, X: Any) -> np.ndarray:
        """All inputs for the rows of a raw table: (n_rows, n_inputs) float64."""
        features = model.encoder_.transform(model._read_table(X, reset=False))
        if not isinstance(features, np.ndarray):
            features = features.toarray()
        if isinstance(model.network_, ForestNetwork) and model.network_.bins.n_bins:
            bins = model.network_.bins
            with torch.no_grad():
                binned = bins(torch.from_numpy(features).to(bins.low.device)).cpu().numpy()
            features = np.hstack([features, binned])
        result: np.ndarray = features.astype(np.float64)
        return result
