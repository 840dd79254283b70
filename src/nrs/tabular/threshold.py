"""The probability from which on the second of two classes is predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

# A number, what to maximise on out-of-bag rows, or a function of true and predicted labels.
Threshold: TypeAlias = float | str | Callable[[np.ndarray, np.ndarray], float] | None
RULES = ("balanced", "f1")
# Thresholds that a function is tried with.
MAX_TRIED = 99


def is_learned(threshold: Threshold) -> bool:
    """Whether out-of-bag rows decide; refuses what is no threshold.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> is_learned("f1"), is_learned(0.3), is_learned(None)
    (True, False, False)
    >>> is_learned("recall")
    Traceback (most recent call last):
        ...
    ValueError: threshold must be None, a number between 0 and 1, one of ('balanced', 'f1') or a \
function of true and predicted labels; got 'recall'
    """
    if threshold is None:
        return False
    if callable(threshold) or (isinstance(threshold, str) and threshold in RULES):
        return True
    number = isinstance(threshold, (int, float, np.number)) and not isinstance(threshold, bool)
    if number and 0 < float(threshold) < 1:
        return False
    raise ValueError(
        f"threshold must be None, a number between 0 and 1, one of {RULES} or a function of true "
        f"and predicted labels; got {threshold!r}"
    )


def find_threshold(
    rule: Threshold,
    classes: np.ndarray,
    truth: np.ndarray,
    chances: np.ndarray,
    weights: np.ndarray | None = None,
) -> float:
    """The threshold that is best for rows whose truth is known.

    Parameters
    ----------
    rule : "balanced" (balanced accuracy), "f1" (of the second class), or a function of true and
        predicted labels, higher being better; it sees no weights.
    classes : (2,) the labels.
    truth : (n,) bool, whether a row is of the second class.
    chances : (n,) its probability.

    Examples
    --------
    >>> truth, chances = np.arange(10) >= 7, np.linspace(0, 0.45, 10)
    >>> round(find_threshold("f1", np.arange(2), truth, chances), 3)
    0.325
    """
    distinct = np.unique(chances)
    cuts = (distinct[1:] + distinct[:-1]) / 2
    if not len(cuts) or truth.all() or not truth.any():
        return 0.5
    if callable(rule):
        tried = cuts[np.unique(np.linspace(0, len(cuts) - 1, MAX_TRIED).astype(int))]
        labels = classes[truth.astype(int)]
        scores = np.array([rule(labels, classes[(chances >= cut).astype(int)]) for cut in tried])
        return float(tried[scores.argmax()])
    weight = np.ones(len(truth)) if weights is None else weights.astype(np.float64)
    # Of the rows at or above each cut.
    order = np.argsort(chances)
    place = np.searchsorted(chances[order], cuts)
    right, wrong = (np.append(np.cumsum((weight * one)[order]), 0.0) for one in (truth, ~truth))
    hits, alarms = right[-2] - right[place - 1], wrong[-2] - wrong[place - 1]
    if rule == "f1":
        scores = 2 * hits / (hits + alarms + right[-2])
    else:
        scores = hits / right[-2] - alarms / wrong[-2]
    return float(cuts[scores.argmax()])
