"""How the answers change with one column, all else as it is: partial dependence, and each row's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nrs.tabular.encode.columns import Column, Kind
from nrs.tabular.explain.rows import Rows, answers_of, places_of
from nrs.tabular.rows.memory import spread_rows

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.types import ArrayLike, TableLike

# The furthest cells of a column say how it ends, not how it is.
TAIL = 0.01
# Cells that are tried, and rows that are averaged over, unless others are asked for.
N_POINTS, MAX_ROWS = 15, 200


@dataclass(frozen=True)
class Effect:
    """What a model answers if all rows had the same cell in a column, for some cells of it.

    Attributes
    ----------
    column, kind : name of the column, and its kind: "number", "category", "date", …
    cells : (n_points,) the cells in the words of the table; "missing" for no cell.
    at : (n_points,) numbers, or seconds since 1970, of these cells; NaN of categories and of no
        cell.
    share : (n_points,) share of the rows with a cell of this level; of numbers and dates, the
        share of the rows between the points next to it.
    mean : (n_points, n_answers) mean answers over the rows: probabilities, or numbers.
    answers : names of the answers; None of numbers.
    curves : (n_points, n_rows) each row's answer of number `shown`.
    shown : number of the answer that moves most.
    """

    column: str
    kind: Kind
    cells: list[str]
    at: np.ndarray
    share: np.ndarray
    mean: np.ndarray
    answers: list[str] | None
    curves: np.ndarray
    shown: int


def effect(
    model: TableEstimator,
    X: TableLike,
    column: str | int,
    *,
    training_rows: ArrayLike | None = None,
    n_points: int = N_POINTS,
    max_rows: int = MAX_ROWS,
) -> Effect:
    """Compute the effect of a column on what a model answers.

    Each row is answered for with its cell replaced by one of `n_points` cells that other rows
    have: numbers and dates spread evenly over the rows, the most frequent levels of a category,
    and no cell where some are missing. The mean is the partial dependence; rows whose curves are
    not alike show that other columns matter for it. Where columns go together, some of these rows
    exist nowhere.

    Parameters
    ----------
    model : fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`
    X : (n_rows, n_columns) a table as ``predict`` takes it.
    column : name or number of a column.
    training_rows : (n_rows,) for each row of X its number in the table of the fit, from 0. Each is
        then answered for by the members that were not trained on it.
    n_points : cells that are tried, at most, and one for no cell.
    max_rows : rows that are averaged over, spread evenly over the table.

    Raises
    ------
    ValueError
        A column that does not exist or that holds free text, a ranker, or `training_rows` of a
        model that does not know who has seen which row.

    Examples
    --------
    >>> from nrs import NRSRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = NRSRegressor(preset="fast", random_state=0).fit(X, 3 * X[:, 0])
    >>> found = effect(model, X, 0, n_points=5)
    >>> found.mean.shape, found.curves.shape
    ((5, 1), (5, 200))
    >>> bool(np.all(np.diff(found.mean[:, 0]) > 0))
    True
    """
    (place,) = places_of(model, [column])
    if model.encoder_.kinds_[place] == "text":
        raise ValueError(f"column must hold numbers, dates or categories; {column!r} is free text")
    return effect_on(Rows.of(model, X, training_rows, max_rows), place, n_points)


def effect_on(rows: Rows, place: int, n_points: int = N_POINTS) -> Effect:
    """:func:`effect` of the column of a number, on rows that may serve for several."""
    model, cells = rows.model, rows.column(place)
    at = _positions(cells)
    donors = _levels(cells, n_points) if cells.kind == "category" else _spread(at, n_points)
    missing = np.flatnonzero(cells.missing())
    donors = np.append(donors, missing[:1]).astype(np.int64)
    own = rows.own(place)
    given = rows.cells_of(donors)[:, own]
    every, changed = [], rows.x.copy()
    for one in given:
        changed[:, own] = one
        every.append(answers_of(model, rows.outputs(changed)))
    answers = np.stack(every)
    mean = answers.mean(1)
    # Of two classes both move as far: the second.
    moved = np.ptp(mean, axis=0).round(6)
    shown = int(len(moved) - 1 - moved[::-1].argmax())
    return Effect(
        column=model.encoder_.column_names[place],
        kind=model.encoder_.kinds_[place],
        cells=[cell_text(cells, donor) for donor in donors.tolist()],
        at=at[donors],
        share=_shares(cells, at, donors),
        mean=mean,
        answers=model.target_.answer_names(),
        curves=answers[:, :, shown],
        shown=shown,
    )


def _positions(cells: Column) -> np.ndarray:
    """Where cells stand on an axis, NaN of those without a place."""
    if cells.kind == "category":
        return np.full(len(cells.values), np.nan)
    if cells.kind == "date":
        seconds = cells.values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(cells.missing(), np.nan, seconds)
    return cells.values.astype(np.float64)


def _spread(at: np.ndarray, n: int) -> np.ndarray:
    """Rows whose cells are spread evenly over the rows, each another cell, ascending."""
    known = np.flatnonzero(~np.isnan(at))
    values, first = np.unique(at[known], return_index=True)
    if len(values) > n:
        ordered = known[np.argsort(at[known], kind="stable")]
        low = int(TAIL * len(ordered))
        inner = ordered[low : len(ordered) - low]
        chosen = inner[spread_rows(len(inner), n).numpy()]
        return chosen[np.unique(at[chosen], return_index=True)[1]]
    return known[first]


def _levels(cells: Column, n: int) -> np.ndarray:
    """Rows that have the most frequent levels, each another one."""
    codes, first, counts = np.unique(cells.values, return_index=True, return_counts=True)
    known = codes >= 0
    first, counts = first[known], counts[known]
    return first[np.argsort(-counts, kind="stable")[:n]]


def _shares(cells: Column, at: np.ndarray, donors: np.ndarray) -> np.ndarray:
    missing, n = cells.missing(), len(at)
    if cells.kind == "category":
        return np.array([(cells.values == cells.values[one]).sum() for one in donors]) / n
    known = [one for one in donors if not missing[one]]
    inner, found = at[known], []
    if known:
        edges = np.concatenate([[-np.inf], (inner[1:] + inner[:-1]) / 2, [np.inf]])
        found = list(np.histogram(at[~missing], edges)[0] / n)
    return np.array([*found, missing.mean()][: len(donors)])


def cell_text(cells: Column, row: int) -> str:
    """A cell in the words of the table.

    >>> cell_text(Column("category", np.array([1, -1]), ("left", "right")), 0)
    'right'
    >>> cell_text(Column("number", np.array([2.50, np.nan])), 1)
    'missing'
    """
    value = cells.values[row]
    if cells.kind == "category":
        return cells.levels[value] if value >= 0 else "missing"
    if value != value:
        return "missing"
    if cells.kind == "date":
        text = str(value.astype("datetime64[s]"))
        return text.removesuffix("T00:00:00").replace("T", " ")
    if cells.kind == "boolean":
        return str(bool(value))
    return number_text(float(value))


def number_text(value: float) -> str:
    """A number of four digits, as a reader writes it.

    >>> [number_text(value) for value in (0.123456, 1234567.0, 3.0, 2e-9)]
    ['0.1235', '1,234,567', '3', '2e-09']
    """
    if abs(value) >= 1e12 or (value and abs(value) < 1e-4):
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
