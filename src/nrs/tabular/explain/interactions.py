"""Which columns act together: read from the trees that read them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nrs.tabular.explain.inputs import Inputs
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


def interactions(model: Any, X: Any, n: int | None = 10) -> list[Interaction]:
    """List the pairs of columns that the important trees weigh together, the strongest first.

    A column's part in a tree is the standard deviation, over the rows of `X`, of what it adds to
    the tree's weighted sum, as a share of all columns of the tree. A pair counts in a tree by the
    product of its parts, since a tree that lives on one column cannot join it with another, and
    over the trees by their importance.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X : rows to measure on; some hundred are enough.
    n : how many pairs; None for all.

    Notes
    -----
    A pair with a large strength shares questions. That is needed for an interaction, but does not
    prove one: two columns with strong effects of their own meet in many trees as well.

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


def interaction_matrix(model: Any, X: Any) -> np.ndarray:
    """Give all strengths, symmetric (n_columns, n_columns); the pairs above the diagonal sum to 1.

    The diagonal is 0.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X : rows to measure on; some hundred are enough.
    """
    trees: Trees = model.trees()
    inputs: Inputs = trees._inputs
    values = inputs.values(model, X)
    n_columns = len(inputs.column_names)
    result = np.zeros((n_columns, n_columns))
    # The spread of a weighted sum of a column's inputs needs only their covariance.
    centred = values - values.mean(0)
    for place in trees._order.tolist():
        read, weights = trees._terms(place)
        groups, where = np.unique(inputs.groups[read], return_inverse=True)
        spread = np.empty(len(groups))
        for number in range(len(groups)):
            own = where == number
            spread[number] = (centred[:, read[own]] @ weights[own]).std()
        total = spread.sum()
        if total > 0:
            part = spread / total
            result[np.ix_(groups, groups)] += trees._importance[place] * np.outer(part, part)
    np.fill_diagonal(result, 0)
    total = result.sum() / 2
    return result / total if total > 0 else result
