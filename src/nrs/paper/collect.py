"""From result files to numbers on a page: one entry a printed cell, trials aggregated."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from nrs.paper.registry import find_table, tables
from nrs.paper.results import Results
from nrs.paper.statistics import (
    Comparison,
    Sample,
    compare,
    critical_difference_of,
    rank_statistics,
    sample,
    win_tie_lose,
)
from nrs.paper.table import Cell, Printed, Table

# Trials beyond the table's own number count too, up to so many.
_MAX_TRIALS = 100
# Half a unit of the last printed digit: more is another number.
EXACT = 0.005 + 1e-9
# The paper's trials, and its folds where it cross-validates.
_PAPER_TRIALS, _PAPER_FOLDS = 5, 10
RULE = (
    "A cell is level with the paper's (✓) unless Student's t-test at 95 %, the paper's own, finds "
    "a difference between the trials here and the printed mean and deviation of 5 trials (10 "
    "folds on yeast); beyond 2 times the smallest such difference it is far off. Cells of a "
    "single trial and printed values without a deviation are shown, not tested. Counts are the "
    "printed number to its last digit, or another one (≠)."
)


def entries(
    table: str | Table, results: str | os.PathLike[str] = "results"
) -> list[dict[str, Any]]:
    """Give the cells of a table, reported beside measured.

    Parameters
    ----------
    results : folder of the results; it need not exist.

    Returns
    -------
    list of dict
        One for each printed cell, and for each other reading of a dataset that was measured:
        ``table, row, column, metric, reported, reported_std, measured, measured_std, n, status,
        note, in_paper, comparable``. ``measured`` is the mean of ``n`` trials (or folds);
        ``status`` is ``"ok"`` if any trial succeeded, else ``"failed"``, ``"timeout"`` or
        ``"not run"``; what is absent is None.

    Examples
    --------
    >>> first = entries("accuracy", results="no-such-folder")[0]
    >>> first["row"], first["column"], first["reported"], first["measured"], first["status"]
    ('satimage', 'NRS', 91.52, None, 'not run')
    """
    found = table if isinstance(table, Table) else find_table(table)
    folder = Results(results)
    notes = read_remarks(results).get(found.name, {}).get("notes", {})
    shown = []
    for printed in found.printed:
        records = _records(found, printed, folder)
        if printed.extra and not records:
            continue
        remark = notes.get(f"{printed.row} / {printed.column}") or notes.get(printed.row, "")
        shown.append(_entry(found, printed, records, remark))
    return shown


def collect(
    results: str | os.PathLike[str] = "results", names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Give everything a report shows of each table; by default of all but ``"smoke"``.

    One dictionary per table: ``name, title, finding, verdict, protocol, kind, x_label, y_label,
    x_values, cells, statistics``; ``cells`` as `entries` gives them, with what the page needs to
    score them.
    """
    wanted = [name for name in tables() if name != "smoke"] if names is None else names
    remarks = read_remarks(results)
    pages = []
    for name in wanted:
        table = find_table(name)
        cells = entries(table, results)
        facts = ("name", "title", "finding", "protocol", "kind")
        pages.append(
            {name: getattr(table, name) for name in facts}
            | {
                "verdict": remarks.get(table.name, {}).get("verdict"),
                "x_label": table.x_label or None,
                "y_label": table.y_label or None,
                "x_values": list(table.x_values) or None,
                "cells": [_page_cell(table, cell) for cell in cells],
                "statistics": statistics_of(table, cells),
            }
        )
    return pages


def read_remarks(results: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what people wrote about the results, from ``<results>/paper/remarks.json``.

    By table: ``{"verdict": "whether the finding holds", "notes": {"<row>": "…"}}``; a note may
    also be for one cell, ``"<row> / <column>"``. Raises ValueError if it is not JSON of that kind.
    """
    path = Results(results).root / "remarks.json"
    try:
        remarks = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path} must be a JSON file, however: {error}") from None
    if not isinstance(remarks, dict) or not all(isinstance(r, dict) for r in remarks.values()):
        raise ValueError(f"{path} must hold an object a table, however: it does not")
    return remarks


def _page_cell(table: Table, cell: dict[str, Any]) -> dict[str, Any]:
    """An entry as the page wants it: whether to compare, which way is better, x as a number."""
    places = {str(value): value for value in table.x_values}
    further: dict[str, Any] = {
        "row": places.get(cell["row"], cell["row"]),
        "higher_is_better": cell["metric"] not in table.lower_is_better,
    }
    exact = {(p.row, p.column) for p in table.printed if p.exact}
    if not cell["comparable"]:
        further["tolerance"] = None
    elif (cell["row"], cell["column"]) in exact:
        further |= {"tolerance": EXACT, "exact": True}
    else:
        further["tolerance"] = _allowed(table, cell)
    return cell | further


def _allowed(table: Table, cell: dict[str, Any]) -> float | None:
    """The largest difference from the paper's value that the t-test lets pass."""
    pair = _here_and_there(table, cell)
    allowed = None if pair is None else critical_difference_of(*pair)
    # Two forests without any spread differ by what rounding hides.
    return None if allowed is None else max(allowed, EXACT)


def _here_and_there(table: Table, cell: dict[str, Any]) -> tuple[Sample, Sample] | None:
    """The trials of a cell as measured and as printed; None if one is absent."""
    if cell["measured"] is None or not isinstance(cell["reported"], float):
        return None
    folds = cell["row"] in table.single_trial
    return _sample(cell, "measured", folds=folds), _sample(cell, "reported", folds=folds)


def against_paper(table: Table, cell: dict[str, Any]) -> str | None:
    """Whether a measured value is ``"level"`` with the paper's, ``"above"`` or ``"below"`` it.

    By the paper's t-test; None where it says nothing, for want of trials or of a printed value of
    the same thing. Of errors, above means a smaller one.
    """
    pair = _here_and_there(table, cell) if cell["comparable"] else None
    lower = cell["metric"] in table.lower_is_better
    outcome = None if pair is None else compare(*pair, lower_is_better=lower)
    if pair is None or outcome is None:
        return None
    same = abs(pair[0].mean - pair[1].mean) <= EXACT
    return "level" if same else _PLACES[outcome.outcome]


_PLACES = {"win": "above", "tie": "level", "lose": "below"}


def statistics_of(table: Table, cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The paper's t-tests against the reference column, and ranks; empty where none apply.

    ``reference, marks, win_tie_lose, average_ranks, friedman_p, critical_difference,
    wilcoxon_holm`` (triples of two methods and the adjusted p), ``scores`` (by method, on the
    datasets that all have) of what was measured; under ``"reported"`` the same of the paper.
    """
    if table.reference is None:
        return {}
    measured = _statistics(table, cells, "measured")
    return measured | {"reported": _statistics(table, cells, "reported")}


def _statistics(table: Table, cells: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    if kind == "reported":
        # Another reading of a dataset repeats the paper's value.
        cells = [cell for cell in cells if cell["in_paper"]]
    marks = _marks(table, cells, kind)
    # Other readings and parts of a set have marks, but the paper's rows are what is counted.
    counted = {(cell["row"], cell["column"]) for cell in cells if cell["in_paper"]}
    outcomes: dict[str, list[str]] = {}
    for mark in marks:
        if (mark["row"], mark["column"]) in counted:
            outcomes.setdefault(mark["column"], []).append(mark["outcome"])
    counts = {column: list(win_tie_lose(found)) for column, found in outcomes.items()}
    found: dict[str, Any] = {"reference": table.reference, "marks": marks, "win_tie_lose": counts}
    return found | (rank_statistics(scores_of(table, cells, kind)) or {})


def scores_of(
    table: Table, cells: Sequence[dict[str, Any]], kind: str = "measured"
) -> dict[str, dict[str, float]]:
    """Scores by column, then by row, of the paper's classification rows, for the ranks."""
    scores: dict[str, dict[str, float]] = {}
    for cell in cells:
        higher = cell["metric"] not in table.lower_is_better
        if cell[kind] is not None and higher and cell["in_paper"]:
            scores.setdefault(cell["column"], {})[cell["row"]] = cell[kind]
    # A method with few rows would leave few datasets that all have.
    most = max((len(rows) for rows in scores.values()), default=0)
    return {column: rows for column, rows in scores.items() if 2 * len(rows) >= most}


def _records(table: Table, printed: Printed, folder: Results) -> list[dict[str, Any]]:
    """The results of a subject's trials that are there."""
    parent = folder.path(Cell(printed.subject, 0)).parent
    if not parent.is_dir():
        return []
    single = printed.subject.dataset in table.single_trial
    seeds = range(1 if single else _MAX_TRIALS)
    records = [folder.read(Cell(printed.subject, seed)) for seed in seeds]
    return [record for record in records if record is not None]


def _entry(
    table: Table, printed: Printed, records: list[dict[str, Any]], remark: str
) -> dict[str, Any]:
    good = [record for record in records if record["status"] == "ok"]
    values = [value for record in good for value in _values(record, printed.metric)]
    measured = sample(values) if values else None
    notes = (printed.note, remark, _fewer(table, printed, len(values)), _trouble(records))
    return {
        "table": table.name,
        "row": printed.row,
        "column": printed.column,
        "metric": printed.metric,
        "reported": printed.reported,
        "reported_std": printed.reported_std,
        "measured": None if measured is None else measured.mean,
        "measured_std": None if measured is None else measured.std,
        "n": len(values),
        "status": _status(records, values),
        "note": "; ".join(note for note in notes if note) or None,
        "in_paper": not printed.extra,
        "comparable": printed.comparable,
    }


def _values(record: dict[str, Any], metric: str) -> list[float]:
    """The numbers of a result: one, or one a fold."""
    if metric in record.get("parts", {}):
        return list(record["parts"][metric])
    if metric == "model_mb":
        size = record.get("model_bytes")
        return [] if size is None else [size / 1e6]
    for group in ("metrics", "times"):
        value = record.get(group, {}).get(metric)
        if value is not None:
            return [float(value)]
    return []


def _status(records: list[dict[str, Any]], values: list[float]) -> str:
    if values:
        return "ok"
    statuses = {record["status"] for record in records}
    return next((one for one in ("failed", "timeout") if one in statuses), "not run")


def _fewer(table: Table, printed: Printed, n: int) -> str:
    """How many trials there are, where the table has more."""
    if not 0 < n < len(table.seeds(printed.subject)):
        return ""
    return "1 trial" if n == 1 else f"{n} trials"


def _trouble(records: list[dict[str, Any]]) -> str:
    """What went wrong in some trials, in a line."""
    bad = [record for record in records if record["status"] != "ok"]
    if not bad:
        return ""
    counts = Counter(record["status"] for record in bad)
    kinds = ", ".join(f"{count} of {len(records)} {status}" for status, count in counts.items())
    error = str(bad[0].get("error") or "").strip()
    return f"{kinds}: {error.splitlines()[0]}" if error else kinds


def _marks(table: Table, cells: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    reference = {c["row"]: c for c in cells if c["column"] == table.reference}
    marks = []
    for cell in cells:
        other = reference.get(cell["row"])
        if other is None or cell is other or cell["metric"] in table.lower_is_better:
            continue
        comparison = _compare(other, cell, kind, cell["row"] in table.single_trial)
        if comparison is not None:
            place = {"row": cell["row"], "column": cell["column"]}
            marks.append(place | vars(comparison) | {"mark": comparison.mark})
    return marks


def _compare(
    first: dict[str, Any], second: dict[str, Any], kind: str, folds: bool
) -> Comparison | None:
    if first[kind] is None or second[kind] is None:
        return None
    return compare(_sample(first, kind, folds=folds), _sample(second, kind, folds=folds))


def _sample(cell: dict[str, Any], kind: str, *, folds: bool) -> Sample:
    """The trials of a cell as measured, or as the paper reports them."""
    printed = _PAPER_FOLDS if folds else _PAPER_TRIALS
    return Sample(cell[kind], cell[f"{kind}_std"], cell["n"] if kind == "measured" else printed)
