"""The parts of the page around the tables: summary, contents, environment, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nrs.pages.agreement import Agreement, Tolerance
from nrs.pages.html import Html, facts_list, tag, tile
from nrs.pages.tables import Counts, Table


def total(tables: Sequence[Table]) -> Counts:
    """The counts of all tables together."""
    return sum((table.counts for table in tables), Counts())


def headline(counts: Counts, lead: str = "") -> str:
    """The report in a few sentences; `lead` stands in place of how many cells agree."""
    if not counts.run:
        return f"None of the {counts.total} cells has been run yet."
    text = f"{counts.run} of {counts.total} cells were run. "
    if lead:
        text += f"{lead} "
    elif counts.compared:
        text += (
            f"{counts.agree} of the {counts.compared} that can be compared agree with the paper"
            f" ({100 * counts.agree / counts.compared:.0f} %), {counts.better} are better and "
            f"{counts.worse} worse. "
        )
    else:
        text += "None of them can be compared with a value of the paper. "
    others = {
        "were not run": counts.not_run, "failed": counts.failed,
        "reached the time limit": counts.timeout,
    }  # fmt: skip
    rest = [f"{number} {words}" for words, number in others.items() if number]
    if not rest:
        return text + "Nothing is missing."
    listed = rest[0] if len(rest) == 1 else f"{', '.join(rest[:-1])} and {rest[-1]}"
    return text + f"Of the rest, {listed}."


def draw_summary(tables: Sequence[Table], tolerance: Tolerance, lead: str = "") -> Html:
    """The headline, a few large numbers and the legend."""
    counts = total(tables)
    share = f"{100 * counts.agree / counts.compared:.0f} %" if counts.compared else "–"
    compared = [
        tile(share, f"agree: {counts.agree} of {counts.compared} compared", "agrees"),
        tile(counts.better, "better than the paper", "better"),
        tile(counts.worse, "worse than the paper", "worse"),
    ]
    tiles = [
        tile(counts.run, f"of {counts.total} cells run"),
        # Cells of peers and of several tables are not a measure of the method: the lead has one.
        *([] if lead else compared),
        tile(counts.failed + counts.timeout, "failed or out of time", "missing"),
        tile(counts.not_run, "not run", "missing"),
    ]
    legend = [
        tag("li", tag("span", one.symbol, class_=f"swatch {one.label}"), f" {one.meaning}")
        for one in Agreement
        if one.symbol
    ]
    legend.append(tag("li", tag("span", "12", class_="swatch uncompared"), " not compared"))
    legend.append(tag("li", tag("span", "not run", class_="swatch missing"), " not run, or failed"))
    return tag(
        "section",
        tag("p", headline(counts, lead), class_="lead"),
        tag("ul", *tiles, class_="tiles"),
        tag("p", tolerance.sentence()),
        tag("ul", *legend, class_="legend", aria_label="Legend"),
        id="summary",
    )


def draw_contents(tables: Sequence[Table]) -> Html:
    """Links to every table, each with a bar of how its cells came out."""
    items = []
    for table in tables:
        link = tag("a", table.title, href=f"#{table.anchor}")
        words = tag("span", in_short(table.counts), class_="quiet")
        items.append(tag("li", link, _bar(table.counts), words))
    tail = [
        tag("li", tag("a", words, href=f"#{anchor}"))
        for words, anchor in (("What was not run", "missing"), ("Environment", "environment"))
    ]
    return tag(
        "nav",
        tag("h2", "Contents"),
        tag("ol", *items, class_="contents"),
        tag("ul", *tail, class_="contents tail"),
        id="contents",
        aria_label="Contents",
    )


def in_short(counts: Counts) -> str:
    """A table's counts in a few words."""
    if not counts.run:
        return f"none of {counts.total} run"
    text = f"{counts.run} of {counts.total} run"
    if counts.compared:
        text += f", {counts.agree} of {counts.compared} compared agree"
    return text


def _bar(counts: Counts) -> Html:
    numbers = {
        "agrees": counts.agree, "better": counts.better, "worse": counts.worse + counts.differ,
        "uncompared": counts.run - counts.compared, "missing": counts.total - counts.run,
    }  # fmt: skip
    parts = [
        tag("span", class_=style, style=f"flex-grow: {number}")
        for style, number in numbers.items()
        if number
    ]
    return tag("span", *parts, class_="bar", aria_hidden="true")


def draw_missing(tables: Sequence[Table]) -> Html:
    """Every cell without a measured value, grouped by the reason."""
    parts = []
    for table in tables:
        items = [
            tag("li", tag("strong", reason), f": {where}")
            for reason, where in table.missing().items()
        ]
        if items:
            link = tag("a", table.title, href=f"#{table.anchor}")
            number = f" – {table.counts.total - table.counts.run} of {table.counts.total} cells"
            parts += [tag("h3", link, tag("span", number, class_="quiet")), tag("ul", *items)]
    if not parts:
        parts = [tag("p", "Every cell of every table was run.")]
    return tag("section", tag("h2", "What was not run, and why"), *parts, id="missing")


def environment_groups(environment: Mapping[str, Any] | None) -> dict[str, list[tuple[str, str]]]:
    """Facts by group: those of nested mappings under their key, the rest under "run".

    Examples
    --------
    >>> environment_groups({"commit": "0c111cc", "versions": {"torch": "2.9"}})
    {'run': [('commit', '0c111cc')], 'versions': [('torch', '2.9')]}
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for key, value in (environment or {}).items():
        if isinstance(value, Mapping):
            groups[str(key)] = [(str(name), _fact(fact)) for name, fact in value.items()]
        else:
            groups.setdefault("run", []).append((str(key), _fact(value)))
    return groups


def _fact(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, (list, tuple, set)):
        return ", ".join(str(item) for item in value)
    return str(value)


def draw_environment(environment: Mapping[str, Any] | None) -> Html:
    """What the numbers were measured with."""
    groups = environment_groups(environment)
    if not groups:
        parts = [tag("p", "No facts about the environment were recorded.", class_="quiet")]
    else:
        parts = [
            tag("div", tag("h3", name.capitalize()), facts_list(facts))
            for name, facts in groups.items()
        ]
    grid = tag("div", *parts, class_="facts")
    return tag("section", tag("h2", "Environment"), grid, id="environment")
