"""The report as Markdown, with pictures instead of interactive figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nrs.pages.agreement import Agreement, Tolerance
from nrs.pages.numbers import column_decimals, mean_and_std
from nrs.pages.sections import environment_groups, headline, in_short, total
from nrs.pages.table_html import foot_rows, ranks_sentence, win_tie_lose_sentence
from nrs.pages.tables import Cell, Table


def escape(text: object) -> str:
    r"""Text in which Markdown and HTML find no marks.

    Examples
    --------
    >>> escape("a|b <c> *d*")
    'a\\|b \\<c\\> \\*d\\*'
    """
    line = " ".join(str(text).split())
    return re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", line.replace("&", "&amp;"))


def write_markdown(
    tables: Sequence[Table],
    environment: Mapping[str, Any] | None,
    tolerance: Tolerance,
    title: str,
    images: Mapping[str, Sequence[tuple[str, str]]],
    lead: str = "",
) -> str:
    """The whole report; `images` gives the pictures of each table as (description, address).

    Every row of a table has an anchor, ``<table>-<row>``, so that a sentence can link to it.
    """
    legend = ", ".join(f"{one.symbol} {one.meaning}" for one in Agreement if one.symbol)
    blocks = [
        f"# {escape(title)}",
        escape(headline(total(tables), lead)),
        f"{escape(tolerance.sentence())} A cell reads: measured, symbol, (paper). {legend}.",
        _grid(_COUNTS, [[f"[{escape(t.title)}](#{t.anchor})", *_counts(t)] for t in tables]),
    ]
    for table in tables:
        blocks += _table(table, images.get(table.name, ()))
    blocks += ["## What was not run, and why", *_missing(tables)]
    blocks += ["## Environment", *_environment(environment)]
    return "\n\n".join(block for block in blocks if block) + "\n"


_COUNTS = [
    "table", "cells", "run", "agree", "better", "worse", "other number", "failed", "time limit",
    "not run",
]  # fmt: skip


def _counts(table: Table) -> list[str]:
    c = table.counts
    outcomes = [c.agree, c.better, c.worse, c.differ, c.failed, c.timeout, c.not_run]
    return [str(number) for number in (c.total, c.run, *outcomes)]


def _table(table: Table, images: Sequence[tuple[str, str]]) -> list[str]:
    blocks = [f'<a id="{table.anchor}"></a>', f"## {escape(table.title)}"]
    if table.finding:
        blocks.append(f"**The paper:** {escape(table.finding)}")
    if table.verdict:
        blocks.append(f"**Here:** {escape(table.verdict)}")
    blocks.append(f"Cells: {escape(in_short(table.counts))}.")
    if table.protocol:
        blocks.append(f"**Protocol:** {escape(table.protocol)}")
    if table.kind == "figure" and table.cells:
        blocks.append("Filled and solid: measured. Open and dashed: the paper. Bars: one std.")
    blocks += [f"![{escape(words)}]({address})" for words, address in images]
    if table.cells:
        blocks.append(_cells(table))
    if sentence := win_tie_lose_sentence(table.statistics):
        blocks.append(escape(sentence))
    if table.statistics.get("average_ranks"):
        blocks.append(escape(ranks_sentence(table.statistics)))
    if table.notes:
        blocks.append("\n".join(f"{i}. {escape(note)}" for note, i in table.notes.items()))
    return blocks


def _cells(table: Table) -> str:
    decimals = column_decimals(table)
    rows = []
    for row in table.rows:
        cells = [table.grid.get((row, column)) for column in table.columns]
        texts = ["" if c is None else write_cell(c, decimals[c.column], table) for c in cells]
        anchor = f'<a id="{row_anchor(table.anchor, row)}"></a>'
        rows.append([anchor + escape(row), *texts])
    rows += [[f"**{label}**", *texts] for label, texts in foot_rows(table)]
    return _grid([escape(table.x_label), *map(escape, table.columns)], rows)


def row_anchor(table: str, row: object) -> str:
    """The anchor of a row.

    Examples
    --------
    >>> row_anchor("cub100", "frozen / GAP+NRS")
    'cub100-frozen-gap-nrs'
    >>> row_anchor("modelnet40", "PointNet++"), row_anchor("modelnet40", "PointNet+++NRS")
    ('modelnet40-pointnet-pp', 'modelnet40-pointnet-pp-nrs')
    """
    words = re.findall(r"[a-z0-9]+", str(row).lower().replace("+++", "-pp-").replace("++", "-pp-"))
    return "-".join([table, *words])


def write_cell(cell: Cell, decimals: int, table: Table) -> str:
    """A cell as text: measured, symbol, the paper's value in brackets, the number of its note."""
    text = cell.outcome
    if cell.measured is not None:
        text = mean_and_std(cell.measured, cell.measured_std, decimals)
        text += f" {cell.agreement.symbol}" if cell.agreement.symbol else ""
    if cell.reported is not None:
        text += f" ({mean_and_std(cell.reported, cell.reported_std, decimals)})"
    return text + (f" <sup>{table.notes[cell.reason]}</sup>" if cell.reason else "")


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _missing(tables: Sequence[Table]) -> list[str]:
    lines = []
    for table in tables:
        found = table.missing()
        lines += [f"- {escape(table.title)}"] if found else []
        lines += [f"  - **{escape(reason)}**: {escape(where)}" for reason, where in found.items()]
    return ["\n".join(lines)] if lines else ["Every cell of every table was run."]


def _environment(environment: Mapping[str, Any] | None) -> list[str]:
    groups = environment_groups(environment)
    if not groups:
        return ["No facts about the environment were recorded."]
    rows = [
        [escape(group), escape(name), escape(fact)]
        for group, facts in groups.items()
        for name, fact in facts
    ]
    return [_grid(["", "", ""], rows).replace("---:", "---")]
