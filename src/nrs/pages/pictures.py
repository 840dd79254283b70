"""Figures as PNG pictures for Markdown, which cannot hold interactive ones."""

from __future__ import annotations

import io
import math
from typing import Any

from nrs._util.optional import import_optional
from nrs.pages.series import COLOURS, Panel, Series, panels_of, wrap_name
from nrs.pages.tables import Table

_MARKERS = ["o", "s", "D", "^", "v", "P", "X"]


def figure(width: float, height: float) -> Any:
    """An empty figure of this size in inches, outside of any window or notebook.

    Raises ImportError without matplotlib; the extra ``plots`` installs it.
    """
    matplotlib = import_optional("matplotlib.figure", "the report", "plots")
    return matplotlib.Figure(figsize=(width, height), facecolor="white")


def png(drawing: Any) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    # No version in the file: the same figure gives the same bytes.
    drawing.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()


def draw_figure(table: Table) -> bytes:
    """The figure of a table: reported values open and dashed, measured ones filled and solid."""
    panels = panels_of(table)
    across = min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    drawing = figure(7.2, 4.2) if len(panels) == 1 else figure(3.2 * across, 2.7 * down)
    drawing.set_layout_engine("constrained")
    axes = [drawing.add_subplot(down, across, i + 1) for i in range(len(panels))]
    for ax, panel in zip(axes, panels, strict=True):
        _draw_panel(ax, panel, alone=len(panels) == 1)
        ax.set_ylabel(table.y_label, parse_math=False)
    handles, names = axes[0].get_legend_handles_labels()
    if len(panels) == 1 and handles:
        fitting = max(1, min(len(names), 80 // (max(map(len, names)) + 6)))
        legend = drawing.legend(
            handles, names, loc="outside upper left", ncols=fitting, frameon=False, fontsize=9
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    return png(drawing)


def _draw_panel(ax: Any, panel: Panel, alone: bool) -> None:
    names = panel.is_categorical
    places = {x: float(i) if isinstance(x, str) else x for i, (x, _) in enumerate(panel.ticks)}
    for i, series in enumerate(panel.series):
        shift = 0.7 * ((i + 0.5) / len(panel.series) - 0.5) if names and alone else 0.0
        apart = 0.0 if not names else 0.04 if alone else 0.12
        _draw_series(ax, series, {x: place + shift for x, place in places.items()}, apart, names)
    if panel.is_logarithmic:
        ax.set_xscale("log")
        ax.minorticks_off()
    labels = ["\n".join(wrap_name(name)) for _, name in panel.ticks]
    ax.set_xticks([places[x] for x, _ in panel.ticks], labels, parse_math=False, fontsize=9)
    if names:
        ax.set_xlim(-0.5, len(labels) - 0.5)
        if sum(max(map(len, label.split("\n"))) for label in labels) > (70 if alone else 32):
            for text in ax.get_xticklabels():
                text.set(rotation=35, ha="right", rotation_mode="anchor")
    ax.set_ylim(*panel.y_range)
    ax.set_title(panel.title, fontsize=10, fontweight="bold", parse_math=False)
    ax.set_xlabel(panel.x_label, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.92")
    ax.set_axisbelow(True)


def _draw_series(
    ax: Any, series: Series, places: dict[float | str, float], apart: float, names: bool
) -> None:
    colour = COLOURS[series.index % len(COLOURS)]
    for reported, values in ((True, series.reported), (False, series.measured)):
        if not values:
            continue
        offset = -apart if reported else apart
        # One entry of the legend a series; matplotlib leaves out names that begin with "_".
        entry = f"\u200b{series.name}" if not reported or not series.measured else "_"
        ax.errorbar(
            [places[value.x] + offset for value in values],
            [value.mean for value in values],
            yerr=[value.std or 0.0 for value in values],
            color=colour, marker=_MARKERS[series.index % len(_MARKERS)], markersize=5.5,
            capsize=2.5, elinewidth=0.9, linewidth=1.4,
            linestyle="none" if names else "--" if reported else "-",
            markerfacecolor="white" if reported else colour,
            label=entry,
        )  # fmt: skip
