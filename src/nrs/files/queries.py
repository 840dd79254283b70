"""Scores of a ranker on the documents of queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nrs.ranking import measure
from nrs.ranking.queries import Queries, group_queries
from nrs.ranking.recipe import are_grades, not_grades

METRICS = ("ndcg@10", "ndcg@5", "map", "mrr")
# Documents of a query that the first line counts.
_K = 10
# Of a 95 % interval of a mean.
_Z = 1.96


def check_grades(truth: np.ndarray, target: str) -> None:
    """Refuse a target that does not say how relevant a document is.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> check_grades(np.array([0.0, 0.5]), "clicks")
    Traceback (most recent call last):
        ...
    ValueError: A ranker's target must hold grades 0, 1, 2, … of relevance; 'clicks' holds 0.5.
    """
    if not are_grades(truth):
        wrong = truth[not_grades(truth)][0]
        raise ValueError(
            "A ranker's target must hold grades 0, 1, 2, … of relevance; "
            f"{target!r} holds {wrong:g}."
        )


@dataclass(frozen=True)
class ScoredQueries:
    """Scores of documents next to their grades.

    Attributes
    ----------
    source : where the rows come from: "out-of-bag", "held-out rows", or a file.
    rows : (n,) their numbers in the table, from 0.
    truth, predicted : (n,) grades and scores.
    qid : (n,) the query of each row.
    """

    source: str
    rows: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray
    qid: np.ndarray

    def __len__(self) -> int:
        return len(self.truth)

    def scores(self) -> dict[str, float]:
        """NDCG at 10 and 5, MAP and MRR; queries without a relevant document are skipped.

        NaN if none has one.
        """
        return {
            name: float(measure(self.predicted, self.truth, self.qid, name)) for name in METRICS
        }

    def headline(self) -> str:
        """NDCG@10 next to that of documents in random order, with its 95 % interval over queries.

        Examples
        --------
        >>> truth, qid = np.array([1, 0, 0, 1, 0, 0]), np.repeat([7, 8], 3)
        >>> ScoredQueries("out-of-bag", np.arange(6), truth, truth, qid).headline()
        'NDCG@10 1.0000 ± 0.0000 in 2 queries, in random order 0.7103'
        """
        queries = group_queries(self.qid, len(self))
        found = np.array([_ndcg(part) for part in self._by_query(queries)])
        found = found[~np.isnan(found[:, 0])]
        if not len(found):
            return "no query has a relevant document"
        mean, random = found.mean(0)
        gains = found[:, 0] - found[:, 1]
        margin, doubt = (
            _Z * float(one.std()) / np.sqrt(len(found)) for one in (found[:, 0], gains)
        )
        said = f"NDCG@{_K} {mean:.4f} ± {margin:.4f} in {len(found):,} queries, "
        said += f"in random order {random:.4f}"
        return said + ("" if gains.mean() > doubt else ": no better than random")

    def _by_query(self, queries: Queries) -> list[tuple[np.ndarray, np.ndarray]]:
        cuts = queries.starts[1:]
        scores = np.split(self.predicted[queries.order], cuts)
        return list(zip(scores, np.split(self.truth[queries.order], cuts), strict=True))


def _ndcg(query: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """NDCG of a query's scores, and what is expected of a random order; NaN without a gain."""
    scores, grades = query
    gains = np.exp2(np.asarray(grades, dtype=np.float64)) - 1
    weights = 1 / np.log2(np.arange(2, min(len(gains), _K) + 2))
    ideal = float(np.sort(gains)[::-1][: len(weights)] @ weights)
    if ideal == 0:
        return np.nan, np.nan
    # Documents of equal score share their gains.
    _, tied = np.unique(-scores, return_inverse=True)
    shared = (np.bincount(tied, gains) / np.bincount(tied))[np.sort(tied)]
    return float(shared[: len(weights)] @ weights) / ideal, gains.mean() * weights.sum() / ideal
