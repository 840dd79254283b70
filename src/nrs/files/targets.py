"""The target columns of a table: their task, and their values as a model takes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from nrs.tabular.encode.columns import PLURAL
from nrs.tabular.encode.table import read_table
from nrs.tabular.predict_file import TargetColumns

if TYPE_CHECKING:
    import pyarrow

Task = Literal["classification", "regression"]
# Integers of at most so many distinct values are taken as classes.
MAX_CLASSES = 20
MAX_CLASSES_SHOWN = 6


@dataclass(frozen=True)
class TargetSummary:
    """What is known of the values of one target column.

    Attributes
    ----------
    name, kind : str
    labels, counts : ndarray (n_values,), or None
        Its distinct values, sorted, and the rows of each; None if there are too many to count.
    limits : (float, float)
        Least and greatest number.

    Examples
    --------
    >>> import pyarrow
    >>> target = TargetSummary.of(pyarrow.table({"left": ["yes", "no", "no"]}), "left")
    >>> target.choose_task("auto")
    ('classification', 'inferred: categorical values')
    >>> target.describe("classification")
    '2 classes: no (2), yes (1)'
    """

    name: str
    kind: str
    labels: np.ndarray | None
    counts: np.ndarray | None
    limits: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of(cls, table: pyarrow.Table, name: str) -> TargetSummary:
        """Read a column without missing values; dates raise ValueError."""
        read = read_table(table.select([name])).column(0)
        if read.kind in ("date", "duration"):
            raise ValueError(
                f"The target must hold numbers or classes; {name!r} holds {PLURAL[read.kind]}. "
                "Convert it to a number, such as days."
            )
        labels, counts = np.unique(read.values, return_counts=True)
        limits = float(labels[0]), float(labels[-1])
        if read.kind == "category":
            labels = np.asarray(read.levels, dtype=str)[labels]
        elif not _fractions(labels).any():
            labels = labels.astype(bool if read.kind == "boolean" else np.int64)
        return cls(name, read.kind, labels, counts, limits)

    def choose_task(self, task: str) -> tuple[Task, str]:
        """The task, and where it comes from.

        Text, booleans and integers of few distinct values are classes; other numbers are numbers.
        Raises ValueError for an unknown task, or if all values are the same.
        """
        check_task(task)
        self.check_values()
        if task != "auto":
            return cast(Task, task), "as requested"
        if self.kind != "number":
            values = "boolean" if self.kind == "boolean" else "categorical"
            return "classification", f"inferred: {values} values"
        if self.labels is None:
            return "regression", "inferred: very many distinct numbers"
        n = len(self.labels)
        if n <= MAX_CLASSES and not _fractions(self.labels).any():
            return "classification", f"inferred: {n} distinct integer values"
        return "regression", f"inferred: {n:,} distinct numbers"

    def check_values(self) -> None:
        """Raise ValueError if the target is the same in all rows."""
        if self.labels is not None and len(self.labels) < 2:
            raise ValueError(
                f"Target {self.name!r} needs at least two distinct values; all rows have "
                f"{self.labels.tolist()[0]!r}. Choose another target."
            )

    def describe(self, task: Task) -> str:
        """Its values in a few words."""
        if task == "regression" or self.labels is None or self.counts is None:
            return f"from {self.limits[0]:g} to {self.limits[1]:g}"
        pairs = list(zip(self.labels.tolist(), self.counts.tolist(), strict=True))
        shown = ", ".join(f"{label} ({count:,})" for label, count in pairs[:MAX_CLASSES_SHOWN])
        return f"{len(pairs)} classes: {shown}{', …' if len(pairs) > MAX_CLASSES_SHOWN else ''}"


def check_task(task: str) -> None:
    """Raise ValueError for an unknown task."""
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task must be auto, classification or regression; got {task!r}")


def join_targets(found: Sequence[TargetSummary], task: str) -> tuple[TargetColumns, Task, str]:
    """How one model predicts several columns, the task, and where the task comes from.

    Columns of two values each are classes; otherwise they must hold numbers. Raises ValueError if
    the task is unknown, a column has only one value, or one model cannot predict them all.
    """
    check_task(task)
    for one in found:
        one.check_values()
    why = "inferred: {}" if task == "auto" else "as requested"
    names = [one.name for one in found]
    labels = [[] if one.labels is None else one.labels.tolist() for one in found]
    many = next((place for place, values in enumerate(labels) if len(values) > 2), None)
    text = next((one.name for one in found if one.kind == "category"), None)
    if task == "regression" or (task == "auto" and text is None and many is not None):
        if text is not None:
            raise _not_numeric(text, "category")
        return TargetColumns(names), "regression", why.format("all numeric")
    if many is not None:
        values = labels[many]
        shown = ", ".join(map(repr, values[:4])) + (", …" if len(values) > 4 else "")
        raise ValueError(
            f"Several classification targets must have two values each; {names[many]!r} has "
            f"{len(values)}: {shown}. Fit a separate model to it."
        )
    return TargetColumns(names, labels), "classification", why.format("two values each")


def target_values(
    table: pyarrow.Table, name: str, task: Task, *, as_text: bool = False
) -> np.ndarray:
    """A target as an array: text, booleans or integers, or floats for a regression.

    With `as_text` all labels are text, for a model whose classes are. Raises ValueError if the
    values do not suit the task.
    """
    read = read_table(table.select([name])).column(0)
    if task == "regression":
        if read.kind not in ("number", "boolean"):
            raise _not_numeric(name, read.kind)
        return np.asarray(read.values, dtype=np.float64)
    if read.kind == "category":
        return np.asarray(read.levels, dtype=str)[read.values]
    wrong = _fractions(read.values)
    if wrong.any():
        raise ValueError(
            f"Classification needs a target of few distinct values; {name!r} holds fractions such "
            f"as {read.values[wrong][0]:g}. Use task='regression'."
        )
    labels = read.values.astype(bool if read.kind == "boolean" else np.int64)
    return labels.astype(str) if as_text else labels


def encode_targets(table: pyarrow.Table, targets: TargetColumns) -> np.ndarray:
    """Several targets as a model takes them: (n_rows, n_targets), numbers or 0 and 1.

    Raises ValueError if a column holds other values than in the fit.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"ill": ["yes", "no"], "old": [False, True]})
    >>> encode_targets(table, TargetColumns(["ill", "old"], [["no", "yes"], [False, True]]))
    array([[1, 0],
           [0, 1]])
    """
    if targets.labels is None:
        return np.column_stack([target_values(table, name, "regression") for name in targets.names])
    columns = []
    for name, labels in zip(targets.names, targets.labels, strict=True):
        # A file with types of its own may hold numbers where the model knows text.
        as_text = isinstance(labels[0], str)
        truth = target_values(table, name, "classification", as_text=as_text)
        other = ~np.isin(truth, labels)
        if other.any():
            raise ValueError(
                f"{name!r} must hold {labels[0]!r} or {labels[1]!r}, as in the fit; found "
                f"{truth[other].tolist()[0]!r}. Check the file."
            )
        columns.append((truth == labels[1]).astype(np.int64))
    return np.column_stack(columns)


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

    Examples
    --------
    >>> target_names("price,rent", ["price", "rent", "rooms"])
    ['price', 'rent']
    >>> target_names("price,net", ["price,net", "rooms"])
    ['price,net']
    """
    found: list[str] = []
    for text in [given] if isinstance(given, str) else given:
        parts = [text] if text in names else [name.strip() for name in text.split(",")]
        found += [name for name in parts if name]
    if not found:
        raise ValueError("target must name at least one column; got none")
    for name in found:
        if found.count(name) > 1:
            raise ValueError(f"target must name each column once; {name!r} is repeated")
    return found


def _not_numeric(name: str, kind: str) -> ValueError:
    return ValueError(
        f"Regression needs a numeric target; {name!r} holds {PLURAL[kind]}. "
        "Use task='classification'."
    )


def _fractions(values: np.ndarray) -> np.ndarray:
    # 1e300 is too large for an integer.
    with np.errstate(invalid="ignore"):
        return np.asarray(values.astype(np.int64) != values)
