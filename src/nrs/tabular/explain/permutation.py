"""Permutation importance: how much worse the answers are when a column is shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.explain.rows import MAX_CELLS, Rows, places_of

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.types import ArrayLike, TableLike


@dataclass(frozen=True)
class Permutation:
    """How much worse a model answers when the cells of a column are shuffled among the rows.

    Attributes
    ----------
    columns : names of the columns of the fit, in their order.
    increase : (n_columns,) by how much the mean loss rises; NaN of columns that were not shuffled.
    error : (n_columns,) its standard error, over the rows.
    drop : (n_columns,) by how much the score falls that ``oob_score_`` is: accuracy, or R².
    loss, score : of the rows as they are.
    n_rows, n_repeats : rows that were scored, and how often each column was shuffled.
    """

    columns: list[str]
    increase: np.ndarray
    error: np.ndarray
    drop: np.ndarray
    loss: float
    score: float
    n_rows: int
    n_repeats: int

    def order(self) -> np.ndarray:
        """Numbers of the columns that were shuffled, the most important first."""
        found = np.argsort(-self.increase, kind="stable")
        return found[~np.isnan(self.increase[found])]


def permutation(
    model: TableEstimator,
    X: TableLike,
    y: ArrayLike,
    *,
    training_rows: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    columns: Sequence[str | int] | None = None,
    n_repeats: int = 5,
    max_rows: int | None = 5_000,
    seed: int = 0,
) -> Permutation:
    """Measure how much each column matters for the loss, by shuffling it.

    On rows that the model has not seen, or on those of the fit, each scored only by the members
    that were not trained on it. A column that the model has learned by heart, such as an ID, helps
    with neither. Of two columns that say the same, each covers for the other.

    Parameters
    ----------
    model : fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`
    X, y : (n_rows, n_columns) and (n_rows,) or (n_rows, n_outputs), as ``fit`` takes them.
    training_rows : (n_rows,) for each row of X its number in the table of the fit, from 0:
        ``np.arange(len(X))`` if X is that table. Rows are then scored out of bag.
    sample_weight : (n_rows,) how much each row counts; equally by default.
    offset : (n_rows,) of a model that was fitted with one.
    columns : names or numbers of the columns to shuffle; all by default.
    n_repeats : how often each is shuffled.
    max_rows : rows that are scored, spread evenly over the table; None for all.
    seed : the same seed shuffles the same way.

    Raises
    ------
    ValueError
        Labels that the model does not know, columns that it does not have, a ranker, or
        `training_rows` of a model that does not know who has seen which row.

    Examples
    --------
    >>> from nrs import NRSClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = X[:, 1] > 0
    >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, y)
    >>> found = permutation(model, X, y, training_rows=np.arange(300))
    >>> found.columns[found.order()[0]]
    'x1'
    """
    if n_repeats < 1:
        raise ValueError(f"n_repeats must be at least 1; got {n_repeats!r}")
    chosen = places_of(model, columns)
    if model.target_.task == "ranking":
        raise ValueError(
            f"permutation scores rows one by one, and {type(model).__name__} is scored by query. "
            "Use feature_importances_."
        )
    rows = Rows.of(model, X, training_rows, max_rows)
    truth = _truth(model, X, y, offset)[rows.places]
    weight = torch.ones(len(rows), dtype=torch.float64)
    if sample_weight is not None:
        weight = torch.from_numpy(np.asarray(sample_weight, dtype=np.float64)[rows.places])
    if not weight.sum() > 0:
        raise ValueError("sample_weight must be above 0 for some of the rows that are scored")
    shares = weight / weight.sum()
    generator = np.random.default_rng(seed)
    orders = np.stack([generator.permutation(len(rows)) for _ in range(n_repeats)])
    target = model.target_

    def measure(outputs: Tensor) -> tuple[Tensor, float]:
        """The mean loss of each row over the repeats, and the score of all."""
        n_times = len(outputs) // len(rows)
        y, of_rows = truth.repeat(n_times, *(1,) * (truth.ndim - 1)), weight.repeat(n_times)
        each = target.losses(outputs.t()[None], y)[0].double()
        counted = None if sample_weight is None else of_rows
        return each.view(n_times, -1).mean(0), target.score(outputs, y, counted)

    before, score = measure(rows.outputs(rows.x))
    # As many repeats at once as fit.
    at_once = max(1, min(n_repeats, MAX_CELLS // 4 // rows.x.size))
    shuffled, n = np.repeat(rows.x[None], at_once, axis=0), model.encoder_.n_features_in_
    increase, error, drop = np.full((3, n), np.nan)
    for column in chosen:
        own = rows.own(column)
        rise, reached = torch.zeros_like(before), score if not len(own) else 0.0
        for start in range(0, n_repeats if len(own) else 0, at_once):
            some = orders[start : start + at_once]
            shuffled[: len(some), :, own] = rows.x[:, own][some]
            after, scored = measure(rows.outputs(shuffled[: len(some)]))
            rise += (after - before) * (len(some) / n_repeats)
            reached += scored * (len(some) / n_repeats)
        shuffled[:, :, own] = rows.x[:, own]
        mean = float((shares * rise).sum())
        increase[column] = mean
        error[column] = float((shares * (rise - mean)).square().sum().sqrt())
        drop[column] = score - reached
    return Permutation(
        columns=model.encoder_.column_names,
        increase=increase,
        error=error,
        drop=drop,
        loss=float((shares * before).sum()),
        score=score,
        n_rows=len(rows),
        n_repeats=n_repeats,
    )


def _truth(model: TableEstimator, X: TableLike, y: ArrayLike, offset: ArrayLike | None) -> Tensor:
    """Labels of all rows as the loss reads them."""
    given = (X, y) if offset is None else (X, y, offset)
    device = torch.device("cpu")
    held_out = model.read_held_out(given, model.encoder_, model.target_, device)
    return held_out.truth()[0]
