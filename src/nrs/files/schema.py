"""What a table was understood as: the kinds of its columns, and the task its target asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nrs.tabular.encode.columns import PLURAL, Column
from nrs.tabular.encode.table import read_table

Task = Literal["classification", "regression"]
TASKS = ("classification", "regression")
# Whole numbers with at most so many values are taken as classes.
MOST_CLASSES = 20


@dataclass(frozen=True)
class ColumnSummary:
    """One column in a few words.

    Attributes
    ----------
    name, kind : str
    values : str
        Its range, or its most frequent levels.
    n_values : int
        Different values, of a category only.
    missing : int
        Cells without a value.
    """

    name: str
    kind: str
    values: str
    n_values: int | None
    missing: int

    @property
    def is_identifier(self) -> bool:
        """Whether it tells every row apart, so that nothing can be learned from it."""
        return self.values == "all different"


def check_task(task: str) -> None:
    """Refuse a task that is neither known nor to be guessed.

    Raises
    ------
    ValueError
        If it is none of "auto", "classification" and "regression".
    """
    if task not in ("auto", *TASKS):
        raise ValueError(f"--task must be auto, {' or '.join(TASKS)}, however: {task!r}")


def one_value(target: str, value: Any) -> ValueError:
    """Say that a target is the same in all rows."""
    return ValueError(
        f"the target {target!r} must have at least two values, however: all are {value!r}; "
        "choose another --target"
    )


def describe_columns(table: Any, categorical: Any = None) -> list[ColumnSummary]:
    """Tell what each column of a table was understood as.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"rooms": [2, None, 3], "district": ["b", "a", "b"]})
    >>> [(one.name, one.kind, one.values, one.missing) for one in describe_columns(table)]
    [('rooms', 'number', '2 … 3', 1), ('district', 'category', 'b, a', 0)]
    """
    read = read_table(table, categorical_features=categorical)
    names = read.names or [f"x{place}" for place in range(read.n_columns)]
    return [_summary(name, read.column(place)) for place, name in enumerate(names)]


def _summary(name: str, column: Column) -> ColumnSummary:
    missing = column.missing()
    n_missing = int(missing.sum())
    present = column.values[~missing]
    n_values = None
    if len(present) == 0:
        values = "nothing"
    elif column.kind == "category":
        counts = np.bincount(present, minlength=len(column.levels))
        n_values = int((counts > 0).sum())
        values = level_summary(column.levels, counts)
    elif column.kind == "date":
        low, high = present.min(), present.max()
        values = f"{np.datetime_as_string(low, 'D')} … {np.datetime_as_string(high, 'D')}"
    elif column.kind == "boolean":
        values = f"{100 * float(present.mean()):.0f} % true"
    else:
        values = f"{present.min():.6g} … {present.max():.6g}"
    return ColumnSummary(name, column.kind, values, n_values, n_missing)


def level_summary(levels: Sequence[str], counts: np.ndarray) -> str:
    """The most frequent of the levels, by the rows of each.

    Examples
    --------
    >>> level_summary(["a", "b", "c"], np.array([1, 5, 0]))
    'b, a'
    """
    n_values = int((counts > 0).sum())
    if n_values == counts.sum() > MOST_CLASSES:
        return "all different"
    most = np.argsort(-counts, kind="stable")[: min(4, n_values)]
    values = ", ".join(levels[place] for place in most)
    return values + (f" and {n_values - 4} more" if n_values > 4 else "")


def guess_task(column: Any) -> tuple[Task, str]:
    """Guess what to do from the target, and say why.

    Text, booleans and whole numbers with few values are classes; other numbers are numbers.

    Parameters
    ----------
    column : pyarrow array, without missing values

    Raises
    ------
    ValueError
        If the target holds dates.

    Examples
    --------
    >>> import pyarrow
    >>> guess_task(pyarrow.array(["yes", "no"]))
    ('classification', 'its values are categories')
    >>> guess_task(pyarrow.array([0.5, 1.25, 3.0]))[0]
    'regression'
    """
    import pyarrow

    read = read_table(pyarrow.table({"target": column})).column(0)
    if read.kind in ("category", "boolean"):
        return "classification", f"its values are {PLURAL[read.kind]}"
    if read.kind != "number":
        raise ValueError(
            f"the target must hold numbers or classes, however: it holds {PLURAL[read.kind]}; "
            "turn it into a number, such as days"
        )
    values = np.unique(read.values)
    if (values == np.floor(values)).all() and len(values) <= min(MOST_CLASSES, len(read.values)):
        return "classification", f"it has {len(values)} different whole numbers"
    return "regression", f"it has {len(values):,} different numbers"


def target_values(column: Any, task: Task) -> np.ndarray:
    """The target as an array: text, booleans, whole numbers, or floats for a regression.

    Raises
    ------
    ValueError
        If a regression is asked for and the target does not hold numbers.
    """
    import pyarrow

    read = read_table(pyarrow.table({"target": column})).column(0)
    if task == "regression":
        if read.kind not in ("number", "boolean"):
            raise ValueError(
                f"regression needs a target of numbers, however: it holds {PLURAL[read.kind]}; "
                "use --task classification"
            )
        numbers: np.ndarray = read.values.astype(np.float64)
        return numbers
    if read.kind == "category":
        return np.asarray(read.levels, dtype=str)[read.values]
    if read.kind == "boolean":
        return read.values.astype(bool)
    whole = read.values.astype(np.int64)
    if (whole == read.values).all():
        return whole
    raise ValueError(
        "classification needs a target of few values, however: it holds fractions such as "
        f"{read.values[whole != read.values][0]:g}; use --task regression"
    )
