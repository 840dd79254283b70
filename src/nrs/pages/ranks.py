"""The critical-difference diagram (Demšar, 2006): average ranks, and who is tied with whom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nrs.pages.html import Html, tag

ALPHA = 0.05
_FONT, _CHARACTER = 15, 9.2
_AXIS_LENGTH, _AXIS_Y, _STEP = 300, 40, 22


@dataclass(frozen=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float
    width: float = 1.2


@dataclass(frozen=True)
class Words:
    x: float
    y: float
    text: str
    anchor: str
    """start, middle or end: which part of the text stands at x; y is its middle."""


@dataclass(frozen=True)
class Diagram:
    """A picture as lines and words, for any renderer; y grows downwards."""

    width: float
    height: float
    shapes: list[Line | Words]


def tied_groups(ranks: Mapping[str, float], statistics: Mapping[str, Any]) -> list[list[str]]:
    """Longest runs of methods, in order of rank, of which no two differ significantly.

    Pairs are judged by the Wilcoxon–Holm p-values where there are any, else by Nemenyi's critical
    difference, which needs the number of data sets (the length of the scores).

    Examples
    --------
    >>> tied_groups({"A": 1.0, "B": 2.0, "C": 3.0}, {"wilcoxon_holm": [["A", "B", 0.4]]})
    [['A', 'B']]
    """
    order = sorted(ranks, key=lambda name: ranks[name])
    pairs = statistics.get("wilcoxon_holm")
    counts = {len(values) for values in (statistics.get("scores") or {}).values()}
    if pairs:
        tied = {frozenset((a, b)) for a, b, p in pairs if p is not None and p >= ALPHA}
    elif len(ranks) > 1 and len(counts) == 1 and (n_datasets := counts.pop()):
        far = critical_difference(len(ranks), n_datasets)
        tied = {frozenset((a, b)) for a in order for b in order if abs(ranks[a] - ranks[b]) < far}
    else:
        return []
    groups: list[list[str]] = []
    for start in range(len(order)):
        stop = start + 1
        while stop < len(order) and all(
            frozenset((order[stop], other)) in tied for other in order[start:stop]
        ):
            stop += 1
        # A run inside the one before it says nothing new.
        if stop - start > 1 and not (groups and order[stop - 1] in groups[-1]):
            groups.append(order[start:stop])
    return groups


def critical_difference(n_methods: int, n_datasets: int) -> float:
    """The critical difference of average ranks of Nemenyi's test at 5 % (Demšar, 2006).

    >>> round(critical_difference(4, 14), 2)  # 1.25 in Demšar's example, from a rounded table
    1.25
    """
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - ALPHA, n_methods, math.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def lay_out(ranks: Mapping[str, float], groups: list[list[str]]) -> Diagram:
    """Place the axis (the best rank on the left), the methods and the bars of ties."""
    order = sorted(ranks, key=lambda name: ranks[name])
    margin = _CHARACTER * (max(map(len, order)) + 6)
    width = _AXIS_LENGTH + 2 * margin
    # Only the part of the axis with methods on it, so that close ranks stay apart.
    first = math.floor(ranks[order[0]])
    last = max(math.ceil(ranks[order[-1]]), first + 1)

    def x_of(rank: float) -> float:
        return margin + _AXIS_LENGTH * (rank - first) / (last - first)

    shapes: list[Line | Words] = [
        Line(x_of(first), _AXIS_Y, x_of(last), _AXIS_Y, 1.6),
        Words(width / 2, 8, "average rank, 1 is best", "middle"),
    ]
    for rank in range(first, last + 1):
        shapes.append(Line(x_of(rank), _AXIS_Y - 5, x_of(rank), _AXIS_Y, 1.6))
        shapes.append(Words(x_of(rank), _AXIS_Y - 13, str(rank), "middle"))
    for level, group in enumerate(groups, start=1):
        ends = [x_of(ranks[name]) for name in (group[0], group[-1])]
        y = _AXIS_Y + 9 * level
        shapes.append(Line(ends[0] - 4, y, ends[1] + 4, y, 5))
    top = _AXIS_Y + 9 * len(groups) + 18
    left = order[: math.ceil(len(order) / 2)]
    # From the outside in, so that no line crosses another.
    for side, names in (("left", left), ("right", order[len(left) :][::-1])):
        for step, name in enumerate(names):
            x, y = x_of(ranks[name]), top + _STEP * step
            edge = margin - 6 if side == "left" else width - margin + 6
            text = f"{name} {ranks[name]:.2f}" if side == "left" else f"{ranks[name]:.2f} {name}"
            beyond = edge - 4 if side == "left" else edge + 4
            shapes += [
                Line(x, _AXIS_Y, x, y),
                Line(x, y, edge, y),
                Words(beyond, y, text, "end" if side == "left" else "start"),
            ]
    return Diagram(width, top + _STEP * (len(left) - 1) + 14, shapes)


def to_svg(diagram: Diagram, description: str) -> Html:
    """The diagram as SVG in the ink of the text around it."""
    drawn = []
    for shape in diagram.shapes:
        if isinstance(shape, Line):
            ends = {name: f"{getattr(shape, name):.1f}" for name in ("x1", "y1", "x2", "y2")}
            style = "tie" if shape.width > 2 else None
            drawn.append(tag("line", **ends, stroke_width=shape.width, class_=style))
        else:
            place = {"x": f"{shape.x:.1f}", "y": f"{shape.y:.1f}", "text_anchor": shape.anchor}
            drawn.append(tag("text", shape.text, **place, dominant_baseline="central"))
    return tag(
        "svg", tag("title", description), *drawn, class_="ranks", role="img",
        viewBox=f"0 0 {diagram.width:.0f} {diagram.height:.0f}", font_size=_FONT,
        style=f"max-width: {diagram.width:.0f}px",
    )  # fmt: skip


def to_png(diagram: Diagram) -> bytes:
    """The diagram as a PNG picture, black on white."""
    from nrs.pages.pictures import figure, png

    # A CSS pixel is 1/96 inch and 3/4 of a point.
    drawing = figure(diagram.width / 96, diagram.height / 96)
    ax = drawing.add_axes((0, 0, 1, 1))
    ax.set_xlim(0, diagram.width)
    ax.set_ylim(diagram.height, 0)
    ax.axis("off")
    sides = {"start": "left", "middle": "center", "end": "right"}
    for shape in diagram.shapes:
        if isinstance(shape, Line):
            ax.plot(
                [shape.x1, shape.x2], [shape.y1, shape.y2],
                color="#0b5d4b" if shape.width > 2 else "0.15", linewidth=0.75 * shape.width,
            )  # fmt: skip
        else:
            ax.text(
                shape.x, shape.y, shape.text, fontsize=0.7 * _FONT, ha=sides[shape.anchor],
                va="center_baseline", parse_math=False,
            )  # fmt: skip
    return png(drawing)
