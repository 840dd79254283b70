"""How much each column counts, read off the weights of a fitted network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from nrs.core import NRS
from nrs.tabular.encoding import TableEncoder
from nrs.tabular.network import TableNetwork


@torch.no_grad()
def feature_importances(network: TableNetwork, encoder: TableEncoder) -> np.ndarray:
    """Share of each source column in the paths from input to output.

    The importance of a learner is the total weight of the paths that leave it, following the
    absolute weights of the folded layers to the output; that of a feature is the sum over the
    learners that read it of their importance times the folded weight they read it with. Features
    are standardised, so their weights are comparable. Columns the encoder dropped have none.

    Returns
    -------
    ndarray (n_columns,), non-negative, summing to one.
    """
    importance: Tensor | None = None
    for matrix in reversed(_folded_matrices(network, encoder.n_features_out_)):
        paths = matrix.abs()
        importance = paths.sum(0) if importance is None else importance @ paths
    if importance is None:
        raise AssertionError("a table network ends with a linear layer")
    by_column = np.zeros(encoder.n_features_in_)
    np.add.at(by_column, encoder.groups_, importance.double().cpu().numpy())
    total = by_column.sum()
    return by_column / total if total > 0 else np.full(len(by_column), 1 / len(by_column))


def _folded_matrices(network: TableNetwork, features: int) -> list[Tensor]:
    """The linear maps from input to output, with the normalisations folded in."""
    matrices: list[Tensor] = []
    for layer in network.layers:
        if isinstance(layer, NRS):
            folded = layer.fold()
            for stage in range(folded.depth):
                index = folded.get_buffer(f"index{stage}")
                weight = folded.get_buffer(f"weight{stage}")
                matrices.append(_sparse_matrix(index, weight, features))
                features = weight.shape[0] * weight.shape[1]
        elif isinstance(layer, nn.Linear):
            matrices.append(layer.weight.clone())
        elif isinstance(layer, nn.BatchNorm1d):
            variance = layer.get_buffer("running_var")
            matrices[-1] *= (layer.weight * torch.rsqrt(variance + layer.eps)).unsqueeze(1)
    return matrices


def _sparse_matrix(index: Tensor, weight: Tensor, features: int) -> Tensor:
    """The (G·O, features) matrix of subspace weights, without its zeros: wide tables have many."""
    groups, outputs, subspace = weight.shape
    rows = torch.arange(groups * outputs, device=weight.device).repeat_interleave(subspace)
    columns = index.unsqueeze(1).expand(groups, outputs, subspace).reshape(-1)
    cells = torch.stack([rows, columns])
    shape = (groups * outputs, features)
    values = weight.reshape(-1)
    return torch.sparse_coo_tensor(cells, values, shape, check_invariants=False).coalesce()
