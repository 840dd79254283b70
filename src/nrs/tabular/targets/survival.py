"""Times until something happens, of which some are known only to lie between bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nrs._util.lazy import torch
from nrs.tabular.encode.number import LIMIT, MAX_FLOAT
from nrs.tabular.targets.base import Result
from nrs.tabular.targets.losses import LossTarget

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import ArrayLike

# Outputs of the scale are within these logarithms.
MAX_LOG_SCALE = 5.0
# Rows among which pairs are compared, and which find the start: more change the third digit.
MAX_COMPARED = 5_000


class SurvivalTarget(LossTarget):
    """Times above 0 given by bounds: an accelerated failure time model with a logistic error.

    Labels are (n, 2): the lower and upper bound of each time. Equal bounds are a time that was
    seen; an upper bound that is infinite or missing is a time censored on the right, a lower bound
    of 0 one censored on the left. The logarithm of the time is a location plus a scale times a
    logistic error, and a network has an output for each of the two. What is predicted is the median
    time, the score is the concordance.
    """

    kind = "aft"
    finite = False
    outputs_of_target = 2
    metrics = {}  # noqa: RUF012

    def check(self, y: np.ndarray) -> None:
        if y.ndim != 2 or y.shape[1] != 2:
            raise ValueError(
                f"loss='aft' needs y of shape (n_rows, 2), lower and upper bounds; got {y.shape}"
            )
        low, high = _bounds(y).T
        wrong = ~((low >= 0) & (high >= low) & (high > 0) & (low < np.inf))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                "loss='aft' needs bounds 0 ≤ lower ≤ upper with lower finite and upper above 0; "
                f"got ({y[row, 0]:g}, {y[row, 1]:g}) in row {row}"
            )

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> SurvivalTarget:
        self.check(y)
        y = _bounds(y)
        points = _points(*_logs(y))
        std = float(points.std())
        mean, unit = np.array([points.mean()]), np.array([std if std > 0 else 1.0])
        target = self._sized(mean, unit, single=True)
        encoded = target.encode(y)
        kept = np.arange(0, len(y), max(1, len(y) // MAX_COMPARED))
        target.start = target.best(encoded[kept].T, np.ones(len(kept)))
        return target

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Standardised logarithms of both bounds, (n, 2)."""
        self.check(y)
        y = _bounds(y)
        standard = (np.stack(_logs(y), axis=1) - self.mean) / self.std
        return np.clip(standard, -LIMIT, LIMIT).astype(np.float32)

    def indicators(self, y: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        low, high = y.T.astype(np.float64)
        low, high = (
            np.where(low <= -LIMIT / 2, -np.inf, low),
            np.where(high >= LIMIT / 2, np.inf, high),
        )
        return _points(low, high)[:, None]

    def units(self, y: np.ndarray, weights: np.ndarray) -> None:
        return None

    @property
    def directions(self) -> list[int]:
        # The median follows the location alone.
        return [1, 0]

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        location, log_scale = outputs[:, :1], outputs[:, 1:]
        log_scale = MAX_LOG_SCALE * (log_scale / MAX_LOG_SCALE).tanh()
        low, high = ((bound - location) * (-log_scale).exp() for bound in y)
        seen = y[0] == y[1]
        # Where bounds are equal their difference has no logarithm; its gradient must not be NaN.
        apart = torch.where(seen, torch.ones_like(low), high - low)
        softplus = torch.nn.functional.softplus
        between = softplus(-high) + softplus(low) - (-(-apart).exp()).log1p()
        return torch.where(seen, low + 2 * softplus(-low) + log_scale, between)

    def best(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        from scipy.optimize import minimize

        truth = torch.from_numpy(y.astype(np.float64))
        counted = torch.from_numpy(weights.astype(np.float64))

        def loss(constant: np.ndarray) -> float:
            outputs = torch.from_numpy(constant).view(1, 2, 1)
            return float((self.each(outputs, truth)[0, 0] * counted).mean())

        start = np.array([0.0, math.log(math.sqrt(3) / math.pi)])
        found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 200}).x
        return np.clip(found, -MAX_LOG_SCALE, MAX_LOG_SCALE)

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        known = slice(None) if weights is None else weights.numpy() > 0
        return concordance(y.numpy()[known], outputs[:, 0].numpy()[known])

    def rate(self, y: ArrayLike, answers: np.ndarray, weights: ArrayLike | None = None) -> float:
        return concordance(_bounds(np.asarray(y, dtype=np.float64)), answers)

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> None:
        return None

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        logs = np.asarray(outputs[:, 0], dtype=np.float64) * self.std + self.mean
        return np.minimum(np.exp(np.clip(logs, -700, 709)), MAX_FLOAT)

    def truth(self, y: Tensor) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(y.double().cpu().numpy() * self.std + self.mean)

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """The logarithm of the median time, or of the relative scale."""
        own, first = outputs.gather(1, chosen[:, None])[:, 0], chosen == 0
        return torch.where(first, own * float(self.std[0]) + float(self.mean[0]), own.double())

    def to_torch(self) -> nn.Module:
        """From outputs to median times, (B, 1)."""
        from nrs.tabular.targets.modules import Median

        return Median(float(self.mean[0]), float(self.std[0]))

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        location = graph.cast(graph.columns(outputs, [0]), np.float64)
        logs = graph.op("Mul", location, graph.constant(self.std))
        times = graph.op("Exp", graph.op("Add", logs, graph.constant(self.mean)))
        return [("prediction", graph.reshape(times, -1), np.float64, ())]


def concordance(bounds: np.ndarray, predicted: np.ndarray) -> float:
    """Share of comparable pairs of rows whose predictions are in order; ties count half.

    A pair is comparable if one time is surely before the other. Of many rows some, spread evenly,
    are compared; 0.5 without a comparable pair.

    **Shape** bounds ``(n, 2)``, predicted ``(n,)``.

    Examples
    --------
    >>> bounds = np.array([[1.0, 1.0], [2.0, np.inf], [3.0, 3.0]])
    >>> concordance(bounds, np.array([1.0, 5.0, 2.0]))
    1.0
    """
    kept = np.arange(0, len(bounds), max(1, -(-len(bounds) // MAX_COMPARED)))
    (low, high), predicted = bounds[kept].T, predicted[kept]
    pairs = right = 0.0
    for part in np.array_split(np.arange(len(kept)), max(1, len(kept) // 500)):
        # What ends before the lower bound of another, or at it if that is not the time itself.
        before = high[part, None] < low[None]
        before |= (high[part, None] == low[None]) & (low < high)[None]
        gap = predicted[None] - predicted[part, None]
        pairs += before.sum()
        right += (before & (gap > 0)).sum() + (before & (gap == 0)).sum() / 2
    return float(right / pairs) if pairs else 0.5


def _bounds(y: np.ndarray) -> np.ndarray:
    """Bounds (n, 2) with infinity in place of an upper one that is missing."""
    if y.ndim != 2 or y.shape[1] != 2:
        return y
    return np.where([False, True] & np.isnan(y), np.inf, y)


def _logs(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(divide="ignore"):
        low, high = np.log(y.T)
    return low, high


def _points(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """One number for each pair of bounds: their middle, or the one that is finite.

    >>> _points(np.array([0.0, 2.0, -np.inf]), np.array([1.0, np.inf, 3.0])).tolist()
    [0.5, 2.0, 3.0]
    """
    ends = np.stack([low, high])
    finite = np.isfinite(ends)
    total = np.where(finite, ends, 0.0).sum(0)
    points: np.ndarray = total / np.maximum(finite.sum(0), 1)
    return points
