"""Why a row gets its answer: what each of its cells adds, compared with the cells of other rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nrs.tabular.explain.effects import cell_text, number_text
from nrs.tabular.explain.rows import Rows, answers_of

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.types import ArrayLike, TableLike

# Columns that are looked at one by one; the others count together.
MAX_COLUMNS = 30
# Rows among which those to compare with are chosen.
MAX_SAMPLE = 1_000
OTHERS = "all other columns"


@dataclass(frozen=True)
class Reasons:
    """What the cells of a row add to its answer.

    Attributes
    ----------
    row : number of the row in the table, from 0.
    answer : the probability of `label`, or the number that is predicted.
    usual : the mean answer for the rows that it is compared with.
    columns, cells : names of the columns and the row's cells in the words of the table, those that
        add most first; the last may be "all other columns".
    parts : (n_columns,) what each adds; together with `usual` they make `answer`.
    label : whose probability it is; None of numbers.
    """

    row: int
    answer: float
    usual: float
    columns: list[str]
    cells: list[str]
    parts: np.ndarray
    label: str | None

    def shown(self, value: float, *, sign: bool = False) -> str:
        """An answer, or with its `sign` a part of one, as text."""
        mark = "+" if sign and value >= 0 else "−" if sign else ""
        size = abs(value) if sign else value
        if self.label is not None:
            return f"{mark}{100 * size:.1f}" + ("" if sign else " %")
        if not sign:
            return number_text(size)
        # All parts with the digits of the largest.
        largest = float(np.abs(self.parts).max())
        digits = 2 - math.floor(math.log10(largest)) if largest > 0 else 0
        return f"{mark}{size:,.{max(digits, 0)}f}" if digits < 9 else f"{mark}{size:.3g}"

    def __str__(self) -> str:
        what = "predicted" if self.label is None else f"probability of {self.label}"
        lines = [f"{what}: {self.shown(self.answer)}, for usual rows {self.shown(self.usual)}"]
        texts = [
            f"{name} = {cell}" if cell else name
            for name, cell in zip(self.columns, self.cells, strict=True)
        ]
        width = max(map(len, texts))
        added = [self.shown(part, sign=True) for part in self.parts.tolist()]
        digits = max(map(len, added))
        lines += [
            f"  {text:{width}}  {part:>{digits}}" for text, part in zip(texts, added, strict=True)
        ]
        return "\n".join(lines)


def reasons(
    model: TableEstimator,
    X: TableLike,
    rows: ArrayLike,
    *,
    training_rows: ArrayLike | None = None,
    n_draws: int = 64,
    seed: int = 0,
) -> list[Reasons]:
    """Explain the answers for some rows of a table by their cells: sampled Shapley values.

    A row is compared with other rows of the table: their cells are replaced by its own, one column
    after the other in random order and back, and what the answer gains at a column is put down to
    it. The mean over the draws is its part; all parts add up to the difference between the answer
    and the mean answer for the rows compared with.

    Parameters
    ----------
    model : fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`
    X : (n_rows, n_columns) a table as ``predict`` takes it, of at least 2 rows.
    rows : numbers of the rows to explain, from 0.
    training_rows : (n_rows,) for each row of X its number in the table of the fit, from 0. Each is
        then explained by the members that were not trained on it.
    n_draws : rows of the table that each is compared with; more make the parts more exact.
    seed : the same seed draws the same rows and orders.

    Returns
    -------
    list of Reasons
        One for each row. Its answer is a probability (the second of two classes, the most probable
        of more, the first of several labels), or the number that is predicted. 30 columns are
        looked at one by one, those with the largest ``feature_importances_``; others together.

    Raises
    ------
    ValueError
        Rows that do not exist or that no member can answer for, a table of one row, a ranker, or
        `training_rows` of a model that does not know who has seen which row.

    Examples
    --------
    >>> from nrs import NRSRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = NRSRegressor(preset="fast", random_state=0).fit(X, 3 * X[:, 0])
    >>> (why,) = reasons(model, X, [17])
    >>> why.columns[0], bool(np.isclose(why.usual + why.parts.sum(), why.answer))
    ('x0', True)
    """
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1; got {n_draws!r}")
    known = Rows.of(model, X, training_rows)
    if len(known) < 2:
        raise ValueError("a row is compared with others of its table: X must have at least 2 rows")
    wanted = np.asarray(rows)
    places = np.searchsorted(known.places, wanted).clip(max=len(known) - 1)
    absent = wanted[known.places[places] != wanted]
    if len(absent):
        raise ValueError(
            f"rows must be among the {known.table.n_rows} rows of X, from 0, that can be answered "
            f"for; got {absent[0]}"
        )
    ranked = np.argsort(-model.feature_importances_, kind="stable").tolist()
    order = [column for column in ranked if len(known.own(column))]
    groups = [[one] for one in order[:MAX_COLUMNS]]
    if len(order) > MAX_COLUMNS:
        groups.append(order[MAX_COLUMNS:])
    generator = np.random.default_rng(seed)
    others = known.x[_spread(known, n_draws)]
    return [_explain(known, place, groups, others, generator) for place in places.tolist()]


def _spread(known: Rows, n: int) -> np.ndarray:
    """Numbers of rows whose answers are spread as those of all rows are, ascending in them."""
    sample = np.linspace(0, len(known) - 1, min(len(known), MAX_SAMPLE)).astype(int)
    answers = answers_of(known.model, known.model.forward(known.x[sample]))
    ordered = sample[np.lexsort((answers.max(1), answers.argmax(1)))]
    return ordered[((np.arange(n) + 0.5) / n * len(ordered)).astype(int)]


def _explain(
    known: Rows, place: int, groups: list[list[int]], others: np.ndarray,
    generator: np.random.Generator,
) -> Reasons:  # fmt: skip
    model, n = known.model, len(groups)
    player = np.zeros(known.x.shape[1], dtype=np.int64)
    for number, columns in enumerate(groups):
        player[np.isin(model.encoder_.groups_, columns)] = number
    parts, usual, chosen = np.zeros(n), 0.0, 0
    for other in others:
        way = generator.permutation(n)
        # How many cells have been replaced when it is the turn of each column; and back.
        turn = np.concatenate([np.argsort(way), np.argsort(way[::-1])]).reshape(2, n)
        replaced = turn[:, None, :] < np.arange(n + 1)[None, :, None]
        mixed = np.where(replaced[:, :, player], known.x[place], other)
        outputs = known.raw(mixed.reshape(-1, known.x.shape[1]), place)
        answers = answers_of(model, outputs)
        if model.target_.answer_names() is not None:
            chosen = int(model.target_.main_output(outputs[n : n + 1]))
        steps = np.diff(answers[:, chosen].reshape(2, n + 1), axis=1)
        for own, gained in zip((way, way[::-1]), steps, strict=True):
            parts[own] += gained / (2 * len(others))
        usual += answers[0, chosen] / len(others)
    first = np.argsort(-np.abs(parts), kind="stable")
    names = model.encoder_.column_names
    alone = [columns[0] if len(columns) == 1 else None for columns in groups]
    row, labels = int(known.places[place]), model.target_.answer_names()
    return Reasons(
        row=row,
        answer=usual + float(parts.sum()),
        usual=usual,
        columns=[OTHERS if alone[k] is None else names[alone[k]] for k in first.tolist()],
        cells=["" if alone[k] is None else cell_text(known.column(alone[k]), row) for k in first],
        parts=parts[first],
        label=None if labels is None else labels[chosen],
    )
