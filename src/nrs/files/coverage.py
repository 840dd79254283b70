"""How often intervals and sets hold the truth of rows that a model was not trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nrs.files.scores import Scored, ScoredTargets
from nrs.tabular.targets import conformal_quantiles

if TYPE_CHECKING:
    import pyarrow

    from nrs.files.fit import FittedFile
    from nrs.tabular.types import TableModel

LEVEL = 0.9
# Fewer rows say little of how often they are covered.
MIN_ROWS = 20


@dataclass(frozen=True)
class Intervals:
    """Intervals of numbers, next to the truth.

    Attributes
    ----------
    truth, predicted, low, high : (n,)
    level : the share of rows that they should hold.
    levels, quantiles : (q,) and (n, q), of a model of quantiles.
    """

    truth: np.ndarray
    predicted: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    levels: np.ndarray | None = None
    quantiles: np.ndarray | None = None

    @property
    def right(self) -> np.ndarray:
        """Whether each row is held, (n,)."""
        return (self.low <= self.truth) & (self.truth <= self.high)

    def by_quartile(self) -> list[float | None]:
        """The share of rows that are held, by quartile of the prediction; None of an empty one.

        >>> rows = np.arange(8.0)
        >>> Intervals(rows, rows, rows - 1, np.where(rows > 5, rows - 1, rows), 0.9).by_quartile()
        [1.0, 1.0, 1.0, 0.0]
        """
        cuts = np.quantile(self.predicted, [0.25, 0.5, 0.75])
        quartile = np.searchsorted(cuts, self.predicted, "right")
        own = [self.right[quartile == place] for place in range(4)]
        return [float(held.mean()) if len(held) else None for held in own]


@dataclass(frozen=True)
class Sets:
    """Sets of classes (n, n_classes), next to the places of the true ones (n,)."""

    classes: np.ndarray
    truth: np.ndarray
    sets: np.ndarray
    level: float

    @property
    def right(self) -> np.ndarray:
        """Whether the set of each row has its class, (n,)."""
        found: np.ndarray = self.sets[np.arange(len(self.truth)), self.truth]
        return found

    @property
    def sizes(self) -> np.ndarray:
        """How many classes the set of each row has, (n,)."""
        found: np.ndarray = self.sets.sum(1)
        return found


def intervals_of(fitted: FittedFile) -> dict[str, Intervals]:
    """The intervals of the rows that scored a model of numbers, by target; none if it has none.

    An out-of-bag row gets what the other half of the rows says of errors, so that nothing makes
    half of the intervals right by itself.
    """
    model, scored = fitted.model, fitted.scored
    if not isinstance(scored, (Scored, ScoredTargets)) or len(scored) < MIN_ROWS:
        return {}
    parts = scored.parts if isinstance(scored, ScoredTargets) else {"": scored}
    if any(one.classes is not None for one in parts.values()):
        return {}
    levels = getattr(model.target_, "levels", None)
    held_out = None
    if scored.source != "out-of-bag":
        held_out = fitted.table.features.take(scored.rows)
    each = _quantiles if levels is not None else _intervals
    if levels is not None and len(levels) < 2:
        return {}
    found = each(model, parts, scored.rows, held_out)
    return {name: one for name, one in found.items() if len(one.truth) >= MIN_ROWS}


def _intervals(
    model: TableModel,
    parts: dict[str, Scored],
    rows: np.ndarray,
    held_out: pyarrow.Table | None,
) -> dict[str, Intervals]:
    found = {}
    if held_out is not None:
        try:
            ends = [one.reshape(len(rows), -1) for one in model.predict_interval(held_out, LEVEL)]
        except ValueError:
            # Without out-of-bag rows, and with a log link, there are none.
            return {}
        for place, (name, one) in enumerate(parts.items()):
            low, high = (end[:, place] for end in ends)
            found[name] = Intervals(one.truth, one.predicted, low, high, LEVEL)
        return found
    if not hasattr(model, "oob_std_"):
        return {}
    deviations = model.oob_std_[rows].reshape(len(rows), -1)
    for (name, one), deviation in zip(parts.items(), deviations.T, strict=True):
        kept = np.flatnonzero(deviation > 0)
        truth, predicted, deviation = one.truth[kept], one.predicted[kept], deviation[kept]
        reach = _by_others(np.abs(truth - predicted) / deviation) * deviation
        found[name] = Intervals(truth, predicted, predicted - reach, predicted + reach, LEVEL)
    return found


def _quantiles(
    model: TableModel,
    parts: dict[str, Scored],
    rows: np.ndarray,
    held_out: pyarrow.Table | None,
) -> dict[str, Intervals]:
    if held_out is not None:
        predicted = model.predict_quantiles(held_out)
    else:
        predicted = model.oob_quantiles_[rows]
    levels = model.target_.levels
    predicted = predicted.reshape(len(rows), -1, len(levels))
    return {
        name: Intervals(
            one.truth, one.predicted, own[:, 0], own[:, -1], levels[-1] - levels[0], levels, own
        )
        for (name, one), own in zip(parts.items(), np.moveaxis(predicted, 1, 0), strict=True)
    }


def sets_of(fitted: FittedFile) -> Sets | None:
    """The sets of the rows that scored a model of classes; None if it has none.

    Out-of-bag rows as in :func:`intervals_of`.
    """
    model, scored = fitted.model, fitted.scored
    if not isinstance(scored, Scored) or scored.classes is None or scored.probabilities is None:
        return None
    known = np.isin(scored.truth, scored.classes)
    if known.sum() < MIN_ROWS:
        return None
    chances = scored.probabilities[known]
    truth = np.searchsorted(scored.classes, scored.truth[known])
    if scored.source == "out-of-bag":
        missed = _by_others(1 - chances[np.arange(len(truth)), truth])
        sets = (1 - chances <= missed[:, None]) | (chances == chances.max(1, keepdims=True))
    else:
        try:
            sets = model.sets_around(chances, LEVEL)
        except ValueError:
            return None
    return Sets(scored.classes, truth, sets, LEVEL)


def _by_others(errors: np.ndarray) -> np.ndarray:
    """What so many of the errors of the other half of the rows are below, for each row."""
    found = np.empty(len(errors))
    for half in range(2):
        others = errors[1 - half :: 2]
        found[half::2] = conformal_quantiles(others, np.ones(len(others)), np.array([LEVEL]))
    return found
