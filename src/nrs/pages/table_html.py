"""A table of the paper as HTML: reported beside measured, agreement by colour and by symbol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nrs.pages.html import Html, header_row, join, scrollable, tag
from nrs.pages.numbers import column_decimals, mean_and_std, p_value
from nrs.pages.ranks import lay_out, tied_groups, to_svg
from nrs.pages.tables import Cell, Table

# A table with more rows than this gets a box to search them.
LONG = 10


def draw_cells(table: Table) -> Html:
    """The table itself with its search box, its foot and its notes."""
    if not table.cells:
        return tag("p", "This table has no cells.", class_="quiet")
    heading = f"{table.anchor}-caption"
    head = header_row((table.x_label or "", *table.columns))
    decimals = column_decimals(table)
    body = tag("tbody", join([_row(table, row, decimals) for row in table.rows]))
    caption = tag("caption", f"{table.title}: measured, and below it the paper", id=heading)
    grid = tag("table", caption, head, body, _foot(table), class_="cells", id=f"{table.anchor}-t")
    return join([_search(table), scrollable(grid, aria_labelledby=heading), _notes(table)])


def _row(table: Table, row: Any, decimals: Mapping[str, int]) -> Html:
    cells = [table.grid.get((row, column)) for column in table.columns]
    drawn = [
        tag("td", class_="absent") if cell is None else _cell(table, cell, decimals[cell.column])
        for cell in cells
    ]
    ran = any(cell is not None and cell.was_run for cell in cells)
    return tag("tr", tag("th", row, scope="row"), *drawn, data_run="1" if ran else "0")


def _cell(table: Table, cell: Cell, decimals: int) -> Html:
    mark = Html("")
    if cell.reason:
        number = table.notes[cell.reason]
        mark = tag("sup", tag("a", number, href=f"#{table.anchor}-note-{number}"))
    if cell.measured is not None:
        symbol = Html("")
        if cell.agreement.symbol:
            symbol = Html(
                tag("span", cell.agreement.symbol, class_="symbol", aria_hidden="true")
                + tag("span", f"({cell.agreement.meaning})", class_="spoken")
            )
        first = Html(_value(cell.measured, cell.measured_std, decimals) + symbol + mark)
        style = cell.agreement.label
    else:
        first = Html(tag("span", cell.outcome, class_="outcome") + mark)
        style = "missing" if cell.outcome == "not run" else "missing broken"
    second = (
        tag("span", "paper: ", class_="spoken") + _value(cell.reported, cell.reported_std, decimals)
        if cell.reported is not None
        else tag("span", "not in the paper", class_="nothing")
    )
    return tag(
        "td",
        tag("div", first, class_="measured"),
        tag("div", Html(second), class_="reported"),
        class_=style,
        title=_title(cell, decimals),
    )


def _value(mean: float | str, std: float | None, decimals: int) -> Html:
    text, _, spread = mean_and_std(mean, std, decimals).partition(" ± ")
    return Html(tag("b", text) + (tag("i", f"±{spread}") if spread else ""))


def _title(cell: Cell, decimals: int) -> str:
    """What a pointer at the cell reads."""
    lines = [f"{cell.row}, {cell.column}"]
    if cell.measured is not None:
        trials = "" if cell.n is None else f" ({cell.n} trial{'s' if cell.n != 1 else ''})"
        measured = mean_and_std(cell.measured, cell.measured_std, decimals)
        lines.append(f"measured {measured}{trials}: {cell.agreement.meaning}")
    if cell.reported is not None:
        lines.append(f"paper {mean_and_std(cell.reported, cell.reported_std, decimals)}")
    if cell.reason:
        lines.append(cell.reason)
    return "\n".join(lines)


def _foot(table: Table) -> Html:
    rows = [
        tag("tr", tag("th", label, scope="row"), *(tag("td", text) for text in texts))
        for label, texts in foot_rows(table)
    ]
    return tag("tfoot", *rows) if rows else Html("")


def foot_rows(table: Table) -> Iterator[tuple[str, list[str]]]:
    """Win/tie/lose and average ranks below the columns they belong to, each with its label."""
    for label, key, write in (
        ("win / tie / lose", "win_tie_lose", _counts),
        ("average rank", "average_ranks", lambda rank: f"{rank:.2f}"),
    ):
        values = table.statistics.get(key) or {}
        if any(column in values for column in table.columns):
            yield label, [write(values[c]) if c in values else "–" for c in table.columns]


def _counts(result: Sequence[float]) -> str:
    return " / ".join(str(int(count)) for count in result)


def _search(table: Table) -> Html:
    if len(table.rows) <= LONG:
        return Html("")
    name = f"{table.anchor}-t"
    field = Html(f'<input type="search" data-filter="{name}" placeholder="name or note">')
    box = Html(f'<input type="checkbox" data-run-only="{name}">')
    shown = tag("output", f"{len(table.rows)} rows", aria_live="polite")
    labels = tag("label", "Find rows ", field), tag("label", box, " only rows that were run")
    return tag("div", *labels, shown, class_="search")


def _notes(table: Table) -> Html:
    if not table.notes:
        return Html("")
    anchor = f"{table.anchor}-note"
    items = [tag("li", note, id=f"{anchor}-{number}") for note, number in table.notes.items()]
    return tag("ol", *items, class_="notes", aria_label=f"Notes to {table.title}")


def win_tie_lose_sentence(statistics: Mapping[str, Any]) -> str:
    """Whose wins are counted, for a table that has them."""
    if not statistics.get("win_tie_lose"):
        return ""
    name = statistics.get("reference", "NRS")
    return (
        f"Win / tie / lose counts how often {name} is significantly better than, level with or "
        "worse than the method of the column (pairwise t-tests at 95 %), as measured here."
    )


def ranks_sentence(statistics: Mapping[str, Any]) -> str:
    """What the bars of the critical-difference diagram mean."""
    text = "Methods joined by a bar do not differ significantly"
    if statistics.get("wilcoxon_holm"):
        text += " (Wilcoxon signed-rank tests with Holm's correction, 5 %)."
    elif statistics.get("scores"):
        text += " (Nemenyi's critical difference, 5 %)."
    else:
        text = "Average ranks as measured."
    counts = {len(values) for values in (statistics.get("scores") or {}).values()}
    if len(counts) == 1:
        text += f" Ranks over {counts.pop()} data sets."
    if statistics.get("friedman_p") is not None:
        text += f" Friedman's test of no difference at all: p {_equals(statistics['friedman_p'])}."
    return text


def _equals(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def draw_statistics(table: Table) -> Html:
    """The critical-difference diagram and the p-values behind it."""
    statistics = table.statistics
    parts = []
    if sentence := win_tie_lose_sentence(statistics):
        parts.append(tag("p", sentence, class_="quiet"))
    ranks = statistics.get("average_ranks") or {}
    if len(ranks) > 1:
        described = "Average ranks: " + ", ".join(
            f"{name} {ranks[name]:.2f}" for name in sorted(ranks, key=lambda n: ranks[n])
        )
        svg = to_svg(lay_out(ranks, tied_groups(ranks, statistics)), described)
        caption = tag("figcaption", ranks_sentence(statistics))
        parts += [tag("h3", "Critical differences"), tag("figure", svg, caption)]
    if pairs := statistics.get("wilcoxon_holm"):
        rows = [
            tag("tr", tag("td", a), tag("td", b), tag("td", "–" if p is None else p_value(p)))
            for a, b, p in pairs
        ]
        head = header_row(("method", "method", "p"))
        caption = tag("caption", "Holm-corrected p-values of the Wilcoxon signed-rank tests")
        grid = tag("table", caption, head, tag("tbody", *rows), class_="plain")
        summary = tag("summary", "p-values of every pair")
        parts.append(tag("details", summary, tag("div", grid, class_="wide")))
    return join(parts)
