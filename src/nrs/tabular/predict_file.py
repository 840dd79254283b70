"""Predictions for the rows of a table file, written chunk by chunk with bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nrs._util.inputs import reading
from nrs.datasets.large_table import Table
from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import column_names, stream_table_file
from nrs.datasets.table_output import write_table_file
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.targets import check_offset
from nrs.tabular.targets.columns import ColumnsTarget

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from nrs.tabular.types import ArrayLike, TableLike, TableModel
Path = str | os.PathLike[str]
Source = Path | Sequence[Path] | Table
Label = bool | int | str


@dataclass(frozen=True)
class TargetColumns:
    """The names of several targets, and the two labels of each, sorted (None for numbers).

    >>> targets = TargetColumns(["ill", "old"], [["no", "yes"], [False, True]])
    >>> targets.columns({"prediction": np.array([[1, 0]])})
    {'prediction_ill': array(['yes'], dtype='<U3'), 'prediction_old': array([False])}
    """

    names: list[str]
    labels: list[list[Label]] | None = None

    @classmethod
    def of_model(cls, model: TableModel, names: Sequence[str] | None = None) -> Self | None:
        """Those of a fitted model, called as in its fit or by numbers; None if it has one target.

        Raises ValueError if there are more or fewer `names` than targets.
        """
        target, about, n = model.target_, model.about_ or {}, model.target_.n_targets
        if not target.several:
            return None
        names = list(names or about.get("target") or map(str, range(n)))
        if len(names) != n:
            raise ValueError(
                f"The model predicts {n} targets; got {len(names)}: {', '.join(names)}. "
                "Name all of them, in the order of the fit."
            )
        # Columns of classes answer with their own labels.
        own = target.classes is None or isinstance(target, ColumnsTarget)
        return cls(names, None if own else about.get("labels") or [[0, 1]] * n)

    def decode(self, place: int, values: np.ndarray) -> np.ndarray:
        """Numbers, or 0 and 1, of one target as the values of its column; (n_rows,)."""
        if self.labels is None:
            return values
        return np.asarray(self.labels[place])[values.astype(np.int64)]

    def columns(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """One output column per target of numbers, or 0 and 1, (n_rows, n_targets) by prefix."""
        return {
            f"{prefix}_{name}": self.decode(place, numbers[:, place])
            for prefix, numbers in values.items()
            for place, name in enumerate(self.names)
        }

    def probabilities(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """One output column per target, of the chances (n_rows, n_targets) of its second label."""
        labels = [self.decode(place, np.ones(1)).item() for place in range(len(self.names))]
        # The labels true and 1 add nothing to the target's name.
        ends = ["" if label == 1 else f"_{label}" for label in labels]
        names = [f"probability_{name}{end}" for name, end in zip(self.names, ends, strict=True)]
        return dict(zip(names, values.T, strict=True))

    def of_classes(
        self, classes: Sequence[np.ndarray], values: Sequence[np.ndarray]
    ) -> dict[str, np.ndarray]:
        """One output column per target and class, of its chances (n_rows, n_classes) by target."""
        return {
            f"probability_{name}_{label}": chances
            for name, known, each in zip(self.names, classes, values, strict=True)
            for label, chances in zip(known.tolist(), each.T, strict=True)
        }


def predict_chunks(
    model: TableModel,
    source: Source,
    *,
    probabilities: bool = False,
    interval: float | None = None,
    sets: float | None = None,
    keep: Sequence[str] = (),
    offset: str | None = None,
    **reading: Any,
) -> Iterator[pyarrow.Table]:
    """Predict the rows of a table file chunk by chunk, as the method ``predict_file`` of a model.

    The source is a path, "-" for standard input, parts, or :class:`nrs.Table`; columns unknown to
    the model are ignored. A chunk has the kept columns, then ``prediction``, then
    ``probability_<class>``, ``in_set_<class>``, ``quantile_<level>``, or ``low`` and ``high``; of
    several targets each name ends in the target's, as in ``prediction_price``.

    Of a model with an offset, `offset` names the column that holds it; by default the column of the
    fit, if the model knows its name. `reading` is how text files and workbooks are read:
    `encoding`, `sheet` and `overrides` of :func:`nrs.datasets.table_files.stream_table_file`.

    A ranker that scales features within queries needs all rows of a query: it is one chunk.

    Raises ValueError if the table cannot be read or its columns are not those of the fit, the
    model has no probabilities or intervals, or a kept column has the name of a prediction column.
    """
    import pyarrow

    if probabilities and not hasattr(model, "predict_proba"):
        raise ValueError("probabilities needs a classifier; this model predicts numbers")
    check_levels(model, interval, sets)
    columns, joined = input_columns(model, source, **reading), model.joined_by()
    watch = Watch(drift=True)
    columns |= joined
    read = columns | offset_column(model, offset)
    chunks = stream_table_file(source, read, also=keep, **reading)
    if joined:
        chunks = iter([pyarrow.concat_tables(chunks)])
    for chunk in chunks:
        # By position: a kept column may be one that the model reads, too.
        X = model_rows(model, chunk.select(range(len(columns))))
        added = chunk.columns[len(columns) : len(read)]
        outputs = with_offset(model, model.outputs(X, watch=watch), added)
        found = answer_columns(
            model, outputs, X, probabilities=probabilities, interval=interval, sets=sets
        )
        kept = dict(zip(keep, chunk.columns[len(read) :], strict=True))
        if both := kept.keys() & found.keys():
            raise ValueError(
                f"keep must not name a prediction column; got {min(both)!r}. Rename it in the file."
            )
        yield pyarrow.table(kept | found)
    model.encoder_.warn(watch)


def check_levels(model: TableModel, interval: float | None, sets: float | None) -> None:
    """Refuse intervals or sets of a model that has none, with a ValueError."""
    if interval is not None and not hasattr(model, "predict_interval"):
        raise ValueError("interval needs a regressor; this model predicts classes")
    if sets is not None and not hasattr(model, "sets_around"):
        raise ValueError("sets needs a classifier; this model predicts numbers")


def offset_column(model: TableModel, name: str | None = None) -> dict[str, str]:
    """The column of offsets that a model needs, with its kind; none of most models.

    Raises ValueError if the model has no offset, or it is a column of the fit.
    """
    if name is None:
        name = (model.about_ or {}).get("offset")
    elif not model.target_.has_offset:
        raise ValueError("offset is for a model that was fitted with one; leave it out")
    return {} if name is None else {name: "number"}


def with_offset(model: TableModel, outputs: np.ndarray, added: Sequence[ArrayLike]) -> np.ndarray:
    """Outputs with the column of offsets, if there is one."""
    for column in added:
        offset = check_offset(np.array(column, dtype=np.float64))
        placed = np.asarray(outputs, dtype=np.float64) + offset[:, None]
        outputs = model.target_.taken(placed)
    return outputs


def write_predictions(model: TableModel, source: Source, output: Path, **options: Any) -> int:
    """Write what :func:`predict_chunks` yields to a file, whole or not at all; return the rows."""
    n_rows = 0
    with reading(*_paths(source)), write_table_file(output) as writer:
        for chunk in predict_chunks(model, source, **options):
            writer.write(chunk)
            n_rows += chunk.num_rows
    return n_rows


def _paths(source: Source) -> Sequence[Path]:
    """The paths that a source names."""
    if isinstance(source, Table):
        return [part.path for part in source.parts]
    return [source] if isinstance(source, (str, os.PathLike)) else source


def input_columns(
    model: TableModel, source: Source, others: Sequence[str] = (), **reading: Any
) -> dict[str, str]:
    """Columns that a model reads, with their kinds; all but `others` if it knows no names."""
    # A file's reader knows texts as categories.
    kinds = ["category" if kind == "text" else kind for kind in model.encoder_.kinds_]
    for index, plan in model.encoder_.plans.items():
        if plan.reads_text:
            kinds[index] = "text"
    if hasattr(model, "feature_names_in_"):
        return dict(zip(model.feature_names_in_.tolist(), kinds, strict=True))
    if str(source) == "-":
        raise ValueError(
            "A model fitted without column names cannot read standard input; give it a file."
        )
    reading.pop("overrides", None)
    names = [name for name in column_names(source, **reading) if name not in others]
    if len(names) != len(kinds):
        besides = f" besides {', '.join(others)}" if others else ""
        raise TableFileError(
            f"{source} must have {len(kinds)} columns{besides}, as in the fit; it has "
            f"{len(names)}. Remove the others."
        )
    return dict(zip(names, kinds, strict=True))


def row_columns(model: TableModel) -> dict[str, str]:
    """Columns that a model reads of rows in memory, with their kinds: its features come first.

    After them a ranker's column of queries and a column of offsets; ``x0``, ``x1``, … stand for
    features without names.
    """
    encoder = model.encoder_
    kinds: dict[str, str] = dict(zip(encoder.column_names, encoder.kinds_, strict=True))
    return kinds | model.joined_by() | offset_column(model)


def predict_frame(
    model: TableModel,
    frame: pandas.DataFrame,
    *,
    probabilities: bool = False,
    interval: float | None = None,
    sets: float | None = None,
) -> pandas.DataFrame:
    """Predict rows in a pandas frame with the columns of :func:`row_columns`.

    The frame that comes back has the index of the rows and the columns of :func:`predict_chunks`.

    Raises ValueError if the rows cannot be read, or the model has no intervals or sets.
    """
    import pandas

    check_levels(model, interval, sets)
    X: TableLike = frame[[*model.encoder_.column_names, *model.joined_by()]]
    if not hasattr(model, "feature_names_in_"):
        X = frame[model.encoder_.column_names].to_numpy()
    added = [frame[name] for name in offset_column(model)]
    outputs = with_offset(model, model.outputs(X), added)
    found = answer_columns(
        model, outputs, X, probabilities=probabilities, interval=interval, sets=sets
    )
    return pandas.DataFrame(found, index=frame.index)


def model_rows(model: TableModel, table: pyarrow.Table) -> pyarrow.Table | np.ndarray:
    """Rows of the input columns as the model takes them: an array if it was fitted to one."""
    if hasattr(model, "feature_names_in_"):
        return table
    return np.column_stack([column.to_pandas().to_numpy() for column in table.columns])


def answer_columns(
    model: TableModel,
    outputs: np.ndarray,
    X: TableLike,
    *,
    probabilities: bool,
    interval: float | None,
    sets: float | None,
) -> dict[str, np.ndarray]:
    """The output columns by name, of rows `X` whose outputs these are."""
    targets = TargetColumns.of_model(model)
    members: dict[str, np.ndarray] = {}
    if sets is not None:
        belongs = model.sets_around(model.target_.answer(outputs), sets)
        names = [f"in_set_{label}" for label in model.target_.classes.tolist()]
        members = dict(zip(names, belongs.T, strict=True))
    if probabilities and hasattr(model, "predict_proba"):
        chances = model.target_.answer(outputs)
        if targets is not None and isinstance(model.target_, ColumnsTarget):
            labels = targets.columns({"prediction": model.target_.choose(chances)})
            by_column = model.target_.by_column(chances)
            return labels | targets.of_classes(list(model.classes_), by_column)
        if targets is not None:
            return targets.columns({"prediction": chances > 0.5}) | targets.probabilities(chances)
        names = [f"probability_{label}" for label in model.target_.classes.tolist()]
        best = model.target_.classes[chances.argmax(1)]
        return {"prediction": best} | dict(zip(names, chances.T, strict=True)) | members
    if hasattr(model, "predict_proba"):
        found = {"prediction": model.target_.labels(outputs)} | members
    else:
        found = {"prediction": model.target_.answer(outputs), **model.target_.more(outputs)}
    if interval is not None and hasattr(model, "interval_around"):
        found["low"], found["high"] = model.interval_around(outputs, X, interval)
    return found if targets is None else targets.columns(found)
