"""How large an error may be, row by row: for intervals and standard deviations.

Errors of one output are of the size ``exp(f(prediction))``, where f is linear between a few
quantiles of the predictions. It is fitted to the sizes of out-of-bag errors, as the scale of a
Laplace distribution. Whether rows differ at all is decided by rows that the fit has not seen, one
fold after the other: where the interval score of 90 % intervals gains no more than chance does,
all rows get the same scale.

How far members disagree about a training row says nothing honest about new rows: most members have
seen its label and moved towards it, so that they disagree most with the others where the error is
largest. Only a new row about which members disagree unusually gets a larger scale.

Out-of-bag rows are predicted by few members, whose mean errs more than that of all does. What the
others would average away of it, the members' variance says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from nrs._util.arrays import A
from nrs.tabular.targets.base import N_QUANTILES, conformal_quantiles

if TYPE_CHECKING:
    from nrs.tabular.types import Json

# Quantiles of the predictions between which f is linear.
PLACES = (0.02, 0.26, 0.5, 0.74, 0.98)
# Beyond this quantile of the spreads errors are as much larger as the spread is.
HIGH = 0.99
# The intervals by which scales are compared; errors of how much of the variance may be averaged.
LEVEL, MOST_AVERAGED = 0.9, 0.5
# What is gained must be so many standard errors above 0.
MIN_ERRORS = 2.0
# How strongly the fit is drawn to what does not change from row to row, in rows.
BEND, SIZE = 4.0, 0.05
TINY, STEPS = 1e-9, 50
# Standardised errors are far within e to this power.
MAX_LOG = 50.0


@dataclass(frozen=True)
class Errors:
    """Out-of-bag results for one output: predictions, spreads, sizes of errors, weights, folds.

    **Shape** ``(n,)`` each.
    """

    outputs: np.ndarray
    spread: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray
    folds: np.ndarray

    def take(self, rows: np.ndarray) -> Errors:
        """Some of the rows."""
        parts = (self.outputs, self.spread, self.sizes, self.weights, self.folds)
        return Errors(*(part[rows] for part in parts))


@dataclass(frozen=True)
class ErrorScale:
    """The scale of the errors of one output.

    Attributes
    ----------
    places, values : predictions, ascending, and f there.
    high : log spread beyond which errors grow with it.
    slope, low : of earlier files, how much log spread counts between `low` and `high`.
    deviation : the standard deviation of errors that are divided by their scale; None of earlier
        files.

    Examples
    --------
    >>> scale = ErrorScale([0.0, 1.0], [0.0, 2.0], high=0.0)
    >>> scale(np.array([0.5, 0.5]), np.array([1.0, 2.0])).round(2)
    array([2.72, 5.44])
    """

    places: list[float] = field(default_factory=lambda: [0.0])
    values: list[float] = field(default_factory=lambda: [0.0])
    slope: float = 0.0
    low: float = 0.0
    high: float = 0.0
    deviation: float | None = None

    def __call__(self, outputs: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The scale of rows with these predictions and spreads."""
        log = np.log(np.maximum(spread, TINY))
        size = self.slope * np.clip(log, self.low, self.high) + np.maximum(log - self.high, 0)
        size += np.interp(outputs, self.places, self.values)
        return np.exp(np.clip(size, -MAX_LOG, MAX_LOG))

    @classmethod
    def constant(cls, known: Errors) -> ErrorScale:
        """The same scale for all rows whose members do not disagree unusually."""
        return cls.beyond(float(np.quantile(known.spread, HIGH)))

    @classmethod
    def beyond(cls, spread: float) -> ErrorScale:
        """The same scale for all rows but those whose spread is larger than this."""
        log = float(np.log(max(spread, TINY)))
        return cls(low=log, high=log)

    @classmethod
    def fit(cls, known: Errors) -> ErrorScale:
        """The scale that makes the sizes of these errors most likely."""
        weights = known.weights / known.weights.mean()
        places = np.unique(np.quantile(known.outputs, PLACES))
        hats = np.stack([np.interp(known.outputs, places, hat) for hat in np.eye(len(places))])
        design = np.vstack([np.ones(len(weights)), hats]).T
        bends = np.diff(np.eye(len(places)), axis=0)
        penalty = np.zeros((design.shape[1],) * 2)
        penalty[1:, 1:] = BEND * bends.T @ bends + SIZE * np.eye(len(places))
        sizes = np.maximum(known.sizes, TINY)
        found = np.zeros(design.shape[1])
        found[0] = np.log(np.average(sizes, weights=weights))
        for _ in range(STEPS):
            # Newton's method, damped: the loss is convex.
            ratio = np.minimum(sizes * np.exp(-design @ found), 1e3)
            slopes = design.T @ (weights * (1 - ratio)) + penalty @ found
            curve = (design.T * (weights * (ratio + 0.1))) @ design + penalty
            step = np.linalg.solve(curve + TINY * np.eye(len(found)), slopes)
            found -= step / max(1.0, float(np.abs(step).max()))
            if np.abs(step).max() < 1e-6:
                break
        values = (found[0] + found[1:]).tolist()
        return replace(cls.constant(known), places=places.tolist(), values=values)

    def state(self) -> Json:
        """All of it, as JSON values."""
        return asdict(self)


def find_scale(known: Errors, averaged: float) -> tuple[ErrorScale, np.ndarray]:
    """The scale of an output's errors, and quantiles of the errors divided by it.

    Parameters
    ----------
    averaged : the share of the members' variance that out-of-bag predictions have and joint ones
        do not.

    Returns
    -------
    scale : ErrorScale
    quantiles : ndarray (N_QUANTILES,)
        Such that a new row's error is below each of them, times its scale, often enough.
    """
    counted = known.take(np.flatnonzero(known.weights > 0))
    counted = counted.take(np.flatnonzero(np.isfinite(counted.sizes)))
    if not len(counted.sizes) or not counted.sizes.any():
        return ErrorScale(deviation=0.0), np.zeros(N_QUANTILES)
    scale = ErrorScale.constant(counted)
    of_rows = scale(counted.outputs, counted.spread)
    fitted = _across_folds(counted)
    if fitted is not None:
        gained = _scores(counted, of_rows) - _scores(counted, fitted)
        weights = counted.weights / counted.weights.sum()
        mean = weights @ gained
        if mean > MIN_ERRORS * np.sqrt(weights**2 @ (gained - mean) ** 2):
            scale, of_rows = ErrorScale.fit(counted), fitted
    ratios = counted.sizes / of_rows
    square = np.average(ratios**2, weights=counted.weights)
    spread = np.average((counted.spread / of_rows) ** 2, weights=counted.weights)
    kept = np.sqrt(1 - min(MOST_AVERAGED, averaged * spread / square))
    quantiles = kept * conformal_quantiles(ratios, counted.weights, np.linspace(0, 1, N_QUANTILES))
    return replace(scale, deviation=float(kept * np.sqrt(square))), quantiles


def deviations_of(scale: ErrorScale, known: Errors) -> np.ndarray:
    """The standard deviation of the error of each out-of-bag prediction, (n,)."""
    of_rows = scale(known.outputs, known.spread)
    counted = (known.weights > 0) & np.isfinite(known.sizes)
    if not counted.any():
        return np.full(len(of_rows), np.nan)
    squares = (known.sizes / of_rows)[counted] ** 2
    return of_rows * np.sqrt(np.average(squares, weights=known.weights[counted]))


def _across_folds(known: Errors) -> np.ndarray | None:
    """Scales of rows, of each fold by a fit to the others; None where there are too few."""
    found = np.empty(len(known.sizes))
    for fold in np.unique(known.folds):
        own = known.folds == fold
        if (~own).sum() < 4 * len(PLACES) or not known.sizes[~own].any():
            return None
        held = known.take(np.flatnonzero(own))
        found[own] = ErrorScale.fit(known.take(np.flatnonzero(~own)))(held.outputs, held.spread)
    return found


def _scores(known: Errors, scale: np.ndarray) -> np.ndarray:
    """The interval score of each row (Gneiting & Raftery, 2007), halved."""
    reach = conformal_quantiles(known.sizes / scale, known.weights, np.array([LEVEL])) * scale
    return reach + np.maximum(known.sizes - reach, 0) / (1 - LEVEL)


def members_spread(outputs: A, shares: A) -> A:
    """How far members disagree: the deviation of (K, B, C) outputs from their mean, (B, C).

    Examples
    --------
    >>> members_spread(np.array([[[0.0]], [[2.0]]]), np.ones(2))
    array([[1.]])
    """
    weights = (shares / shares.sum()).reshape(-1, 1, 1)
    mean = (outputs * weights).sum(0)
    variance: A = ((outputs - mean) ** 2 * weights).sum(0)
    return variance**0.5


def scales_of(scales: Sequence[ErrorScale], outputs: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The scales of all outputs, each of (n, C) predictions and spreads."""
    each = zip(scales, outputs.T, spread.T, strict=True)
    return np.column_stack([scale(*of_output) for scale, *of_output in each])
