"""A table of the paper on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nrs.cli.terminal import Grid, echo, terminal_width

if TYPE_CHECKING:
    from nrs.paper import Table


def print_table(table: Table, cells: Sequence[dict[str, Any]], *, every: bool) -> None:
    """Print reported values above measured ones, with the paper's marks where it compares."""
    from nrs.paper.collect import statistics_of

    found = statistics_of(table, cells)
    statistics = {"reported": found["reported"], "measured": found} if found else {}
    marks = {
        kind: {(mark["row"], mark["column"]): mark["mark"] for mark in part["marks"]}
        for kind, part in statistics.items()
    }
    tried = {cell["row"] for cell in cells if cell["n"] or cell["status"] != "not run"}
    kept = [cell for cell in cells if every or not tried or cell["row"] in tried]
    columns = list(dict.fromkeys(cell["column"] for cell in kept))
    by_place = {(cell["row"], cell["column"]): cell for cell in kept}
    # Deviations where there is room for them.
    wide = terminal_width() >= 20 + 15 * len(columns)
    grid = Grid(table.title, "reported above, measured below; – not run", boxed=True)
    grid.add_column("", min_width=max((len(cell["row"]) for cell in kept), default=0))
    for column in columns:
        grid.add_column(column, right=True)
    for row in dict.fromkeys(cell["row"] for cell in kept):
        texts: list[str | tuple[str, ...]] = []
        for column in columns:
            cell = by_place.get((row, column))
            if cell is None:
                texts.append("")
                continue
            above = _number(cell, "reported", wide) + marks.get("reported", {}).get(
                (row, column), ""
            )
            # Short, so that a table fits an ordinary terminal.
            status = "–" if cell["status"] == "not run" else cell["status"]
            below = _number(cell, "measured", wide) or status
            below += marks.get("measured", {}).get((row, column), "")
            texts.append((above, below))
        grid.add_row(row, *texts)
    grid.print()
    for kind, part in statistics.items():
        counts = "  ".join(
            f"{column} {'/'.join(map(str, count))}"
            for column, count in part["win_tie_lose"].items()
        )
        if counts:
            echo(f"win/tie/lose of {part['reference']}, {kind}: {counts}")
    for note in dict.fromkeys(f"{c['row']}: {c['note']}" for c in kept if c["note"] and c["n"]):
        echo(f"note  {note}")
    hidden = len({cell["row"] for cell in cells}) - len({cell["row"] for cell in kept})
    if hidden:
        echo(f"{hidden} rows without a measurement are not shown; --all shows them")


def _number(cell: dict[str, Any], kind: str, wide: bool) -> str:
    value, std = cell[kind], cell[f"{kind}_std"]
    if value is None or isinstance(value, str):
        return value or ""
    digits = 3 if cell["metric"].endswith("_s") and value < 1 else 2
    return f"{value:.{digits}f}" + ("" if std is None or not wide else f"±{std:.{digits}f}")
