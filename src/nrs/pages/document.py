"""What all pages share: a document that holds everything it needs, and places for figures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from nrs.pages.html import Html, script_json, tag

# The browser itself refuses every request the page might make.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)


def draw_document(
    title: str, header: Html, main: Html, *styles: str, library: str | None = None
) -> Html:
    """A whole page: style and scripts inside, no request to make.

    `main` has an element with the id ``summary``, to skip to; `styles` are further style sheets
    among the package's assets; `library` is the source of plotly.js, for :func:`draw_plots`.
    """
    head = tag(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("title", title),
        *(tag("style", Html(_asset(name))) for name in ("report.css", *styles)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the summary", href="#summary", class_="skip"),
        header,
        main,
        *([] if library is None else [tag("script", Html(library))]),
        tag("script", Html(_asset("report.js"))),
    )
    return Html(f'<!doctype html>\n<html lang="en">\n{head}\n{body}\n</html>\n')


def _asset(name: str) -> str:
    return resources.files("nrs.pages").joinpath("assets", name).read_text("utf-8")


def draw_plots(
    anchor: str, panels: Sequence[dict[str, Any]], description: str, caption: str
) -> Html:
    """Places for the panels of a figure, and the panels as data for the page's script."""
    drawn = []
    for i, panel in enumerate(panels, start=1):
        place = f"{anchor}-plot-{i}"
        title = panel["layout"].get("title", {}).get("text", "")
        label = description + (f", panel {i}" if title else "")
        height = f"min-height: {panel['layout']['height']}px"
        drawn += [
            tag("div", id=place, class_="plot", role="img", aria_label=label, style=height),
            tag("script", script_json(panel), type="application/json", data_plot=place),
        ]
    return tag("figure", tag("div", *drawn, class_="panels"), tag("figcaption", caption))
