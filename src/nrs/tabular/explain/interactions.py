"""Which columns act together: read from the trees that read them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nrs.tabular.explain.inputs import Model
from nrs.tabular.explain.trees import Trees


@dataclass(frozen=True)
class Interaction:
    """Two columns that act together.

    Attributes
    ----------
    first, second : names of the columns, in the order of the table.
    strength : the pair's share of the strength of all pairs.
    """

    first: str
    second: str
    strength: float


def interactions(model: Model, X: Any, n: int | None = 10) -> list[Interaction]:
    """List the pairs of columns that important trees read together, the strongest first.

    A column's part in a tree is the standard deviation, over the rows of `X`, of what it adds to
    the tree's weighted sum, as a share of all columns of the tree. A pair counts in a tree by the
    product of its parts, since a tree that depends on one column alone joins it with no other.
    Trees are weighted by importance.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X : rows to measure on; a few hundred are enough.
    n : how many pairs; None for all.

    Notes
    -----
    A pair with a large strength shares trees. An interaction needs that, but it proves none: two
    columns with strong effects of their own also meet in many trees.

    Examples
    --------
    >>> from nrs import NRSClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, X[:, 0] * X[:, 2] > 0)
    >>> pair = interactions(model, X)[0]
    >>> pair.first, pair.second
    ('x0', 'x2')
    """
    strengths = interaction_matrix(model, X)
    names = model.encoder_.column_names
    rows, columns = np.triu_indices(len(names), 1)
    order = np.argsort(-strengths[rows, columns], kind="stable")[:n]
    return [
        Interaction(names[rows[i]], names[columns[i]], float(strengths[rows[i], columns[i]]))
        for i in order.tolist()
    ]


def interaction_matrix(model: Model, X: Any) -> np.ndarray:
    """All strengths: symmetric (n_columns, n_columns), zeros on the diagonal, 1 above it in total.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X : rows to measure on; a few hundred are enough.
    """
    trees: Trees = model.trees()
    values = trees.inputs.values(model, X)
    n_columns = len(trees.inputs.column_names)
    result = np.zeros((n_columns, n_columns))
    centred = values - values.mean(0)
    for place, importance in enumerate(trees.importance.tolist()):
        read, weights = trees.terms(place)
        groups, where = np.unique(trees.inputs.groups[read], return_inverse=True)
        spread = np.array([
            (centred[:, read[where == number]] @ weights[where == number]).std()
            for number in range(len(groups))
        ])  # fmt: skip
        if spread.sum() > 0:
            part = spread / spread.sum()
            result[np.ix_(groups, groups)] += importance * np.outer(part, part)
    np.fill_diagonal(result, 0)
    total = result.sum() / 2
    return result / total if total > 0 else result
