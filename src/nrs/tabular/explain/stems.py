"""The trees inside a trained network: what each reads, its folded weights, how much it counts.

Importance needs no data, because batch normalisation has kept what is needed of it. Over the
training rows the sum of a tree has the mean β and the standard deviation |γ| of its normalisation;
taken as normal, that gives the share of rows that say yes, Φ(β/|γ|), and how far the tree's output
varies. The same holds for the units after it, so the mean effect of a tree on the outputs is a
product of matrices.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from nrs.core.fold import folded_stage
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.network import ForestNetwork, affine
from nrs.tabular.network import TableNetwork


def encoded(model: TableEstimator, X: Any) -> np.ndarray:
    """Features of a raw table as a dense array, (n_rows, n_features_out)."""
    features = model.encoder_.transform(model.read_table(X))
    dense: np.ndarray = features if isinstance(features, np.ndarray) else features.toarray()
    return dense


class Inputs:
    """What trees read: the encoder's features and, in a forest, their bins.

    names : a bin is called ``age[30…45]``, in the units of the table, and a level ``rooms[3]``.
    groups : (n_inputs,) the source column of each.
    column_names : names of the table's columns.
    """

    def __init__(self, model: TableEstimator) -> None:
        encoder, network = model.encoder_, model.network_
        bins = network.bins if isinstance(network, ForestNetwork) else PiecewiseLinear.blank(0)
        self._model, self._bins = model, bins
        self.column_names = encoder.column_names
        self.names: list[str] = encoder.feature_names_out_.tolist()
        source, low = bins.source.cpu().numpy(), bins.low.double().cpu().numpy()
        high = low + 1 / bins.rate.double().cpu().numpy()
        for place, (feature, *edges) in enumerate(zip(source.tolist(), low, high, strict=True)):
            ends = edges if place < bins.n_steps else edges[:1]
            shown = "…".join(encoder.original(feature, end) for end in ends)
            self.names.append(f"{self.names[feature]}[{shown}]")
        self.groups = np.append(encoder.groups_, encoder.groups_[source])

    def values(self, X: Any) -> np.ndarray:
        """All inputs for the rows of a raw table: (n_rows, n_inputs) float64."""
        features = encoded(self._model, X)
        with torch.no_grad():
            binned = self._bins(torch.from_numpy(features).to(self._bins.low.device))
        return np.hstack([features, binned.cpu().numpy()], dtype=np.float64)


@dataclass
class Stems:
    """All T trees of a network as arrays.

    weight (T, n_inputs), shift (T,) : the weighted sum, its normalisation folded in.
    member, number (T,) : which member, and which tree of it.
    yes (T,) : about the share of training rows whose sum is at least 0.
    importance (T,) : share of the change in the outputs for a typical change of the tree's output.
    """

    weight: csr_array
    shift: np.ndarray
    member: np.ndarray
    number: np.ndarray
    yes: np.ndarray
    importance: np.ndarray

    def take(self, places: np.ndarray | slice) -> Stems:
        """Some of the trees, in the order of `places`."""
        return Stems(*(array[places] for array in vars(self).values()))


@torch.no_grad()
def read_stems(network: nn.Module) -> Stems:
    """Read the trees of a forest or of a single network.

    Raises
    ------
    ValueError
        If there are none, or if they have two levels.
    """
    network = copy.deepcopy(network).cpu().double()
    if isinstance(network, ForestNetwork):
        n_inputs, index = network.n_inputs - 1, network.index.flatten(0, 1)
        scale, shift = affine(network.norm)
        weight = network.scaled_weight().flatten(0, 2) * scale
        layers = [*network.hidden, network.out_weight]
    elif isinstance(network, TableNetwork) and network.subspaces is not None:
        first = network.subspaces
        if first.depth > 1:
            raise ValueError(
                f"Only trees of one level can be listed; this layer has depth={first.depth}. "
                "Fit with depth 1."
            )
        n_inputs, index = first.in_features, first.subspaces().repeat_interleave(first.n_per, 0)
        weight, shift = folded_stage(first.weight, first.bias, first.norm)
        layers = [one.weight[None] for one in network.layers if isinstance(one, nn.Linear)]
    else:
        raise ValueError(
            f"The model is a plain MLP ({type(network).__name__}) and has no trees. Fit with n_mul "
            "of at least 1."
        )
    # That of the trees comes first.
    norm, *norms = (one for one in network.modules() if isinstance(one, nn.BatchNorm1d))
    members, _, trees = layers[0].shape
    effect = torch.eye(trees, dtype=weight.dtype)
    for layer, after in zip(layers[:-1], norms, strict=True):
        slope = affine(after)[0] * _cut_off(after)[0].unsqueeze(1)
        effect = slope.view(members, -1, 1) * (layer @ effect)
    effect = layers[-1] @ effect
    if effect.shape[1] > 1:
        # Only differences between classes count.
        effect = effect - effect.mean(1, keepdim=True)
    yes, spread = _cut_off(norm)
    response = effect.norm(dim=1).flatten() * spread
    # Numbers beyond the last input read nothing; an input may be read twice.
    tree, place = torch.nonzero(index < n_inputs, as_tuple=True)
    read = weight.flatten(1)[tree, place], (tree, index[tree, place])
    return Stems(
        weight=csr_array(read, shape=(members * trees, n_inputs)),
        shift=shift.flatten().numpy(),
        member=np.repeat(np.arange(members), trees),
        number=np.tile(np.arange(trees), members),
        yes=yes.numpy(),
        importance=(response / response.sum() if response.any() else response).numpy(),
    )


def _cut_off(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """How often normalised units are positive, and their standard deviation after a ReLU."""
    mean, std = norm.bias, norm.weight.abs().clamp_min(1e-12)
    share = torch.special.ndtr(mean / std)
    density = (mean / std).square().div(-2).exp() / math.sqrt(2 * math.pi)
    first = mean * share + std * density
    second = (mean**2 + std**2) * share + mean * std * density
    return share, (second - first**2).clamp_min(0).sqrt()
