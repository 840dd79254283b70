"""A table of the paper as the page sees it: cells, their order, their notes and their counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nrs.pages.agreement import Agreement, Tolerance

STATUSES = ("ok", "failed", "timeout", "not run")
_KINDS = ("table", "figure")
_NO_REASON = {
    "failed": "failed; no error was recorded",
    "timeout": "stopped at the time limit",
    "not run": "not run so far",
}


@dataclass(frozen=True)
class Cell:
    """One value of the paper and what was measured for it.

    `outcome` is one of "run", "failed", "timeout" and "not run"; `agreement` is `UNCOMPARED`
    unless the cell was run, the paper has a value and the two may be compared.
    """

    row: Any
    column: str
    reported: float | str | None
    """A text where the paper prints one, such as 262K; it is shown, not compared."""
    reported_std: float | None
    measured: float | None
    measured_std: float | None
    n: int | None
    outcome: str
    note: str
    agreement: Agreement
    excess: float | None
    """How much better than the paper, in units of the allowed difference; None if uncompared."""

    @property
    def was_run(self) -> bool:
        return self.outcome == "run"

    @property
    def reason(self) -> str:
        """Why there is no measured value; for a cell that was run, its note."""
        if self.was_run:
            return self.note
        if not self.note:
            return _NO_REASON[self.outcome]
        return self.note if self.outcome == "not run" else f"{self.outcome}: {self.note}"


@dataclass(frozen=True)
class Counts:
    """How many cells there are of each sort."""

    total: int = 0
    run: int = 0
    agree: int = 0
    better: int = 0
    worse: int = 0
    differ: int = 0
    failed: int = 0
    timeout: int = 0
    not_run: int = 0

    @property
    def compared(self) -> int:
        return self.agree + self.better + self.worse + self.differ

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f) + getattr(other, f) for f in self.__dataclass_fields__))


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper; `grid` finds a cell by its row and column."""

    name: str
    title: str
    finding: str
    verdict: str
    protocol: str
    kind: str
    x_label: str
    y_label: str
    higher_is_better: bool
    tolerance: float | None
    cells: list[Cell]
    statistics: Mapping[str, Any]
    anchor: str
    rows: list[Any] = field(init=False)
    columns: list[str] = field(init=False)
    grid: dict[tuple[Any, str], Cell] = field(init=False)
    notes: dict[str, int] = field(init=False)
    """Each distinct note and its number, in the order in which the table shows them."""

    def __post_init__(self) -> None:
        grid: dict[tuple[Any, str], Cell] = {}
        for cell in self.cells:
            if (cell.row, cell.column) in grid:
                raise ValueError(
                    f"a row and column name one cell, however: table {self.name!r} has two of "
                    f"{cell.row!r} × {cell.column!r}; average its trials first"
                )
            grid[cell.row, cell.column] = cell
        rows = list(dict.fromkeys(cell.row for cell in self.cells))
        columns = list(dict.fromkeys(cell.column for cell in self.cells))
        shown = (grid[row, column] for row in rows for column in columns if (row, column) in grid)
        notes = dict.fromkeys(cell.reason for cell in shown if cell.reason)
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "notes", {note: i for i, note in enumerate(notes, start=1)})

    @property
    def counts(self) -> Counts:
        outcomes = Counter(cell.outcome for cell in self.cells)
        found = Counter(cell.agreement for cell in self.cells)
        return Counts(
            total=len(self.cells),
            run=outcomes["run"],
            agree=found[Agreement.AGREES],
            better=found[Agreement.BETTER] + found[Agreement.FAR_BETTER],
            worse=found[Agreement.WORSE] + found[Agreement.FAR_WORSE],
            differ=found[Agreement.DIFFERS],
            failed=outcomes["failed"],
            timeout=outcomes["timeout"],
            not_run=outcomes["not run"],
        )

    def missing(self) -> dict[str, str]:
        """Why cells have no measured value, and which those are."""
        by_reason: dict[str, dict[Any, list[str]]] = {}
        for cell in self.cells:
            if not cell.was_run:
                by_reason.setdefault(cell.reason, {}).setdefault(cell.row, []).append(cell.column)
        return {reason: self._where(rows) for reason, rows in by_reason.items()}

    def _where(self, rows: dict[Any, list[str]]) -> str:
        """Rows with the same columns missing are named together; whole rows without columns."""
        alike: dict[tuple[str, ...], list[str]] = {}
        for row, columns in rows.items():
            whole = len(columns) == sum((row, column) in self.grid for column in self.columns)
            name = f"“{row}”" if "," in str(row) else str(row)
            alike.setdefault(() if whole else tuple(columns), []).append(name)
        if list(alike) == [()] and len(alike[()]) == len(self.rows):
            return "every cell"
        return "; ".join(
            ", ".join(names) + (f" ({', '.join(columns)})" if columns else "")
            for columns, names in alike.items()
        )


def read_tables(tables: Iterable[Mapping[str, Any]], tolerance: Tolerance) -> list[Table]:
    """The tables of a report from plain dictionaries, judged by `tolerance`.

    A table's or a cell's own ``"tolerance"`` replaces the points of the rule; None there means
    that the values are shown but not compared (times on another machine). A cell's own
    ``"higher_is_better"`` replaces its table's. Raises ValueError for a kind or a status that does
    not exist, two cells at one place, or two tables of one name.

    A cell with ``"exact": True`` is the printed number or another one; neither is better.
    """
    read: list[Table] = []
    anchors: set[str] = set()
    for given in tables:
        name = str(given["name"])
        if name in {table.name for table in read}:
            raise ValueError(f"tables have different names, however: two are called {name!r}")
        kind = given.get("kind") or "table"
        if kind not in _KINDS:
            raise ValueError(f"a table's kind is one of {_KINDS}, however: {name!r} has {kind!r}")
        anchor = _anchor(name, anchors)
        anchors.add(anchor)
        higher = bool(given.get("higher_is_better", True))
        points = given.get("tolerance", tolerance.points)
        texts = {key: str(given.get(key) or "") for key in _TEXTS}
        read.append(
            Table(
                name=name,
                **texts | {"title": texts["title"] or name},
                kind=kind,
                higher_is_better=higher,
                tolerance=points,
                cells=[
                    _read_cell(cell, name, points, higher, tolerance.deviations)
                    for cell in given.get("cells") or []
                ],
                statistics=given.get("statistics") or {},
                anchor=anchor,
            )
        )
    return read


def _read_cell(
    given: Mapping[str, Any], table: str, points: float | None, higher: bool, deviations: float
) -> Cell:
    status = given.get("status")
    if status is not None and status not in STATUSES:
        raise ValueError(
            f"a cell's status is one of {STATUSES} or None, however: {status!r} in table {table!r}"
        )
    values: dict[str, Any] = {key: _number(given.get(key)) for key in _VALUES}
    reported, measured = values["reported"], values["measured"]
    if measured is not None:
        outcome = "run"
    elif status == "ok":
        # A run that ended without a number, or with NaN, is no result.
        outcome = "failed"
    else:
        outcome = status or "not run"
    agreement, excess = Agreement.UNCOMPARED, None
    points = given.get("tolerance", points)
    comparable = measured is not None and isinstance(reported, float)
    if comparable and points is not None:
        rule = Tolerance(points, deviations)
        better = bool(given.get("higher_is_better", higher))
        spread = values["reported_std"], values["measured_std"]
        agreement = rule.judge(reported, measured, *spread, higher_is_better=better)
        if given.get("exact") and agreement is not Agreement.AGREES:
            agreement = Agreement.DIFFERS
        excess = rule.excess(reported, measured, *spread) * (1 if better else -1)
    n = given.get("n")
    return Cell(
        row=given["row"],
        column=str(given["column"]),
        **values,
        n=None if n is None else int(n),
        outcome=outcome,
        note=" ".join(str(given.get("note") or "").split()),
        agreement=agreement,
        excess=excess,
    )


_TEXTS = ("title", "finding", "verdict", "protocol", "x_label", "y_label")
_VALUES = ("reported", "reported_std", "measured", "measured_std")


def _number(value: Any) -> float | str | None:
    """A finite number, a text, or None: a page has no place for NaN."""
    if value is None or isinstance(value, str):
        return value
    value = float(value)
    return value if math.isfinite(value) else None


def _anchor(name: str, taken: set[str]) -> str:
    """A name for links and files, of letters, digits and hyphens, unlike the others."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in name.lower()).split()
    plain = "-".join(words) or "table"
    anchor, count = plain, 1
    while anchor in taken or anchor in _SECTIONS:
        count += 1
        anchor = f"{plain}-{count}"
    return anchor


# Anchors of the page's own sections.
_SECTIONS = {"summary", "contents", "environment", "missing"}
