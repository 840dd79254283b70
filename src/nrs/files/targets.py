"""The target columns of a table: their task, and their values as a model takes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from nrs.tabular.encode.columns import PLURAL, Column
from nrs.tabular.encode.table import read_table
from nrs.tabular.predict_file import Label, TargetColumns

if TYPE_CHECKING:
    import pyarrow

    from nrs.tabular.rows.table import TableSource

Task = Literal["classification", "regression", "ranking"]
# Integers of at most so many distinct values are taken as classes.
MAX_CLASSES = 20
MAX_CLASSES_SHOWN = 6


@dataclass(frozen=True)
class TargetSummary:
    """What is known of the values of one target column.

    Labels are its distinct values, sorted, and counts the rows of each; None if there are too many.
    """

    name: str
    kind: str
    labels: np.ndarray | None
    counts: np.ndarray | None
    limits: tuple[float, float]

    @classmethod
    def of(cls, table: pyarrow.Table, name: str) -> TargetSummary:
        """Read the values of a column that are not missing; dates raise ValueError."""
        read = read_table(table.select([name]).drop_null()).column(0)
        if read.kind in ("date", "duration"):
            raise ValueError(
                f"The target must hold numbers or classes; {name!r} holds {PLURAL[read.kind]}. "
                "Convert it to a number, such as days."
            )
        values, counts = np.unique(read.values, return_counts=True)
        limits = float(values[0]), float(values[-1])
        return cls(name, read.kind, _as_labels(read, values), counts, limits)

    @classmethod
    def of_stream(cls, surveyed: TableSource, place: int = 0) -> TargetSummary:
        """What a pass over files found of one of their targets, in all rows."""
        name, labels = surveyed.targets[place], surveyed.labels[place]
        moments = labels.numbers.moments
        numeric = labels.kind not in ("boolean", "category")
        limits = (float(moments.low[0]), float(moments.high[0])) if numeric else (0.0, 1.0)
        if labels.counts is None:
            return cls(name, labels.kind, None, None, limits)
        found = sorted(labels.counts)
        counts = np.array([labels.counts[label] for label in found])
        return cls(name, labels.kind, np.array(found), counts, limits)

    def choose_task(self, task: str) -> tuple[Task, str]:
        """The task, and where it comes from; text, booleans and few distinct integers are classes.

        Raises ValueError for an unknown task, or if all values are the same.
        """
        check_task(task, self)
        if task != "auto":
            return cast(Task, task), "as requested"
        if self.kind != "number":
            kind = "boolean" if self.kind == "boolean" else "categorical"
            return "classification", f"inferred: {kind} values"
        if self.labels is None:
            return "regression", "inferred: very many distinct numbers"
        n = len(self.labels)
        if n <= MAX_CLASSES and not _fractions(self.labels).any():
            return "classification", f"inferred: {n} distinct integer values"
        return "regression", f"inferred: {n:,} distinct numbers"

    def describe(self, task: Task) -> str:
        """Its values in a few words."""
        if task == "regression" or self.labels is None or self.counts is None:
            return f"from {self.limits[0]:g} to {self.limits[1]:g}"
        pairs = list(zip(self.labels.tolist(), self.counts.tolist(), strict=True))
        shown = ", ".join(f"{label} ({count:,})" for label, count in pairs[:MAX_CLASSES_SHOWN])
        nouns = "grades" if task == "ranking" else "classes"
        return f"{len(pairs)} {nouns}: {shown}{', …' if len(pairs) > MAX_CLASSES_SHOWN else ''}"


def check_task(task: str, *found: TargetSummary) -> None:
    """Raise ValueError for an unknown task, or a target that is the same in all rows."""
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task must be auto, classification or regression; got {task!r}")
    for one in found:
        if one.labels is not None and len(one.labels) < 2:
            raise ValueError(
                f"Target {one.name!r} needs at least two distinct values; all rows have "
                f"{one.labels.tolist()[0]!r}. Choose another target."
            )


def join_targets(found: Sequence[TargetSummary], task: str) -> tuple[TargetColumns, Task, str]:
    """As :meth:`TargetSummary.choose_task` for several columns, and how one model predicts them.

    Columns of two values each are classes; otherwise they must hold numbers. Raises ValueError
    there, and if one model cannot predict them all.
    """
    check_task(task, *found)
    why = "inferred: {}" if task == "auto" else "as requested"
    names = [one.name for one in found]
    text = next((one.name for one in found if one.kind == "category"), None)
    labels = [[] if one.labels is None else one.labels.tolist() for one in found]
    many = [(name, values) for name, values in zip(names, labels, strict=True) if len(values) > 2]
    if task == "regression" or (task == "auto" and text is None and many):
        if text is not None:
            raise _not_numeric(text, "category")
        return TargetColumns(names), "regression", why.format("all numeric")
    if many:
        name, values = many[0]
        shown = ", ".join(map(repr, values[:4])) + (", …" if len(values) > 4 else "")
        raise ValueError(
            f"Several classification targets must have two values each; {name!r} has "
            f"{len(values)}: {shown}. Fit a separate model to it."
        )
    return TargetColumns(names, labels), "classification", why.format("two values each")


def target_values(
    table: pyarrow.Table, name: str, task: Task, known: np.ndarray | list[Label] | None = None
) -> np.ndarray:
    """A target as an array: floats for a regression; else labels, text if the `known` ones are.

    Raises ValueError if the values do not suit the task.
    """
    read = read_table(table.select([name])).column(0)
    if task != "classification":
        if read.kind not in ("number", "boolean"):
            raise _not_numeric(name, read.kind)
        return np.asarray(read.values, dtype=np.float64)
    labels = _as_labels(read, read.values)
    if labels.dtype.kind == "f":
        raise ValueError(
            f"Classification needs a target of few distinct values; {name!r} holds fractions such "
            f"as {labels[_fractions(labels)][0]:g}. Use task='regression'."
        )
    # A file with types of its own may hold numbers where the model knows text.
    as_text = known is not None and np.asarray(known).dtype.kind in "UO"
    return labels.astype(str) if as_text else labels


def encode_targets(table: pyarrow.Table, targets: TargetColumns) -> np.ndarray:
    """Several targets as a model takes them: (n_rows, n_targets), numbers or 0 and 1.

    Raises ValueError if a column holds other values than in the fit.
    """
    if targets.labels is None:
        return np.column_stack([target_values(table, name, "regression") for name in targets.names])
    columns = []
    for name, labels in zip(targets.names, targets.labels, strict=True):
        truth = target_values(table, name, "classification", labels)
        other = ~np.isin(truth, labels)
        if other.any():
            raise ValueError(
                f"{name!r} must hold {labels[0]!r} or {labels[1]!r}, as in the fit; found "
                f"{truth[other].tolist()[0]!r}. Check the file."
            )
        columns.append((truth == labels[1]).astype(np.int64))
    return np.column_stack(columns)


def class_values(
    table: pyarrow.Table, names: Sequence[str], classes: Sequence[np.ndarray | list[Label]]
) -> np.ndarray:
    """Several columns of classes as labels, (n_rows, n_columns); texts where the known ones are."""
    each = zip(names, classes, strict=True)
    columns = [target_values(table, name, "classification", known) for name, known in each]
    return np.column_stack([column.astype(object) for column in columns])


def bound_values(table: pyarrow.Table, names: Sequence[str]) -> np.ndarray:
    """Lower and upper bounds of times, (n_rows, 2); infinite where the upper one is missing.

    Raises ValueError if they are no numbers.
    """
    import pyarrow
    import pyarrow.compute as pc

    upper = table.column(names[1])
    if pyarrow.types.is_floating(upper.type):
        # A file may say so itself; numbers of a table are finite otherwise.
        endless = pc.equal(upper, np.inf)
        upper = pc.if_else(endless, None, upper)
        table = table.set_column(table.column_names.index(names[1]), names[1], upper)
    low, high = (
        target_values(table, name, "regression").astype(np.float64, copy=True) for name in names
    )
    return np.column_stack([low, np.where(np.isnan(high), np.inf, high)])


def check_bounds(names: Sequence[str]) -> None:
    """Raise ValueError unless two columns are named."""
    if len(names) != 2:
        raise ValueError(
            f"Times are known by two columns, their lower and upper bounds; got {', '.join(names)}."
        )


def labelled_rows(table: pyarrow.Table, targets: Sequence[str]) -> tuple[pyarrow.Table, np.ndarray]:
    """The rows with a value in every target column, and their numbers."""
    import pyarrow.compute as pc

    # A file with types of its own may hold NaN where a value is missing.
    masks = [pc.is_null(table.column(name), nan_is_null=True) for name in targets]
    labelled = pc.invert(functools.reduce(pc.or_, masks))
    rows = np.flatnonzero(labelled.to_numpy(zero_copy_only=False))
    return (table.filter(labelled) if len(rows) < table.num_rows else table), rows


def target_names(given: str | Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Split comma-separated targets, unless a column of the table is called that.

    Raises ValueError if a column is repeated, or none is named.

    >>> target_names("price,rent", ["price", "rent", "rooms"])
    ['price', 'rent']
    >>> target_names("price,net", ["price,net", "rooms"])
    ['price,net']
    """
    found = split_names(given, names)
    if not found:
        raise ValueError("target must name at least one column; got none")
    repeated = [name for name in found if found.count(name) > 1]
    if repeated:
        raise ValueError(f"target must name each column once; {repeated[0]!r} is repeated")
    return found


def split_names(given: str | Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Split comma-separated names of columns, but for those that a column of `names` has.

    >>> split_names(["a, b", "c,d"], ["a", "b", "c,d"])
    ['a', 'b', 'c,d']
    """
    found: list[str] = []
    for text in [given] if isinstance(given, str) else given:
        parts = [text] if text in names else [name.strip() for name in text.split(",")]
        found += [name for name in parts if name]
    return found


def _not_numeric(name: str, kind: str) -> ValueError:
    return ValueError(
        f"Regression needs a numeric target; {name!r} holds {PLURAL[kind]}. "
        "Use task='classification'."
    )


def _as_labels(column: Column, values: np.ndarray) -> np.ndarray:
    """Values of a column as texts, booleans or integers; as they are if some are fractions."""
    if column.kind == "category":
        return np.asarray(column.levels, dtype=str)[values]
    if _fractions(values).any():
        return values
    return values.astype(bool if column.kind == "boolean" else np.int64)


def _fractions(values: np.ndarray) -> np.ndarray:
    # 1e300 is too large for an integer.
    with np.errstate(invalid="ignore"):
        return np.asarray(values.astype(np.int64) != values)
