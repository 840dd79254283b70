"""Local attributions: how much each feature of a row moved the output, by the exact gradient.

One number per row is explained: the log-odds of a class (the second of two, else the predicted one)
of a classifier, the prediction of a regressor.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.explain.trees import encoded

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.types import TableLike

METHODS = ("integrated_gradients", "gradient_x_input")
MIN_STEPS, MAX_STEPS = 32, 4096
# Rows times points of the path in one pass.
MAX_POINTS = 2048
# What is explained, at points on the paths to rows of these numbers.
Output = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Attribution:
    """Attributions of some rows.

    Attributes
    ----------
    features : (n_rows, n_features_out) attribution of each encoded feature.
    columns : (n_rows, n_columns) their sums over the features of each source column.
    outputs, base : (n_rows,) the model's log-odds or numbers for the rows and for the baseline.
    gap : (n_rows,) ``outputs - base`` minus the sum of the attributions, about 0 if complete.
    targets : (n_rows,) number of the class or output that is explained.
    feature_names, column_names : names of the columns of both arrays.
    """

    features: np.ndarray
    columns: np.ndarray
    outputs: np.ndarray
    base: np.ndarray
    gap: np.ndarray
    targets: np.ndarray
    feature_names: list[str]
    column_names: list[str]


def attribute(
    model: TableEstimator,
    X: TableLike,
    method: str = "integrated_gradients",
    *,
    target: int | None = None,
    baseline: Any = None,
    tolerance: float = 1e-3,
) -> Attribution:
    """Attribute the output for each row to its features.

    Parameters
    ----------
    model : fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`
    X : a table as ``predict`` takes it.
    method : "integrated_gradients" (Sundararajan et al., 2017) follows the straight line from the
        baseline to the row and adds up to ``output - base``. "gradient_x_input" is the slope at the
        row times its distance from the baseline: quick, but adds up only if the model is linear.
    target : number of the class or output; by default the second of two classes, the most probable
        of more, the first of several numbers.
    baseline : table of one row to compare with; by default numbers at their mean, no category.
    tolerance : largest gap of integrated gradients, as a share of ``|output - base| + 1``; the
        steps of rows with a larger one are doubled, up to 4096.

    Raises
    ------
    ValueError
        An unknown method, a target that does not exist, or a baseline of several rows.

    Examples
    --------
    >>> from nrs import NRSClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, y)
    >>> why = attribute(model, X[:5])
    >>> why.columns.shape
    (5, 4)
    >>> bool(np.allclose(why.columns.sum(1), why.outputs - why.base, rtol=0.01, atol=0.01))
    True
    """
    check_is_fitted(model)
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}; got {method!r}")
    if not tolerance > 0:
        raise ValueError(f"tolerance must be more than 0; got {tolerance!r}")
    encoder, of = model.encoder_, model.target_
    is_number = isinstance(target, (int, np.integer)) and 0 <= target < of.n_outputs
    if target is not None and not is_number:
        raise ValueError(f"target must be an integer from 0 to {of.n_outputs - 1}; got {target!r}")
    x = torch.from_numpy(encoded(model, X)).double()
    neutral = neutral_row(encoder)[None] if baseline is None else encoded(model, baseline)
    start = torch.from_numpy(neutral).double()
    if len(start) != 1:
        raise ValueError(f"baseline must be a table of one row; got {len(start)} rows")
    network = copy.deepcopy(model.model_.folded()).cpu().double()
    with torch.no_grad():
        raw = torch.cat([network(part) for part in x.split(MAX_POINTS)])
        chosen = of.main_output(raw) if target is None else torch.full((len(x),), int(target))
        outputs = of.explained(raw, chosen)
        base = of.explained(network(start).expand_as(raw), chosen)

    def output(points: Tensor, rows: Tensor) -> Tensor:
        return of.explained(network(points), chosen[rows])

    if method == "gradient_x_input":
        features = _mean_gradient(output, x, start, torch.arange(len(x)), torch.ones(1))
        features *= x - start
    else:
        features = _integrate(output, x, start, outputs - base, tolerance)
    columns = torch.zeros(len(x), encoder.n_features_in_, dtype=torch.float64)
    columns.index_add_(1, torch.from_numpy(encoder.groups_), features)
    return Attribution(
        features=features.numpy(),
        columns=columns.numpy(),
        outputs=outputs.numpy(),
        base=base.numpy(),
        gap=(outputs - base - features.sum(1)).numpy(),
        targets=chosen.numpy(),
        feature_names=encoder.feature_names_out_.tolist(),
        column_names=encoder.column_names,
    )


def neutral_row(encoder: TableEncoder) -> np.ndarray:
    """Features that say nothing, (n_features_out,): 0, or 0.5 between two levels or truth values.

    Examples
    --------
    >>> neutral_row(TableEncoder().fit([[1.0, "left"], [2.0, "right"]]))
    array([0. , 0.5])
    """
    row = np.zeros(encoder.n_features_out_)
    for index, one in encoder.encoders.items():
        row[encoder.groups_ == index] = one.neutral
    return row


def _mean_gradient(
    output: Output, x: Tensor, start: Tensor, rows: Tensor, places: Tensor
) -> Tensor:
    """Mean gradient for some rows of `x`, over places from `start` (0) to the row (1)."""
    result = torch.zeros_like(x)
    pairs = rows.repeat_interleave(len(places)), places.to(x.dtype).repeat(len(rows))
    for row, place in zip(*(part.split(MAX_POINTS) for part in pairs), strict=True):
        points = (start + place[:, None] * (x[row] - start)).requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(output(points, row).sum(), points)
        result.index_add_(0, row, gradient / len(places))
    return result[rows]


def _integrate(output: Output, x: Tensor, start: Tensor, total: Tensor, tolerance: float) -> Tensor:
    """Integrated gradients by the midpoint rule, finer for the rows that need it."""
    result = torch.zeros_like(x)
    left, steps = torch.arange(len(x)), MIN_STEPS
    while len(left) and steps <= MAX_STEPS:
        # Kinks of the network make neither rule exact; midpoints need no care at the ends.
        places = (torch.arange(steps) + 0.5) / steps
        gradient = _mean_gradient(output, x, start, left, places)
        result[left] = gradient * (x[left] - start)
        gap = (result[left].sum(1) - total[left]).abs()
        left = left[gap > tolerance * (total[left].abs() + 1)]
        steps *= 2
    return result
