"""Predictions for the rows of a table file, written chunk by chunk with bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nrs.datasets.large_table import Table
from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import column_names, stream_table_file
from nrs.datasets.table_output import write_table_file
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.regressor import NRSRegressor

if TYPE_CHECKING:
    import pyarrow

TableModel = NRSClassifier | NRSRegressor
Path = str | os.PathLike[str]
Source = Path | Sequence[Path] | Table
Label = bool | int | str


@dataclass(frozen=True)
class TargetColumns:
    """The columns that a model of several targets predicts.

    Attributes
    ----------
    names : list of str
    labels : list of [label, label], or None
        The two values of each column, sorted; None for numbers.

    Examples
    --------
    >>> targets = TargetColumns(["ill", "old"], [["no", "yes"], [False, True]])
    >>> targets.predictions(np.array([[1, 0]]))
    {'prediction_ill': array(['yes'], dtype='<U3'), 'prediction_old': array([False])}
    """

    names: list[str]
    labels: list[list[Label]] | None = None

    @classmethod
    def of_model(cls, model: TableModel, names: Sequence[str] | None = None) -> Self | None:
        """Those of a fitted model; None if it has one target.

        Parameters
        ----------
        names : sequence of str, optional
            What the columns are called. None: as in the table file that the model was fitted to,
            else numbers from 0.

        Raises
        ------
        ValueError
            If there are more or fewer names than targets.
        """
        target = model.target_
        if not target.several:
            return None
        n = target.n_outputs
        about = model.about_ or {}
        if names is None:
            names = about.get("target") or [str(place) for place in range(n)]
        if len(names) != n:
            raise ValueError(
                f"The model predicts {n} targets; got {len(names)}: {', '.join(names)}. "
                "Name all of them, in the order of the fit."
            )
        if target.classes is None:
            return cls(list(names))
        return cls(list(names), about.get("labels") or [[0, 1] for _ in names])

    def decode(self, place: int, values: np.ndarray) -> np.ndarray:
        """Numbers, or 0 and 1, of one target as the values of its column; (n_rows,)."""
        if self.labels is None:
            return values
        return np.asarray(self.labels[place])[values.astype(np.int64)]

    def predictions(self, values: np.ndarray, prefix: str = "prediction") -> dict[str, np.ndarray]:
        """One output column per target; values are (n_rows, n_targets) numbers, or 0 and 1."""
        return {
            f"{prefix}_{name}": self.decode(place, values[:, place])
            for place, name in enumerate(self.names)
        }

    def probabilities(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """One output column per target; values are the chances of each second label."""
        found = {}
        for place, name in enumerate(self.names):
            label = self.labels[place][1] if self.labels else 1
            # The labels true and 1 add nothing to the target's name.
            suffix = "" if label == 1 else f"_{label}"
            found[f"probability_{name}{suffix}"] = values[:, place]
        return found


def predict_chunks(
    model: TableModel,
    source: Source,
    *,
    probabilities: bool = False,
    interval: float | None = None,
    keep: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Iterator[pyarrow.Table]:
    """Predict the rows of a table file chunk by chunk, with bounded memory.

    Columns that the model was not fitted to are ignored.

    Parameters
    ----------
    source : path, "-" for standard input, parts, or :class:`nrs.Table`
    probabilities, interval, keep : as in the method ``predict_file`` of a model.
    encoding : encoding of a text file.

    Yields
    ------
    pyarrow.Table
        The kept columns, then ``prediction``, then ``probability_<class>`` or ``low`` and
        ``high``. With several targets each name ends in the target's name, as in
        ``prediction_price`` and ``probability_ill_yes``, or in a number from 0 if the targets have
        no names.

    Raises
    ------
    nrs.datasets.table_file_errors.TableFileError
        If the table cannot be read, lacks a column, or a column holds another kind of value than
        in the fit.
    ValueError
        If the model has no probabilities or intervals, or a kept column has the name of a
        prediction column.
    """
    import pyarrow

    if probabilities and not isinstance(model, NRSClassifier):
        raise ValueError("probabilities needs a classifier; this model predicts numbers")
    if interval is not None and not isinstance(model, NRSRegressor):
        raise ValueError("interval needs a regressor; this model predicts classes")
    columns = input_columns(model, source, encoding)
    targets = TargetColumns.of_model(model)
    for chunk in stream_table_file(source, columns, also=keep, encoding=encoding):
        # By position: a kept column may be one that the model reads, too.
        X = model_rows(model, chunk.select(range(len(columns))))
        found = _predictions(model, targets, X, probabilities, interval)
        kept = dict(zip(keep, chunk.columns[len(columns) :], strict=True))
        both = kept.keys() & found.keys()
        if both:
            raise ValueError(
                f"keep must not name a prediction column; got {min(both)!r}. Rename that column "
                "in the file."
            )
        yield pyarrow.table(kept | found)


def write_predictions(
    model: TableModel,
    source: Source,
    output: Path,
    **options: Any,
) -> int:
    """Write what :func:`predict_chunks` yields to a file, whole or not at all; return the rows.

    Raises what :func:`predict_chunks` and :func:`nrs.datasets.table_output.write_table_file` do.
    """
    n_rows = 0
    with write_table_file(output) as writer:
        for chunk in predict_chunks(model, source, **options):
            writer.write(chunk)
            n_rows += chunk.num_rows
    return n_rows


def input_columns(
    model: TableModel,
    source: Source,
    encoding: str,
    targets: Sequence[str] = (),
) -> dict[str, str]:
    """The columns of a file that a model reads, with their kinds.

    A model fitted without column names reads all but `targets`, in their order.
    """
    kinds = model.encoder_.kinds_
    if hasattr(model, "feature_names_in_"):
        return dict(zip(model.feature_names_in_.tolist(), kinds, strict=True))
    if str(source) == "-":
        raise ValueError(
            "A model fitted without column names cannot read standard input; save the rows to a "
            "file first."
        )
    names = [name for name in column_names(source, encoding=encoding) if name not in targets]
    if len(names) != len(kinds):
        besides = " besides the target" if targets else ""
        raise TableFileError(
            f"{source} must have {len(kinds)} columns{besides}, as in the fit; it has "
            f"{len(names)}. Remove the others."
        )
    return dict(zip(names, kinds, strict=True))


def model_rows(model: TableModel, table: pyarrow.Table) -> pyarrow.Table | np.ndarray:
    """Rows of the input columns as the model takes them: an array if it was fitted to one."""
    if hasattr(model, "feature_names_in_"):
        return table
    return np.column_stack([column.to_pandas().to_numpy() for column in table.columns])


def _predictions(
    model: TableModel,
    targets: TargetColumns | None,
    X: pyarrow.Table | np.ndarray,
    probabilities: bool,
    interval: float | None,
) -> dict[str, np.ndarray]:
    """The output columns, by name."""
    if probabilities and isinstance(model, NRSClassifier):
        chances = model.predict_proba(X)
        if targets is not None:
            return targets.predictions(chances > 0.5) | targets.probabilities(chances)
        columns = zip(model.classes_.tolist(), chances.T, strict=True)
        found = {f"probability_{label}": column for label, column in columns}
        return {"prediction": model.classes_[chances.argmax(1)]} | found
    values = model.predict(X)
    found = {"prediction": values} if targets is None else targets.predictions(values)
    if interval is not None and isinstance(model, NRSRegressor):
        for name, limit in zip(("low", "high"), model.predict_interval(X, interval), strict=True):
            found |= {name: limit} if targets is None else targets.predictions(limit, name)
    return found
