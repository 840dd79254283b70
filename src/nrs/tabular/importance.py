"""How much each column counts in a fitted network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.rows.memory import Rows

# Rows that the mean is taken over; more change the third digit.
MAX_ROWS = 1024
# With more outputs than this, random combinations of them stand for all.
MAX_OUTPUTS = 8
# Rows times bins that are looked at together.
BLOCK_CELLS = 1 << 20


def column_importances(
    network: nn.Module, rows: Rows, encoder: TableEncoder, max_rows: int = MAX_ROWS
) -> np.ndarray:
    """Share of each source column in the sum of its features' :func:`response`, (n_columns,).

    Columns that the encoder dropped have none.
    """
    x = rows.inputs(max_rows)
    by_column = np.zeros(encoder.n_features_in_)
    np.add.at(by_column, encoder.groups_, response(network, x).double().cpu().numpy())
    total = by_column.sum()
    return by_column / total if total > 0 else np.full(len(by_column), 1 / len(by_column))


def passes(n_outputs: int) -> int:
    """Forward passes that take as long as :func:`response`: one, and two for each way back."""
    return 1 + 2 * min(n_outputs, MAX_OUTPUTS)


def response(network: nn.Module, x: Tensor) -> Tensor:
    """Average change of the outputs for a typical change of each feature.

    That is the norm of the gradient of the outputs with respect to a feature, averaged over rows,
    times the feature's standard deviation. A feature that a forest reads in bins moves them all at
    once: there the gradient is taken with respect to the bins, and their covariance says how far
    they move. The slope within a bin does not count: many rows may share a value at the edge of a
    narrow bin, as those without a value do, and its slope would drown all others.

    Outputs are taken relative to their mean, since only differences between classes count. Many
    are replaced by random combinations with signs ±1, whose squared gradients have the sum of all
    squared gradients as their mean.

    **Shape** x ``(B, d)``, result ``(d,)``.

    Examples
    --------
    >>> linear, x = nn.Linear(2, 1), torch.tensor([[0.0, 1.0], [3.0, 2.0], [3.0, 0.0]])
    >>> bool(torch.allclose(response(linear, x), linear.weight[0].abs() * x.std(0)))
    True
    """
    (n_rows, d), blocks = x.shape, []
    forest = network if isinstance(network, ForestNetwork) else None
    with torch.no_grad():
        inputs = x.clone() if forest is None else forest.inputs(x)
    spread = inputs.std(0)[:d]
    if forest is not None:
        binned, places = bins_by_feature(forest.bins, d)
        usual = inputs - inputs.mean(0)
        # A block at a time: of a wide table, all bins of all rows would take a lot of memory.
        some = max(1, BLOCK_CELLS // (n_rows * places.shape[1]))
        for features, own in zip(binned.split(some), places.split(some), strict=True):
            bins = usual[:, own]
            covariance = torch.einsum("bfi,bfj->fij", bins, bins) / (n_rows - 1)
            blocks.append((features, own, covariance))
    inputs.requires_grad_()
    with torch.enable_grad():
        outputs = network(inputs) if forest is None else forest.forward_from(inputs)
        if outputs.shape[1] > 1:
            outputs = outputs - outputs.mean(1, keepdim=True)
    directions = torch.eye(outputs.shape[1], dtype=torch.float32)
    if len(directions) > MAX_OUTPUTS:
        signs = torch.Generator().manual_seed(0)
        drawn = torch.randint(2, (MAX_OUTPUTS, len(directions)), generator=signs)
        directions = drawn.to(directions) * 2 - 1
        directions /= MAX_OUTPUTS**0.5
    squares = torch.zeros_like(x)
    for direction in directions.to(x):
        (gradient,) = torch.autograd.grad(
            outputs, inputs, direction.expand_as(outputs), retain_graph=True
        )
        moved = (gradient[:, :d] * spread).square()
        for features, own, covariance in blocks:
            slopes = gradient[:, own]
            moved[:, features] = torch.einsum("bfi,fij,bfj->bf", slopes, covariance, slopes)
        squares += moved
    return squares.clamp(min=0).sqrt().mean(0)


def bins_by_feature(bins: PiecewiseLinear, d: int) -> tuple[Tensor, Tensor]:
    """The features that have bins; the inputs of each, filled up with the last, which is always 0.

    Examples
    --------
    >>> bins = PiecewiseLinear.between([(1, [0.0, 1.0, 3.0]), (2, [0.0, 1.0])])
    >>> bins_by_feature(bins, 3)
    (tensor([1, 2]), tensor([[1, 3, 4],
            [2, 5, 6]]))
    """
    binned, counts = bins.source.unique(return_counts=True)
    width = 1 + (int(counts.max()) if len(counts) else 0)
    places = torch.full((len(binned), width), d + bins.n_bins, device=binned.device)
    places[:, 0] = binned
    for row, feature in enumerate(binned):
        own = torch.nonzero(bins.source == feature).flatten()
        places[row, 1 : 1 + len(own)] = d + own
    return binned, places
