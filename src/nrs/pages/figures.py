"""Figures as plotly's own description of them, to be drawn in the reader's browser.

The colours of axes and text are left to the page, which knows whether it is light or dark.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from typing import Any

from nrs._util.optional import import_optional
from nrs.pages.numbers import column_decimals, mean_and_std
from nrs.pages.series import COLOURS, Panel, Series, Value, panels_of, wrap_name
from nrs.pages.tables import Cell, Table

_SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"]
# Cells further than this many allowed differences stand at the edge of the overview.
EDGE = 6.0
_GOLDEN = 0.618034
# Up to this many names stand level below a phone's axis.
_FEW = 5


def plotly_js() -> str:
    """The source of plotly.js, from the installed package; raises ImportError without it."""
    return str(import_optional("plotly.offline", "the report", "plots").get_plotlyjs())


def draw_panels(table: Table) -> list[dict[str, Any]]:
    """The figure of a table, a description a panel.

    Reported values are open and dashed, measured ones filled and solid.
    """
    panels = panels_of(table)
    decimals = column_decimals(table)
    return [_draw_panel(table, panel, decimals, alone=len(panels) == 1) for panel in panels]


def _draw_panel(
    table: Table, panel: Panel, decimals: dict[str, int], alone: bool
) -> dict[str, Any]:
    names = panel.is_categorical
    xaxis: dict[str, Any] = {"title": {"text": plain(panel.x_label)}, "automargin": True}
    if names:
        order = [plain(name) for _, name in panel.ticks]
        wrapped = ["<br>".join(map(plain, wrap_name(name))) for _, name in panel.ticks]
        xaxis |= {"type": "category", "categoryorder": "array", "categoryarray": order}
        xaxis |= {"tickvals": order, "ticktext": wrapped}
        # A place for every name, also for those without a value.
        xaxis["range"] = [-0.5, len(order) - 0.5]
        if len(order) <= _FEW:
            xaxis["tickangle"] = 0
    else:
        xaxis |= {
            "type": "log" if panel.is_logarithmic else "linear",
            "tickvals": [x for x, _ in panel.ticks],
            "ticktext": [plain(name) for _, name in panel.ticks],
        }
    layout: dict[str, Any] = {
        "xaxis": xaxis,
        "yaxis": {
            "title": {"text": plain(table.y_label)}, "automargin": True,
            "range": list(panel.y_range), "nticks": 8,
        },
        "height": 420 if alone else 280,
        "margin": {"l": 50, "r": 12, "t": 12 if alone else 34, "b": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        "showlegend": alone,
        "hovermode": "closest",
    }  # fmt: skip
    if panel.title:
        layout["title"] = {"text": f"<b>{plain(panel.title)}</b>", "font": {"size": 14}, "x": 0.5}
    if names:
        layout |= {"scattermode": "group", "scattergap": 0.35}
    traces = (_traces(one, decimals[one.name], names, alone) for one in panel.series)
    return {"data": list(itertools.chain(*traces)), "layout": layout}


def _traces(series: Series, decimals: int, names: bool, alone: bool) -> list[dict[str, Any]]:
    colour = COLOURS[series.index % len(COLOURS)]
    symbol = _SYMBOLS[series.index % len(_SYMBOLS)]
    traces: list[dict[str, Any]] = []
    for word, values in (("paper", series.reported), ("measured", series.measured)):
        if not values:
            continue
        reported = word == "paper"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers" if names else "lines+markers",
                "name": plain(series.name),
                "legendgroup": f"series {series.index}",
                # One entry a series; a click hides both of its traces.
                "showlegend": not reported or not series.measured,
                # Where the x axis names the series, there is nobody else to stand beside.
                "offsetgroup": f"{series.index} {word}" if alone else word,
                "x": [plain(v.x) if names else v.x for v in values],
                "y": [v.mean for v in values],
                "error_y": {
                    "type": "data", "array": [v.std or 0.0 for v in values],
                    "visible": any(v.std for v in values), "thickness": 1.1, "width": 3,
                },
                "line": {"color": colour, "width": 2, "dash": "dash" if reported else "solid"},
                "marker": {
                    "color": colour, "symbol": f"{symbol}-open" if reported else symbol, "size": 9,
                    "line": {"width": 1.6 if reported else 0, "color": colour},
                },
                "hovertext": [_hover(v, series.name, word, decimals) for v in values],
                "hoverinfo": "text",
            }
        )  # fmt: skip
    return traces


def _hover(value: Value, name: str, word: str, decimals: int) -> str:
    lines = [
        f"{plain(name)}, {plain(value.cell.row)}",
        f"{word}: {mean_and_std(value.mean, value.std, decimals)}",
    ]
    if word == "measured":
        lines += [f"{value.cell.n} trials"] if value.cell.n else []
        lines += [plain(value.cell.note)] if value.cell.note else []
    return "<br>".join(lines)


def draw_overview(tables: Sequence[Table]) -> dict[str, Any]:
    """Every compared cell as a point: how far it is from the paper, a row a table."""
    shown = [table for table in tables if table.counts.compared]
    traces = []
    for height, table in enumerate(reversed(shown)):
        for word, marker in _MARKERS.items():
            cells = [c for c in table.cells if c.agreement.label.removeprefix("far-") == word]
            if cells:
                traces.append(_points(table, cells, height, word, marker))
    reach = min(max((abs(x) for trace in traces for x in trace["x"]), default=1.0), EDGE)
    edge = max(1.15 * reach, 1.6)
    layout = {
        "xaxis": {
            "range": [-edge, edge], "title": {"text": "difference ÷ allowed difference"},
            "zeroline": True, "dtick": 1 if edge < 5 else 2,
        },
        "yaxis": {
            "tickvals": list(range(len(shown))),
            "ticktext": [plain(table.name) for table in reversed(shown)],
            "range": [-0.6, len(shown) - 0.4],
            "automargin": True, "showgrid": False, "zeroline": False,
        },
        "height": 110 + 54 * max(len(shown), 1),
        "margin": {"l": 20, "r": 12, "t": 26, "b": 46},
        "showlegend": False,
        "annotations": [
            {
                "text": text, "x": x, "y": 1, "xref": "paper", "yref": "paper",
                "xanchor": side, "yanchor": "bottom", "showarrow": False,
            }
            for text, x, side in (
                ("← worse", 0, "left"), ("agrees", 0.5, "center"), ("better →", 1, "right"),
            )
        ],
        "hovermode": "closest",
        "shapes": [
            {
                "type": "rect", "xref": "x", "yref": "paper", "x0": -1, "x1": 1, "y0": 0, "y1": 1,
                "fillcolor": "#009E73", "opacity": 0.13, "line": {"width": 0}, "layer": "below",
            }
        ],
    }  # fmt: skip
    return {"data": traces, "layout": layout}


# Of a compared cell, by how it stands to the paper.
_MARKERS = {
    "agrees": {"color": "#009E73", "symbol": "circle"},
    "better": {"color": "#1F8AD1", "symbol": "triangle-up"},
    "worse": {"color": "#E06A10", "symbol": "triangle-down"},
}


def _points(
    table: Table, cells: list[Cell], height: int, word: str, marker: dict[str, str]
) -> dict[str, Any]:
    decimals = column_decimals(table)
    texts = []
    for cell in cells:
        if cell.measured is None or cell.reported is None:
            continue
        measured = mean_and_std(cell.measured, cell.measured_std, decimals[cell.column])
        reported = mean_and_std(cell.reported, cell.reported_std, decimals[cell.column])
        texts.append(
            f"{plain(cell.row)}, {plain(cell.column)}: {word}<br>"
            f"measured {measured}<br>paper {reported}"
        )
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [min(max(cell.excess or 0.0, -EDGE), EDGE) for cell in cells],
        # Spread over the row's height without chance, so that the page is the same each time.
        "y": [height + 0.62 * ((i + 1) * _GOLDEN % 1 - 0.5) for i in range(len(cells))],
        "marker": {**marker, "size": 9, "opacity": 0.8},
        "hovertext": texts,
        "hoverinfo": "text",
    }


def plain(value: object) -> str:
    """Text in which plotly finds no tags and, between dollar signs, no formulas."""
    return html.escape(str(value), quote=False).replace("$", "&#36;")
