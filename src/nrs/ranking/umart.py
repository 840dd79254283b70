"""uMart: the loss of uRank as the objective of boosted trees (Zhu & Klabjan, WSDM 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrs.ranking.recipe import MAX_GRADE, not_grades

# Scores this far below the best of their query have no weight left, and their squares no digits.
_FARTHEST = 300.0


def urank_gradients(scores: Any, labels: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and diagonal of the Hessian of uRank's loss, summed over queries.

    With G the gains and p_ik = e^{s_k} / (e^{s_i} + Σ_{y_j < y_i} e^{s_j}) for k = i and for
    y_k < y_i, the gradient is −G_k + Σ_i G_i p_ik and the Hessian Σ_i G_i p_ik (1 − p_ik). Sums
    over grades make both linear in the documents.

    Parameters
    ----------
    scores, labels : (n_rows,)
        Rows of a query together.
    lengths : (n_queries,)
        Documents of each query.

    Returns
    -------
    (gradient, hessian) : (n_rows,) float64 each

    Raises
    ------
    ValueError
        If labels are no grades from 0 to 100, or the lengths do not sum to the rows.

    Examples
    --------
    >>> gradient, hessian = urank_gradients([0.0, 0.0], [1, 0], [2])
    >>> gradient.tolist(), hessian.tolist()
    ([-0.5, 0.5], [0.25, 0.25])
    """
    s = np.asarray(scores, dtype=np.float64).reshape(-1)
    y = np.asarray(labels, dtype=np.float64).reshape(-1)
    sizes = np.asarray(lengths, dtype=np.int64).reshape(-1)
    if not len(s) == len(y) == sizes.sum() or (sizes < 1).any():
        raise ValueError(
            f"lengths must be positive and sum to the number of rows; got {len(s)} scores, "
            f"{len(y)} labels, and lengths that sum to {sizes.sum()}"
        )
    wrong = not_grades(y)
    if wrong.any():
        raise ValueError(f"labels must be grades 0, 1, 2, … up to {MAX_GRADE}; got {y[wrong][0]:g}")
    grades, place = np.unique(y, return_inverse=True)
    query = np.repeat(np.arange(len(sizes)), sizes)
    cell = query * len(grades) + place.reshape(-1)
    shape = (len(sizes), len(grades))

    def total(values: np.ndarray) -> np.ndarray:
        """Sums over each query's grades."""
        return np.bincount(cell, values, minlength=shape[0] * shape[1]).reshape(shape)

    best = np.maximum.reduceat(s, np.cumsum(sizes) - sizes)
    mass = np.exp(np.maximum(s - best[query], -_FARTHEST))
    by_grade = total(mass)
    below = _before(by_grade)
    whole = mass + below.reshape(-1)[cell]
    gains = np.exp2(y) - 1
    own = mass / whole

    def from_above(values: np.ndarray) -> np.ndarray:
        """Sums over the documents of the same query that are more relevant."""
        above = _before(total(values)[:, ::-1])[:, ::-1]
        return above.reshape(-1)[cell]

    share = mass * from_above(gains / whole)
    square = np.square(mass) * from_above(gains / np.square(whole))
    gradient = share - gains * (1 - own)
    hessian = gains * own * (1 - own) + np.maximum(share - square, 0.0)
    return gradient, hessian


def _before(values: np.ndarray) -> np.ndarray:
    """Sums over the columns before each; never by taking one away again, which loses digits."""
    return np.concatenate([np.zeros_like(values[:, :1]), np.cumsum(values, axis=1)[:, :-1]], axis=1)
