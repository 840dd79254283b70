"""How much each column counts in a fitted network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from nrs.tabular.batches import Rows, forward_rows, spread_rows
from nrs.tabular.encoding import TableEncoder

# Rows that the mean is taken over; more change the third digit.
MOST_ROWS = 1024
# With more outputs than this, random combinations of them stand for all.
MOST_OUTPUTS = 8


def column_importances(
    network: nn.Module, rows: Rows, encoder: TableEncoder, most_rows: int = MOST_ROWS
) -> np.ndarray:
    """Share of each source column in how strongly the outputs respond to the input.

    The response to a feature is the norm of the gradient of the outputs with respect to it,
    averaged over training rows, times the feature's standard deviation: how far the outputs move
    when the feature moves as much as it usually does. Columns that the encoder dropped have none.

    Returns
    -------
    ndarray (n_columns,), non-negative, summing to one.
    """
    few = max(2, min(most_rows, forward_rows(encoder.n_features_out_), len(rows)))
    x, _, _ = rows.take(rows.index[spread_rows(len(rows), few)])
    response = sensitivity(network, x) * x.std(0)
    by_column = np.zeros(encoder.n_features_in_)
    np.add.at(by_column, encoder.groups_, response.double().cpu().numpy())
    total = by_column.sum()
    return by_column / total if total > 0 else np.full(len(by_column), 1 / len(by_column))


def passes(n_outputs: int) -> int:
    """Forward passes that take as long as :func:`sensitivity`: one, and two for each way back."""
    return 1 + 2 * min(n_outputs, MOST_OUTPUTS)


def sensitivity(network: nn.Module, x: Tensor) -> Tensor:
    """Mean over rows of the norm of the outputs' gradient with respect to each feature.

    Several outputs are taken relative to their mean, since only differences between classes
    count. Many outputs are replaced by random combinations with signs ±1, whose squared gradients
    have the sum of all squared gradients as their mean.

    **Shape** x ``(B, d)``, result ``(d,)``.

    Examples
    --------
    >>> linear = nn.Linear(2, 1)
    >>> bool(torch.allclose(sensitivity(linear, torch.zeros(3, 2)), linear.weight[0].abs()))
    True
    """
    x = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        outputs = network(x)
        if outputs.shape[1] > 1:
            outputs = outputs - outputs.mean(1, keepdim=True)
        directions = torch.eye(outputs.shape[1])
        if len(directions) > MOST_OUTPUTS:
            signs = torch.Generator().manual_seed(0)
            directions = (
                torch.randint(2, (MOST_OUTPUTS, len(directions)), generator=signs) * 2.0 - 1
            )
            directions /= MOST_OUTPUTS**0.5
        squares = torch.zeros_like(x)
        for direction in directions.to(x):
            (gradient,) = torch.autograd.grad(
                outputs, x, direction.expand_as(outputs), retain_graph=True
            )
            squares += gradient.square()
    return squares.sqrt().mean(0)
