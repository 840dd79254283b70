"""Statistics as in the paper (t-tests, win/tie/lose) and as the field does today (ranks).

The paper's marks are those of Student's t-test with pooled variance on five trials each, its
deviations taken as of a sample: so computed from its printed means and deviations, 165 of the
168 marks come out as printed (with Welch's test 160).
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from nrs._util.optional import import_optional
from nrs.pages.ranks import critical_difference

LEVEL = 0.05
DIAGRAM = "a critical-difference diagram"
# Scores that differ by rounding alone are equal: means of the same trials in another order, or
# differences of printed numbers.
DECIMALS = 9
MARKS = {"win": "●", "tie": "", "lose": "○"}
# Scores by method, then by dataset.
Scores = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Sample:
    """Mean, standard deviation (of a sample, n − 1) and number of trials."""

    mean: float
    std: float | None
    n: int


@dataclass(frozen=True)
class Comparison:
    """Outcome of a t-test from the first method's side: ``"win"``, ``"tie"`` or ``"lose"``."""

    outcome: str
    p: float

    @property
    def mark(self) -> str:
        """The paper's ● for a win and ○ for a loss."""
        return MARKS[self.outcome]


def sample(values: Sequence[float]) -> Sample:
    """Mean and standard deviation of trials; no deviation for a single one.

    Examples
    --------
    >>> sample([1.0, 2.0, 3.0])
    Sample(mean=2.0, std=1.0, n=3)
    """
    numbers = np.asarray(values, dtype=np.float64)
    std = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
    return Sample(float(numbers.mean()), std, len(numbers))


def compare(
    first: Sample, second: Sample, *, level: float = LEVEL, lower_is_better: bool = False
) -> Comparison | None:
    """Compare two methods by Student's t-test; None where a deviation is unknown.

    Examples
    --------
    >>> compare(Sample(91.52, 0.31, 5), Sample(90.01, 0.31, 5)).mark
    '●'
    """
    if first.std is None or second.std is None or min(first.n, second.n) < 2:
        return None
    if first.std == second.std == 0:
        p = 1.0 if first.mean == second.mean else 0.0
    else:
        test = stats.ttest_ind_from_stats(
            first.mean, first.std, first.n, second.mean, second.std, second.n, equal_var=True
        )
        p = float(test.pvalue)
    if p >= level:
        return Comparison("tie", p)
    better = (first.mean > second.mean) != lower_is_better
    return Comparison("win" if better else "lose", p)


def critical_difference_of(first: Sample, second: Sample, *, level: float = LEVEL) -> float | None:
    """The smallest difference of two means that `compare` calls significant; None as there.

    Examples
    --------
    >>> round(critical_difference_of(Sample(91.5, 0.3, 5), Sample(90.0, 0.3, 5)), 4)
    0.4375
    """
    if first.std is None or second.std is None or min(first.n, second.n) < 2:
        return None
    degrees = first.n + second.n - 2
    pooled = ((first.n - 1) * first.std**2 + (second.n - 1) * second.std**2) / degrees
    width = math.sqrt(pooled * (1 / first.n + 1 / second.n))
    return float(stats.t.ppf(1 - level / 2, degrees)) * width


def win_tie_lose(outcomes: Iterable[str]) -> tuple[int, int, int]:
    """Count outcomes.

    >>> win_tie_lose(["win", "win", "lose"])
    (2, 0, 1)
    """
    found = list(outcomes)
    return found.count("win"), found.count("tie"), found.count("lose")


def complete_datasets(scores: Scores) -> list[str]:
    """Datasets on which every method has a score, in the first method's order."""
    methods = list(scores.values())
    if not methods:
        return []
    return [name for name in methods[0] if all(name in by_dataset for by_dataset in methods)]


def ranks(scores: Scores) -> dict[str, float]:
    """Average rank of each method over the datasets that all have; 1 is best, ties share.

    Examples
    --------
    >>> ranks({"a": {"x": 90.0, "y": 80.0}, "b": {"x": 85.0, "y": 80.0}})
    {'a': 1.25, 'b': 1.75}
    """
    table = _matrix(scores)
    if not len(table):
        return {}
    means = stats.rankdata(-table, axis=1).mean(axis=0)
    return dict(zip(scores, means.tolist(), strict=True))


def friedman(scores: Scores) -> dict[str, float] | None:
    """Friedman's test that all methods are alike; None for fewer than 3 methods or 2 datasets."""
    table = _matrix(scores)
    if table.shape[0] < 2 or table.shape[1] < 3:
        return None
    statistic, p = stats.friedmanchisquare(*table.T)
    return None if math.isnan(p) else {"statistic": float(statistic), "p": float(p)}


def wilcoxon_holm(scores: Scores) -> list[dict[str, Any]]:
    """Wilcoxon's signed-rank test of every pair of methods, p-values adjusted by Holm."""
    datasets = complete_datasets(scores)
    pairs: list[dict[str, Any]] = []
    for first, second in itertools.combinations(scores, 2):
        exact = np.array([scores[first][d] - scores[second][d] for d in datasets])
        difference = exact.round(DECIMALS)
        if len(difference) < 2:
            return []
        p = 1.0 if not difference.any() else float(stats.wilcoxon(difference).pvalue)
        pairs.append({"first": first, "second": second, "p": p})
    adjusted = holm([pair["p"] for pair in pairs])
    return [pair | {"p_holm": p} for pair, p in zip(pairs, adjusted, strict=True)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment of p-values for several tests.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, (len(p_values) - place) * p_values[index])
        adjusted[index] = min(1.0, largest)
    return adjusted


def rank_statistics(scores: Scores) -> dict[str, Any] | None:
    """Average ranks with Friedman, Nemenyi and Wilcoxon–Holm, as JSON values.

    None unless three methods have two datasets in common.
    """
    datasets = complete_datasets(scores)
    test = friedman(scores)
    if test is None:
        return None
    return {
        "datasets": datasets,
        "scores": {method: [by[name] for name in datasets] for method, by in scores.items()},
        "average_ranks": ranks(scores),
        "friedman_p": test["p"],
        "critical_difference": critical_difference(len(scores), len(datasets)),
        "wilcoxon_holm": [[p["first"], p["second"], p["p_holm"]] for p in wilcoxon_holm(scores)],
    }


def draw_critical_differences(scores: Scores, path: str | os.PathLike[str]) -> None:
    """Draw the critical-difference diagram of average ranks (Nemenyi) as a PNG file.

    Raises ImportError if scikit-posthocs or matplotlib is not installed, and ValueError unless
    three methods have two datasets in common.
    """
    figures = import_optional("matplotlib.figure", DIAGRAM, "paper")
    figure = figures.Figure(figsize=(7, 0.6 + 0.3 * len(scores)), dpi=150, layout="constrained")
    critical_differences(scores, figure.add_subplot())
    figure.savefig(path, format="png")


def critical_differences(scores: Scores, axes: Any) -> None:
    """As :func:`draw_critical_differences`, into matplotlib's axes."""
    table = _matrix(scores)
    if table.shape[0] < 2 or table.shape[1] < 3:
        raise ValueError(
            "a diagram needs at least 3 methods with 2 datasets in common, however: "
            f"{table.shape[1]} methods with {table.shape[0]}"
        )
    scikit_posthocs, pandas = (
        import_optional(name, DIAGRAM, "paper") for name in ("scikit_posthocs", "pandas")
    )
    frame = pandas.DataFrame(table, columns=list(scores))
    p_values = scikit_posthocs.posthoc_nemenyi_friedman(frame)
    scikit_posthocs.critical_difference_diagram(ranks(scores), p_values, ax=axes, alpha=LEVEL)


def _matrix(scores: Scores) -> np.ndarray:
    """Scores of shape (datasets that all have, methods)."""
    rows = [[by[name] for by in scores.values()] for name in complete_datasets(scores)]
    return np.array(rows).reshape(len(rows), len(scores)).round(DECIMALS)
