"""What a user should know of a table before a model is fitted to it.

Each rule asks one question of one column, or of the whole table, and answers with findings. They
are bounded: a column is looked at in at most `MAX_ROWS` rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.datasets.dialects import Numbers
from nrs.datasets.reading import read_numbers
from nrs.datasets.table_files import stream_table_file
from nrs.files.read import LabelledTable
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.encode.columns import Column
from nrs.tabular.encode.encoder import decide_text
from nrs.tabular.encode.table import Table, read_table
from nrs.tabular.encode.text import is_text
from nrs.tabular.predict_file import Source, input_columns, model_rows
from nrs.tabular.rows.sample import hashed

if TYPE_CHECKING:
    import pyarrow

    from nrs.tabular.types import TableModel

MAX_ROWS = 10_000
# Rows below which a column of distinct values means nothing.
MIN_ROWS = 30
# A column alone that answers this well gives the target away.
LEAK = 0.98
# Rows of a class below which it can hardly be learned.
MIN_OF_CLASS = 3
# Classes beyond which a target of numbers is hardly one of classes.
MANY_CLASSES = 50
# Share of rows that repeat others, from which on scores are flattered; columns that are left out to
# see how often rows are the same by chance.
MIN_REPEATED, MAX_LEFT_OUT = 0.04, 50
# Columns and rows that are looked at for leaks.
MAX_TRIED, TRIED_ROWS = 300, 3_000
_ID_NAME = re.compile(
    r"(^|[^a-z])(id|ids|index|idx|key|nr|no|row|number|uuid|unnamed)([^a-z]|$)|^#$"
)
_FOLDS = 5


@dataclass(frozen=True)
class Finding:
    """Something about a table, or one of its columns, and what to do about it.

    Attributes
    ----------
    kind : "id", "constant", "duplicates", "leak", "rare classes", "number as classes", \
"mixed units" or "drift"
    column : str or None
    text : str
        One or two sentences. An option that ends it has no period, so that it can be copied.
    """

    kind: str
    column: str | None
    text: str

    def to_dict(self) -> dict[str, str | None]:
        """As JSON values."""
        return asdict(self)


def check_table(
    features: pyarrow.Table,
    truth: np.ndarray | None = None,
    *,
    task: str | None = None,
    target: str = "",
) -> list[Finding]:
    """Look for what makes a model of a table, or its scores, worse than they look.

    Parameters
    ----------
    features : pyarrow.Table
    truth : (n_rows,) array, optional
        The target; without it only the features are looked at.
    task : "classification" or "regression"
    target : str
        What the target is called.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"row": list(range(40)), "one": [1] * 40, "x": [0, 1, 2, 2] * 10})
    >>> [(one.kind, one.column) for one in check_table(table)]
    [('id', 'row'), ('constant', 'one')]
    """
    table = read_table(features, convert=True)
    columns = [_read(table, k) for k in range(table.n_columns)]
    assert table.names is not None
    found = [one for k, name in enumerate(table.names) for one in _about_column(name, columns[k])]
    ids = {one.column for one in found if one.kind == "id"}
    rest = [k for k, name in enumerate(table.names) if name not in ids]
    found += _duplicates([columns[k] for k in rest], truth)
    if truth is not None and truth.ndim == 1:
        found += _about_target(truth, task or "regression", target)
        for k in rest[:MAX_TRIED]:
            found += _leaks(table.names[k], columns[k], truth, task or "regression", target)
    return found


def check_labelled(table: LabelledTable) -> list[Finding]:
    """As :func:`check_table`, of a table that was read for a fit; of a streamed one, its sample."""
    # Grades are numbers in an order.
    task = "regression" if table.task == "ranking" else table.task
    return check_table(table.features, table.truth, task=task, target=table.target)


def check_new_rows(model: TableModel, source: Source, **reading: Any) -> list[Finding]:
    """How the rows of a table differ from those that a model of ``nrs fit`` was fitted to.

    The table is read chunk by chunk, all of it; `reading` is how text files and workbooks are read.
    Cells far beyond the training range, or most of a column unseen, are a ColumnWarning, as when
    the rows are predicted.

    Raises
    ------
    ValueError
        If the table cannot be read, or the model does not know how its training rows were spread.
    """
    encoder, watch = model.encoder_, Watch(drift=True)
    if encoder.profile is None:
        raise ValueError(
            "The model does not know how its training rows are spread: models of nrs fit do, of "
            "this version, on tables that are neither sparse nor of thousands of features. Fit it "
            "again."
        )
    columns = input_columns(model, source, **reading)
    for chunk in stream_table_file(source, columns, **reading):
        encoder.transform(model_rows(model, chunk), watch)
    moved, watch.drift = encoder.moved(watch), None
    encoder.warn(watch)
    return [
        Finding("drift", name, f"Rows differ from those of training: {said}.")
        for name, said in moved.items()
    ]


def _read(table: Table, index: int) -> Column:
    column = table.column(index)
    decision = decide_text(table, index, column)
    if decision is not None and decision.plan is not None:
        table.plans[index] = decision.plan
        column = table.column(index)
    return column


def _about_column(name: str, column: Column) -> Iterator[Finding]:
    present = column.values[~column.missing()]
    n, distinct = len(present), np.unique(present)
    if len(distinct) <= 1 and (n == len(column.values) or n == 0):
        value = "empty" if n == 0 else "the same in every row"
        yield Finding("constant", name, f"{name!r} is {value} and adds nothing.")
        return
    if n < MIN_ROWS or n < len(column.values):
        return
    if _is_id(name, column, distinct):
        yield Finding(
            "id",
            name,
            f"{name!r} is different in every row and looks like an ID; consider drop={name!r}",
        )
    elif column.kind == "category":
        yield from _mixed_units(name, column)


def _is_id(name: str, column: Column, distinct: np.ndarray) -> bool:
    n = len(column.values)
    if column.kind == "category":
        return len(distinct) == n and not is_text(column.levels, n, 0)
    if column.kind != "number" or len(distinct) < n or (distinct != np.floor(distinct)).any():
        return False
    dense = distinct[-1] - distinct[0] < 1.2 * n
    steps = np.diff(column.values.astype(np.float64))
    in_order = bool((steps > 0).all() or (steps < 0).all())
    named = bool(
        _ID_NAME.search(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower().replace("_", " "))
    )
    return dense or in_order or named


def _mixed_units(name: str, column: Column) -> Iterator[Finding]:
    texts = column.levels[:MAX_ROWS]
    if len(texts) <= 20 or not any(character.isdigit() for character in texts[0]):
        return
    numbers = Numbers(texts, ".", ",")
    right = ~np.isnan(numbers.values)
    units, counts = np.unique(np.array(numbers.units)[right], return_counts=True)
    common = units[counts >= 0.05 * len(texts)].tolist()
    if right.mean() >= 0.9 and len([unit for unit in common if unit]) >= 2:
        listed = ", ".join(unit or "none" for unit in common[:4])
        yield Finding(
            "mixed units",
            name,
            f"{name!r} holds numbers in several units ({listed}), so it is read as a category. "
            "Convert them to one.",
        )


def _first_seen(codes: np.ndarray) -> np.ndarray:
    """Codes that count the values in the order in which they come."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _pairs(keys: np.ndarray) -> float:
    """How many pairs of rows have the same key."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)


def _duplicates(columns: Sequence[Column], truth: np.ndarray | None) -> Iterator[Finding]:
    """Rows that come more than once, and more often than chance would have it.

    By chance, more pairs of rows differ in a single column than in none.
    """
    if not columns or len(columns[0].values) < MIN_ROWS:
        return
    parts = [np.unique(one.values, return_inverse=True)[1] for one in columns]
    if truth is not None and truth.ndim == 1:
        parts.append(np.unique(truth, return_inverse=True)[1])
    n = len(parts[0])
    # Columns that say the same count once.
    parts = list({_first_seen(codes).tobytes(): codes for codes in parts}.values())
    # A row is known by the sum of its cells' hashes, from which one column can be taken away.
    keys = [hashed(codes, salt) for salt, codes in enumerate(parts)]
    whole = functools.reduce(np.add, keys)
    extra = n - len(np.unique(whole))
    if extra < max(3, MIN_REPEATED * n):
        return
    tried = np.linspace(0, len(keys) - 1, min(len(keys), MAX_LEFT_OUT)).astype(int)
    same = _pairs(whole)
    nearly = [_pairs(whole - keys[place]) - same for place in tried]
    if same > np.mean(nearly) * len(keys):
        share = 100 * extra / n
        yield Finding(
            "duplicates",
            None,
            f"{extra:,} rows ({share:.1f} %) repeat others. Scores are flattered where a row is "
            "both trained on and scored; remove them, or keep them together as groups.",
        )


def _about_target(truth: np.ndarray, task: str, target: str) -> Iterator[Finding]:
    if task != "classification":
        return
    labels, counts = np.unique(truth, return_counts=True)
    if len(labels) > MANY_CLASSES:
        texts = [str(label) for label in labels.tolist()]
        numeric = ~np.isnan(read_numbers(texts, ".", ",").values)
        if numeric.mean() > 0.9:
            yield Finding(
                "number as classes",
                target,
                f"{target!r} has {len(labels):,} classes that are probably numbers; use "
                "task='regression', or say how they are written, such as decimal=','",
            )
            return
    rare = labels[counts < MIN_OF_CLASS]
    if len(rare):
        named = ", ".join(repr(label) for label in rare[:4].tolist())
        yield Finding(
            "rare classes",
            target,
            f"{len(rare)} of {len(labels)} classes of {target!r} have fewer than {MIN_OF_CLASS} "
            f"rows and cannot be learned: {named}{', …' if len(rare) > 4 else ''}.",
        )


def _rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's, of the rows with a value: a leak on another scale, such as a logarithm."""
    from scipy.stats import rankdata

    seen = ~np.isnan(x)
    if seen.sum() < MIN_ROWS or np.ptp(x[seen]) == 0 or np.ptp(y[seen]) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(x[seen]), rankdata(y[seen]))[0, 1])


def _leaks(
    name: str, column: Column, truth: np.ndarray, task: str, target: str
) -> Iterator[Finding]:
    score = alone(column, truth, task)
    if score >= LEAK:
        what = "R²" if task == "regression" else "balanced accuracy"
        yield Finding(
            "leak",
            name,
            f"{name!r} alone predicts {target!r} ({what} {score:.3f}). If it is only known after "
            f"the target is, the scores will not hold; consider drop={name!r}",
        )


def alone(column: Column, truth: np.ndarray, task: str) -> float:
    """How well one column predicts the target: cross-fitted R², or balanced accuracy above chance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> round(alone(Column("number", x), x > 0, "classification"), 1)
    1.0
    """
    from sklearn.metrics import balanced_accuracy_score, r2_score
    from sklearn.model_selection import KFold
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    rows = np.random.default_rng(0).permutation(len(truth))[:TRIED_ROWS]
    y = truth[rows]
    codes = np.unique(y, return_inverse=True)[1] if task == "classification" else None
    x = column.values[rows]
    if column.kind == "date":
        x = np.where(np.isnat(x), np.nan, x.astype(np.int64).astype(np.float64))
    x = x.astype(np.float64)
    if len(rows) < MIN_ROWS or len(np.unique(x[~np.isnan(x)])) < 2 or len(np.unique(y)) < 2:
        return 0.0
    if column.kind == "category" and len(column.levels) > 0.5 * len(rows):
        return 0.0
    kind = DecisionTreeRegressor if codes is None else DecisionTreeClassifier
    # Categories are numbers without an order, so a tree needs a leaf for each.
    tree = kind(min_samples_leaf=2 if column.kind == "category" else 5, random_state=0)
    wanted, answers = (y if codes is None else codes), np.empty(len(rows), dtype=np.float64)
    for fitted, held in KFold(_FOLDS, shuffle=True, random_state=0).split(x):
        tree.fit(x[fitted, None], wanted[fitted])
        answers[held] = tree.predict(x[held, None])
    if codes is None:
        return max(float(r2_score(y, answers)), _rank_correlation(x, y) ** 2)
    return float(balanced_accuracy_score(codes, answers.astype(np.int64), adjusted=True))
