"""Rows to explain a model by, and who answers for each: all members, or those that never saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nrs.tabular.encode.columns import Column
from nrs.tabular.encode.table import Table, place_of

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.forest.folded import Folded
    from nrs.tabular.forest.unseen import Unseen
    from nrs.tabular.types import ArrayLike, Features, TableLike

# Numbers of rows, and what answers for them; None is the model itself.
Answering: TypeAlias = "tuple[np.ndarray, nn.Module | Folded | None]"
# Features of all rows that are held at once.
MAX_CELLS = 1 << 26


@dataclass(frozen=True)
class Rows:
    """Encoded rows of a table and who answers for them.

    Attributes
    ----------
    source : position in the table of each column of the fit.
    places : (n,) int64, numbers of the rows in the table, ascending.
    features : encoded features of all rows of the table, which may be sparse.
    x : (n, n_features_out) float32, those of these rows.
    answering : pairs of numbers among these rows and the network that answers for them; None is
        the model itself.
    """

    model: TableEstimator
    table: Table
    source: np.ndarray
    places: np.ndarray
    features: Features
    x: np.ndarray
    answering: list[Answering]

    @classmethod
    def of(
        cls,
        model: TableEstimator,
        X: TableLike,
        training_rows: ArrayLike | None = None,
        max_rows: int | None = None,
    ) -> Rows:
        """Encode rows that a model can answer for, at most so many of them, spread evenly.

        Raises
        ------
        ValueError
            If `training_rows` are not numbers of the rows of the fit, or the model does not know
            who has seen which.
        """
        check_is_fitted(model)
        if model.joined_by():
            raise ValueError(
                f"{type(model).__name__} scales features within queries; this looks at rows one by "
                "one. Use feature_importances_."
            )
        table = model.read_table(X)
        source = model.encoder_.find_columns(table)
        given, known = None, np.arange(table.n_rows)
        if training_rows is not None:
            given, unseen = _training_rows(model, training_rows, table.n_rows)
            known = known[unseen.scored(given)]
            if not len(known):
                raise ValueError("training_rows are all among the earliest, which no member scores")
        most = MAX_CELLS // model.encoder_.n_features_out_
        most = max(2, most if max_rows is None else min(max_rows, most))
        if len(known) > most:
            known = known[np.linspace(0, len(known) - 1, most).astype(int)]
        features = model.encoder_.transform(table)
        answering: list[Answering] = [(np.arange(len(known)), None)]
        if given is not None:
            answering = list(unseen.networks(given[known]))
        return cls(model, table, source, known, features, dense(features[known]), answering)

    def __len__(self) -> int:
        return len(self.places)

    def outputs(self, x: np.ndarray) -> Tensor:
        """What answers for each of these rows says, were these its features.

        **Shape** x ``(n, n_features_out)`` or several such ``(k, n, n_features_out)``, result
        ``(n, n_outputs)`` or ``(k * n, n_outputs)``.
        """
        several = x.reshape(-1, len(self), x.shape[-1])
        found = torch.empty(len(several), len(self), self.model.target_.n_outputs)
        for rows, network in self.answering:
            part = several[:, rows]
            answers = self.model.forward(part.reshape(-1, x.shape[-1]), network=network)
            found[:, torch.from_numpy(rows)] = torch.as_tensor(answers).unflatten(0, part.shape[:2])
        return found.flatten(0, 1)

    def raw(self, x: np.ndarray, row: int) -> Tensor:
        """What answers for one of these rows says to any features: (len(x), n_outputs)."""
        asked = next(network for rows, network in self.answering if row in rows)
        return torch.as_tensor(self.model.forward(x, network=asked))

    def cells_of(self, rows: np.ndarray) -> np.ndarray:
        """Features of any rows of the table."""
        return dense(self.features[rows])

    def own(self, column: int) -> np.ndarray:
        """Numbers of the features of a column."""
        return np.flatnonzero(self.model.encoder_.groups_ == column)

    def column(self, column: int) -> Column:
        """The cells of a column of the fit, in all rows of the table."""
        return self.table.column(int(self.source[column]), self.model.encoder_.kinds_[column])


def dense(features: Features) -> np.ndarray:
    """Encoded features as an array."""
    return features if isinstance(features, np.ndarray) else features.toarray()


def _training_rows(
    model: TableEstimator, rows: ArrayLike, n_rows: int
) -> tuple[np.ndarray, Unseen]:
    unseen = model.model_.unseen
    if unseen is None:
        raise ValueError(
            "training_rows need the forest of a fit in memory, which knows its rows; a single "
            "network, a loaded model and a streamed or partial fit do not. Leave training_rows out."
        )
    places = np.asarray(rows)
    if places.shape != (n_rows,) or places.dtype.kind not in "iu":
        raise ValueError(
            f"training_rows must hold one row number for each of the {n_rows} rows of X; got "
            f"{places.dtype} of shape {places.shape}"
        )
    if places.min() < 0 or places.max() >= unseen.n_rows:
        raise ValueError(
            f"training_rows must be from 0 to {unseen.n_rows - 1}, the rows of the fit; got "
            f"{places.min()} to {places.max()}"
        )
    return places, unseen


def answers_of(model: TableEstimator, outputs: np.ndarray | Tensor) -> np.ndarray:
    """Probabilities or numbers for network outputs, (n, n_answers)."""
    return model.target_.answer(outputs).reshape(len(outputs), -1)


def places_of(model: TableEstimator, columns: Sequence[str | int] | None) -> list[int]:
    """Numbers of the columns of these names or numbers; of all if None.

    Raises ValueError if there is no such column.
    """
    encoder = model.encoder_
    shape = (1, encoder.n_features_in_)
    table = Table(shape, lambda index: None, names=encoder.names)
    if columns is None:
        return list(range(encoder.n_features_in_))
    return [place_of(one, table, "columns") for one in columns]
