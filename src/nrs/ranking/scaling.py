"""Scaling within queries: what a document is beside its rivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nrs.ranking.queries import Queries

# Documents of a query that hardly differ in a feature are not blown up to differ by 1: to their
# spread this part of the usual one is added.
LEAST_SPREAD = 0.1


@dataclass(frozen=True, eq=False)
class QueryScaler:
    """Centre and scale features within each query.

    A feature x becomes (x − m) / √(s² + (0.1 t)²) with the mean m and deviation s of its query and
    the usual deviation t within a query. Which features vary within queries at all, and t, are
    learned from training queries; a feature that does not (it describes the query) is left as it
    is. Nothing of a label is read, so the queries to be ranked are scaled by their own documents.

    Attributes
    ----------
    spread : (n_features,) the usual deviation within a query; 0 where a feature never varies.

    Examples
    --------
    >>> from nrs.ranking.queries import group_queries
    >>> queries = group_queries([1, 1, 2, 2])
    >>> x = np.array([[0, 5], [2, 5], [0, 6], [4, 6]], np.float32)
    >>> QueryScaler.fit(x, queries).transform(x, queries).round(2)
    array([[-0.99,  5.  ],
           [ 0.99,  5.  ],
           [-1.  ,  6.  ],
           [ 1.  ,  6.  ]], dtype=float32)
    """

    spread: np.ndarray

    @classmethod
    def fit(cls, features: Any, queries: Queries) -> QueryScaler:
        """Learn the usual deviations from training queries.

        Raises
        ------
        ValueError
            If the features are a sparse matrix, which centring would fill.
        """
        if not isinstance(features, np.ndarray):
            raise ValueError(
                "query_scale='standard' needs a dense table; X is a sparse matrix. Pass "
                "X.toarray() or query_scale='none'."
            )
        x = features[queries.order].astype(np.float64)
        centred = x - np.repeat(_means(x, queries), queries.lengths, axis=0)
        spread = np.sqrt(np.square(centred).mean(0))
        # Rounding alone makes constants differ a little from their mean.
        size = np.abs(x).max(0, initial=0.0)
        return cls(np.where(spread > 1e-6 * size, spread, 0.0))

    def transform(self, features: np.ndarray, queries: Queries) -> np.ndarray:
        """Scale the rows of these queries; other rows stay 0."""
        out = np.zeros_like(features)
        varies = self.spread > 0
        out[queries.order] = features[queries.order]
        x = features[queries.order][:, varies].astype(np.float64)
        centred = x - np.repeat(_means(x, queries), queries.lengths, axis=0)
        variance = _means(np.square(centred), queries)
        scale = np.sqrt(variance + np.square(LEAST_SPREAD * self.spread[varies]))
        centred /= np.repeat(scale, queries.lengths, axis=0)
        out[np.ix_(queries.order, np.flatnonzero(varies))] = centred
        return out

    def state(self) -> list[str]:
        """What was learned, as JSON values."""
        return [value.hex() for value in self.spread.tolist()]

    @classmethod
    def from_state(cls, state: list[str]) -> QueryScaler:
        """Read what :meth:`state` wrote."""
        return cls(np.array([float.fromhex(value) for value in state]))


def _means(x: np.ndarray, queries: Queries) -> np.ndarray:
    """Mean over each query of rows in the order of the queries: (n_queries, n_features)."""
    return np.add.reduceat(x, queries.starts, axis=0) / queries.lengths[:, None]
