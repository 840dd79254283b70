"""The paper's tables beside what was measured, as one HTML page and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nrs._util.atomic import atomic_write
from nrs.pages.agreement import Tolerance
from nrs.pages.document import draw_document, draw_plots
from nrs.pages.figures import EDGE, draw_overview, draw_panels, plotly_js
from nrs.pages.html import Html, join, tag
from nrs.pages.markdown import write_markdown
from nrs.pages.pictures import draw_figure
from nrs.pages.ranks import lay_out, tied_groups, to_png
from nrs.pages.sections import draw_contents, draw_environment, draw_missing, draw_summary
from nrs.pages.table_html import draw_cells, draw_statistics
from nrs.pages.tables import Table, read_tables

TITLE = "Neural Random Subspace: the paper's tables, reported and measured"


def write_report(
    tables: Sequence[Mapping[str, Any]],
    out_dir: str | os.PathLike[str],
    *,
    environment: Mapping[str, Any] | None = None,
    tolerance: Tolerance | None = None,
    lead: str = "",
) -> Path:
    """Write ``index.html``, ``report.md`` and the pictures the latter shows into a folder.

    The page holds everything it needs and makes no request; its figures are drawn by plotly.js.

    Parameters
    ----------
    tables : a dictionary a table or figure: name, title, finding, verdict, protocol, kind
        ("table" or "figure"), x_label, y_label, higher_is_better, statistics and cells. A cell
        is a dictionary of row, column, reported, reported_std, measured, measured_std, n, status
        ("ok", "failed", "timeout", "not run" or None) and note. In a figure the row is the x
        value and the column the series. A table or a cell may carry its own "tolerance" in
        points (None: shown, not compared), a cell its own "higher_is_better" or "exact".
    out_dir : the folder; made if it does not exist.
    environment : versions, commit and facts about the machine; values or dictionaries of values.
    tolerance : when a measured value agrees with a reported one.
    lead : sentences for the top of the page, in place of how many cells agree.

    Returns
    -------
    The path of ``index.html``.

    Raises
    ------
    ImportError
        Without plotly or matplotlib; the extra ``plots`` installs both.
    ValueError
        For a kind or status that does not exist, and for cells or tables that are there twice.

    Examples
    --------
    >>> import tempfile
    >>> cell = {"row": "letter", "column": "NRS", "reported": 97.85, "measured": 97.92, "n": 5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report([{"name": "accuracy", "cells": [cell]}], folder)
    ...     page.name, "97.92 ✓ (97.85)" in page.with_name("report.md").read_text("utf-8")
    ('index.html', True)
    """
    tolerance = tolerance or Tolerance()
    read = read_tables(tables, tolerance)
    page = draw_page(read, environment, tolerance, lead)
    pictures = {table.name: _pictures(table) for table in read}
    folder = Path(out_dir)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for name, _, content in (picture for found in pictures.values() for picture in found):
        _write(folder / "images" / name, content)
    links = {
        table: [(words, f"images/{name}") for name, words, _ in found]
        for table, found in pictures.items()
    }
    markdown = write_markdown(read, environment, tolerance, TITLE, links, lead)
    _write(folder / "report.md", markdown.encode())
    _write(folder / "index.html", page.encode())
    return folder / "index.html"


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


def _pictures(table: Table) -> list[tuple[str, str, bytes]]:
    """File name, description and content of a table's pictures."""
    found = []
    if table.kind == "figure" and table.cells:
        words = f"{table.title}: reported (open, dashed) and measured (filled, solid)"
        found.append((f"{table.anchor}.png", words, draw_figure(table)))
    ranks = table.statistics.get("average_ranks") or {}
    if len(ranks) > 1:
        diagram = lay_out(ranks, tied_groups(ranks, table.statistics))
        words = f"{table.title}: critical-difference diagram"
        found.append((f"{table.anchor}-ranks.png", words, to_png(diagram)))
    return found


def draw_page(
    tables: Sequence[Table],
    environment: Mapping[str, Any] | None,
    tolerance: Tolerance,
    lead: str = "",
) -> Html:
    """The whole page as one piece of HTML."""
    main = tag(
        "main",
        draw_summary(tables, tolerance, lead),
        _overview(tables),
        draw_contents(tables),
        *(_section(table, tolerance) for table in tables),
        draw_missing(tables),
        draw_environment(environment),
    )
    header = tag("header", tag("h1", "Neural Random Subspace"), tag("p", _SUBTITLE))
    return draw_document(TITLE, header, main, library=plotly_js())


_SUBTITLE = "The paper's tables: reported beside measured"


def _overview(tables: Sequence[Table]) -> Html:
    if not any(table.counts.compared for table in tables):
        return Html("")
    caption = (
        "Every compared cell. Inside the band it agrees; right of it the measured value is better "
        f"than the paper's, left of it worse. Cells beyond {EDGE:g} stand at the edge."
    )
    words = "Difference from the paper by table"
    plots = draw_plots("overview", [draw_overview(tables)], words, caption)
    return tag("section", tag("h2", "At a glance"), plots)


def _section(table: Table, tolerance: Tolerance) -> Html:
    """A table with what the paper says about it and whether that holds."""
    parts = [tag("h2", table.title)]
    claims = [
        tag("dt", word) + tag("dd", text)
        for word, text in (("The paper", table.finding), ("Here", table.verdict))
        if text
    ]
    if claims:
        parts.append(tag("dl", Html("".join(claims)), class_="claims"))
    if table.tolerance is None:
        parts.append(tag("p", "Values are shown side by side, not compared.", class_="quiet"))
    elif table.tolerance != tolerance.points:
        parts.append(tag("p", f"Allowed difference here: {table.tolerance:g}.", class_="quiet"))
    if table.protocol:
        lines = [tag("p", line) for line in table.protocol.splitlines() if line.strip()]
        parts.append(tag("details", tag("summary", "Protocol"), *lines))
    if table.kind == "figure" and table.cells:
        caption = "Filled and solid: measured. Open and dashed: the paper. Bars: one std."
        parts.append(draw_plots(table.anchor, draw_panels(table), table.title, caption))
        parts.append(
            tag("details", tag("summary", "The numbers"), draw_cells(table), draw_statistics(table))
        )
    else:
        parts += [draw_cells(table), draw_statistics(table)]
    parts.append(tag("p", tag("a", "↑ Contents", href="#contents"), class_="back"))
    return tag("section", join(parts), id=table.anchor)
