"""The table encoder as ONNX operators: raw cells in, float32 features out.

What a graph takes for a column of each kind:

=========================  =======  ========================================  ==================
kind                       type     a cell                                    missing
=========================  =======  ========================================  ==================
number, duration           double   the number, the seconds                   NaN
boolean                    double   0 or 1                                    NaN
date                       double   seconds since 1970-01-01 00:00 UTC        NaN
category                   string   its text, see                             ``""``, see
                                    :func:`.columns.level_text`               :func:`missing_text`
=========================  =======  ========================================  ==================

Numbers are subtracted and divided in double precision, as :class:`nrs.tabular.TableEncoder` does:
years, prices and times keep their digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nrs.tabular.encode.column_encoders import LIMIT, CategoryEncoder, DateEncoder
from nrs.tabular.encode.columns import Column
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.export.graph import Graph

DAY = 86_400
# Days of 400 years: the calendar repeats itself after them.
CYCLE = 146_097
# Before any date that NumPy knows in microseconds; whole cycles, so that months do not change.
EARLIEST = 1000 * CYCLE


def missing_text(levels: Sequence[str]) -> str:
    """The text that stands for a missing category: none of the levels, ``""`` if it can be.

    Examples
    --------
    >>> missing_text(["red", "blue"]), missing_text(["", "blue"])
    ('', '(missing)')
    """
    text = ""
    while text in levels:
        text = f"({text})" if text else "(missing)"
    return text


def encode(graph: Graph, encoder: TableEncoder, inputs: Sequence[str], matrix: str | None) -> str:
    """Add the encoding of a row, and give the name of its (rows, n_features_out_) features.

    Parameters
    ----------
    inputs : the name of the (rows, 1) value of each source column.
    matrix : the name of the (rows, columns) value that holds all of them instead.
    """
    pieces: list[tuple[np.ndarray, str]] = []
    _numbers(graph, encoder, inputs, matrix, pieces)
    for index, learned in encoder.encoders.items():
        first = encoder.first[index]
        if isinstance(learned, CategoryEncoder):
            places = np.arange(first, first + len(learned.features))
            pieces.append((places, _category(graph, learned, inputs[index])))
        else:
            _date(graph, learned, inputs[index], first, pieces)
    if not pieces:
        shape = graph.op("Shape", matrix or inputs[0], end=1)
        shape = graph.op("Concat", shape, graph.constant(np.array([1])), axis=0)
        return graph.op("Expand", graph.constant(np.zeros(1, np.float32)), shape)
    order = np.concatenate([places for places, _ in pieces])
    values = [value for _, value in pieces]
    features = graph.op("Concat", *values, axis=1) if len(values) > 1 else values[0]
    if (np.diff(order) == 1).all():
        return features
    return graph.columns(features, np.argsort(order))


def _numbers(
    graph: Graph,
    encoder: TableEncoder,
    inputs: Sequence[str],
    matrix: str | None,
    pieces: list[tuple[np.ndarray, str]],
) -> None:
    block = encoder.numbers
    if not len(block.source):
        return
    if matrix is not None:
        raw = graph.columns(matrix, block.source)
    else:
        raw = graph.op("Concat", *(inputs[index] for index in block.source), axis=1)
    values = graph.op("Sub", raw, graph.constant(block.center))
    values = graph.op("Div", values, graph.constant(block.scale))
    missing = graph.op("IsNaN", values)
    values = graph.op("Where", missing, graph.constant(block.fill), values)
    values = graph.op("Clip", values, graph.constant(-LIMIT), graph.constant(LIMIT))
    for at, value in ((block.value_at, values), (block.missing_at, missing)):
        kept = np.flatnonzero(at >= 0)
        if len(kept):
            if len(kept) < len(at):
                value = graph.columns(value, kept)
            pieces.append((at[kept], graph.cast(value, np.float32)))


def _category(graph: Graph, learned: CategoryEncoder, value: str) -> str:
    """Look up the row of features of a level; levels with equal rows share one."""
    absent = missing_text(learned.levels)
    n_levels = len(learned.levels)
    # Every level, then missing, then a text that is none of them.
    codes = np.array([*range(n_levels), -1, n_levels], dtype=np.int32)
    column = Column("category", codes, (*learned.levels, absent))
    features = np.zeros((n_levels + 2, len(learned.features)), dtype=np.float32)
    learned.write(column, features)
    rows, places = np.unique(features, axis=0, return_inverse=True)
    *of_levels, unseen = places.reshape(-1).tolist()
    place = graph.op(
        "LabelEncoder",
        value,
        domain="ai.onnx.ml",
        keys_strings=[*learned.levels, absent],
        values_int64s=of_levels,
        default_int64=unseen,
    )
    return graph.op("Gather", graph.constant(rows), graph.reshape(place, -1), axis=0)


def _date(
    graph: Graph,
    learned: DateEncoder,
    value: str,
    first: int,
    pieces: list[tuple[np.ndarray, str]],
) -> None:
    missing = graph.op("IsNaN", value)
    seconds = graph.op("Where", missing, graph.constant(0.0), value)
    features = []
    if learned.scale > 0:
        time = graph.op("Mul", seconds, graph.constant(1e6))
        time = graph.op("Sub", time, graph.constant(learned.center))
        time = graph.op("Div", time, graph.constant(learned.scale))
        features.append(graph.cast(time, np.float32))
    days = graph.op("Floor", graph.op("Div", seconds, graph.constant(float(DAY))))
    for part in learned.parts:
        if part == "month":
            features += _waves(graph, _month(graph, graph.cast(days, np.int64)), 12)
        elif part == "weekday":
            # 1 January 1970 was a Thursday; the days so far must not be negative.
            since = graph.op("Add", graph.cast(days, np.int64), _whole(graph, EARLIEST * 7 + 3))
            features += _waves(graph, graph.op("Mod", since, _whole(graph, 7)), 7)
        else:
            start = graph.op("Mul", days, graph.constant(float(DAY)))
            micros = graph.op("Mul", graph.op("Sub", seconds, start), graph.constant(1e6))
            of_day = graph.op("Div", graph.op("Round", micros), graph.constant(DAY * 1e6))
            turn = graph.op("Mul", of_day, graph.constant(2 * np.pi))
            features += [graph.cast(graph.op(wave, turn), np.float32) for wave in ("Sin", "Cos")]
    zero = graph.constant(np.float32(0))
    features = [graph.op("Where", missing, zero, feature) for feature in features]
    if learned.missing:
        features.append(graph.cast(missing, np.float32))
    pieces += [(np.array([first + place]), feature) for place, feature in enumerate(features)]


def _whole(graph: Graph, number: int) -> str:
    return graph.constant(np.int64(number))


def _waves(graph: Graph, part: str, parts: int) -> list[str]:
    """Sine and cosine of one of so many equal parts of a turn, to the bit as the encoder's.

    Bins may lie between values that differ in their last bit alone: 0 and sin(π).
    """
    turn = np.arange(parts) * (2 * np.pi / parts)
    return [
        graph.op("Gather", graph.constant(wave(turn).astype(np.float32)), part, axis=0)
        for wave in (np.sin, np.cos)
    ]


def _month(graph: Graph, days: str) -> str:
    """Months since January (0 to 11) of the day so many days after 1 January 1970.

    In years that begin on 1 March leap days come last, so that the months before them have the
    same lengths every year: (5·day + 2) / 153 counts them.
    """

    def divide(value: str, by: int) -> str:
        return graph.op("Div", value, _whole(graph, by))

    # 719468 days lie between 1 March of the year 0 and 1 January 1970.
    since = graph.op("Add", days, _whole(graph, 719_468 + EARLIEST))
    day = graph.op("Mod", since, _whole(graph, CYCLE))
    corrected = graph.op("Sub", day, divide(day, 1460))
    corrected = graph.op("Add", corrected, divide(day, 36_524))
    corrected = graph.op("Sub", corrected, divide(day, 146_096))
    year = divide(corrected, 365)
    whole_years = graph.op("Mul", year, _whole(graph, 365))
    whole_years = graph.op("Add", whole_years, divide(year, 4))
    whole_years = graph.op("Sub", whole_years, divide(year, 100))
    of_year = graph.op("Sub", day, whole_years)
    five = graph.op("Add", graph.op("Mul", of_year, _whole(graph, 5)), _whole(graph, 2))
    from_march = divide(five, 153)
    return graph.op("Mod", graph.op("Add", from_march, _whole(graph, 2)), _whole(graph, 12))
