"""Local attributions: how much each feature of a row moved the output, by the exact gradient.

One number per row is explained: the log-odds of a class (the second of two, else the predicted one)
of a classifier, the prediction of a regressor.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.explain.inputs import Model, encoded
from nrs.tabular.targets import Target

METHODS = ("integrated_gradients", "gradient_x_input")
MIN_STEPS, MAX_STEPS = 32, 4096
# Rows times points of the path in one pass.
MAX_POINTS = 2048


@dataclass(frozen=True)
class Attribution:
    """Attributions of some rows.

    Attributes
    ----------
    features : (n_rows, n_features_out) attribution of each encoded feature.
    columns : (n_rows, n_columns) their sums over the features of each source column.
    outputs, base : (n_rows,) the model's log-odds or numbers for the rows and for the baseline.
    gap : (n_rows,) ``outputs - base`` minus the sum of the attributions: 0 up to the tolerance of
        integrated gradients.
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
    model: Model,
    X: Any,
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
    method : {"integrated_gradients", "gradient_x_input"}
        Integrated gradients (Sundararajan et al., 2017) follow the straight line from the baseline
        to the row and add up to ``output - base``. Gradient × input is the slope at the row times
        its distance from the baseline: one pass, but it adds up only where the model is linear.
    target : int, optional
        Number of the class or output; by default the second of two classes, the most probable of
        more, the first of several numbers.
    baseline : table of one row, optional
        The row to compare with; by default numbers at their mean, no category.
    tolerance : float
        Largest gap of integrated gradients, as a share of ``|output - base| + 1``; the steps of
        rows with a larger one are doubled, up to 4096.

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

    Raises
    ------
    ValueError
        An unknown method, a target that does not exist, or a baseline of several rows.
    """
    check_is_fitted(model)
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}; got {method!r}")
    if not tolerance > 0:
        raise ValueError(f"tolerance must be more than 0; got {tolerance!r}")
    encoder = model.encoder_
    x = torch.from_numpy(encoded(model, X)).double()
    neutral = neutral_row(encoder)[None] if baseline is None else encoded(model, baseline)
    start = torch.from_numpy(neutral).double()
    if len(start) != 1:
        raise ValueError(f"baseline must be a table of one row; got {len(start)} rows")
    network = copy.deepcopy(model.predictor_).cpu().double()
    targets = _targets(model, network, x, target)
    output = _explained(network, model.target_)
    with torch.no_grad():
        outputs, base = output(x, targets), output(start.expand_as(x), targets)
    if method == "gradient_x_input":
        features = _mean_gradient(output, x, start, targets, torch.ones(1)) * (x - start)
    else:
        features = _integrate(output, x, start, targets, outputs - base, tolerance)
    columns = torch.zeros(len(x), encoder.n_features_in_, dtype=torch.float64)
    columns.index_add_(1, torch.from_numpy(encoder.groups_), features)
    return Attribution(
        features=features.numpy(),
        columns=columns.numpy(),
        outputs=outputs.numpy(),
        base=base.numpy(),
        gap=(outputs - base - features.sum(1)).numpy(),
        targets=targets.numpy(),
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
        first = encoder.first[index]
        row[first : first + len(one.features)] = one.neutral
    return row


Output = Callable[[Tensor, Tensor], Tensor]


def _targets(model: Model, network: nn.Module, x: Tensor, target: int | None) -> Tensor:
    n_outputs = model.target_.n_outputs
    if target is not None:
        if not isinstance(target, (int, np.integer)) or not 0 <= target < n_outputs:
            raise ValueError(f"target must be an integer from 0 to {n_outputs - 1}; got {target!r}")
        return torch.full((len(x),), int(target))
    with torch.no_grad():
        parts = [model.target_.main_output(network(part)) for part in x.split(MAX_POINTS)]
    return torch.cat(parts)


def _explained(network: nn.Module, target: Target) -> Output:
    """The numbers that are explained, as a function of features (B, d) and targets (B,)."""

    def output(x: Tensor, targets: Tensor) -> Tensor:
        return target.explained(network(x), targets)

    return output


def _mean_gradient(
    output: Output, x: Tensor, start: Tensor, targets: Tensor, places: Tensor
) -> Tensor:
    """Mean gradient over points of the line from `start` (place 0) to the rows (place 1)."""
    result = torch.empty_like(x)
    rows = max(1, MAX_POINTS // len(places))
    for part in torch.arange(len(x)).split(rows):
        total = torch.zeros(len(part), x.shape[1], dtype=x.dtype)
        for few in places.to(x.dtype).split(MAX_POINTS):
            points = start + few.view(-1, 1, 1) * (x[part] - start)
            points = points.flatten(0, 1).requires_grad_()
            with torch.enable_grad():
                value = output(points, targets[part].repeat(len(few)))
                (gradient,) = torch.autograd.grad(value.sum(), points)
            total += gradient.view(len(few), len(part), -1).sum(0)
        result[part] = total / len(places)
    return result


def _integrate(
    output: Output, x: Tensor, start: Tensor, targets: Tensor, total: Tensor, tolerance: float
) -> Tensor:
    """Integrated gradients by the midpoint rule, finer for the rows that need it."""
    result = torch.zeros_like(x)
    left = torch.arange(len(x))
    steps = MIN_STEPS
    while len(left):
        # Kinks of the network make neither rule exact; midpoints need no care at the ends.
        places = (torch.arange(steps) + 0.5) / steps
        gradient = _mean_gradient(output, x[left], start, targets[left], places)
        result[left] = gradient * (x[left] - start)
        gap = (result[left].sum(1) - total[left]).abs()
        far = gap > tolerance * (total[left].abs() + 1)
        left = left[far] if steps < MAX_STEPS else left[:0]
        steps *= 2
    return result
