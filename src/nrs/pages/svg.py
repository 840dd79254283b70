"""Small static charts as SVG: text in the page's own ink, values in native tooltips, no script."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nrs.pages.html import Html, tag

FONT = 12
# Mean and largest width of a character, as a share of the font size.
_MEAN, _WIDE = 0.56, 0.62
WIDTH, HEIGHT = 380, 280


def text_width(text: str, size: float = FONT) -> float:
    """About how wide a text is, rather too much than too little."""
    return len(text) * (_WIDE if len(text) < 12 else _MEAN) * size


def short(text: object, most: int) -> str:
    """The beginning of a text; every blank is one space.

    >>> short("a rather long name", 10)
    'a rather …'
    """
    plain = " ".join(str(text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def short_each(texts: Sequence[object], most: int) -> list[str]:
    """The beginnings of texts; what follows a common beginning if they would be the same.

    >>> short_each(["class number 1", "class number 12"], 10), short_each(["a", "b"], 3)
    (['…1', '…12'], ['a', 'b'])
    """
    plain = [" ".join(str(text).split()) for text in texts]
    found = [short(text, most) for text in plain]
    if len(set(found)) == len(set(plain)):
        return found
    alike = itertools.takewhile(lambda signs: len(set(signs)) == 1, zip(*plain, strict=False))
    start = "".join(signs[0] for signs in alike).rfind(" ") + 1
    return [short(f"…{text[start:]}", most) for text in plain] if start > 1 else found


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from `low` to `high`, about as many as may be.

    >>> nice_ticks(0.0, 1.0, 6)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> nice_ticks(-13.0, 29.0, 4)
    [0.0, 20.0]
    """
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / max(most, 1)))
    step = next((f * power for f in (1, 2, 5, 10) if span / (f * power) <= most), 10 * power)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [float(f"{(first + k) * step:.15g}") for k in range(count)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """Numbers of an axis with as many decimals as tell them apart.

    >>> tick_labels([0.0, 0.25, 0.5]), tick_labels([1000.0, 2000.0]), tick_labels([0.0, 2e7])
    (['0', '0.25', '0.50'], ['1,000', '2,000'], ['0', '2e+07'])
    """
    largest = max((abs(value) for value in values), default=0)
    steps = [abs(b - a) for a, b in itertools.pairwise(values)]
    step = min(steps, default=largest)
    if largest >= 1e7 or (step and step < 1e-5):
        digits = math.ceil(math.log10(largest / step)) + 1 if step else 3
        return [f"{value:.{max(digits, 3)}g}" for value in values]
    decimals = 0
    while decimals < 6 and any(abs(round(v, decimals) - v) > step / 100 for v in values):
        decimals += 1
    return ["0" if value == 0 else f"{value:,.{decimals}f}" for value in values]


@dataclass
class Axis:
    """One direction of a chart: its ends, its title, and its ticks if not round numbers."""

    low: float
    high: float
    title: str = ""
    ticks: list[tuple[float, str]] | None = None

    @classmethod
    def around(cls, values: Any, title: str = "", room: float = 0.04) -> Axis:
        """From the smallest to the largest finite value, with a little room."""
        array = np.asarray(values, dtype=float).ravel()
        array = array[np.isfinite(array)]
        low, high = (float(array.min()), float(array.max())) if len(array) else (0.0, 1.0)
        gap = room * (high - low) or 0.05 * abs(high) or 0.5
        return cls(low - gap, high + gap, title)

    def at(self, values: Any, start: float, end: float) -> np.ndarray:
        """Where values stand between two points."""
        span = self.high - self.low or 1.0
        array = np.asarray(values, dtype=float)
        return start + (array - self.low) / span * (end - start)


@dataclass
class Chart:
    """A chart with a pair of axes, drawn mark by mark.

    `marks` are pieces of SVG; `names` the legend: names, their colours and whether they are dotted.
    """

    title: str
    x: Axis
    y: Axis
    width: float = WIDTH
    height: float = HEIGHT
    left: float | None = None
    marks: list[Html] = field(default_factory=list)
    names: list[tuple[str, str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.top, self.right = 20.0 if self.y.title else 10.0, 14.0
        self.bottom = 42.0 if self.x.title else 24.0
        if self.y.ticks is None:
            rows = max(2, int((self.height - self.top - self.bottom) / 34))
            ticks = nice_ticks(self.y.low, self.y.high, rows)
            self.y.ticks = list(zip(ticks, tick_labels(ticks), strict=True))
        if self.left is None:
            self.left = 12 + max((text_width(label) for _, label in self.y.ticks), default=0)
        if self.x.ticks is None:
            self.x.ticks = self._x_ticks()

    def _x_ticks(self) -> list[tuple[float, str]]:
        """As many round numbers as have room next to each other."""
        assert self.left is not None
        room, found = self.width - self.left - self.right, []
        for most in range(8, 0, -1):
            ticks = nice_ticks(self.x.low, self.x.high, most)
            labels = tick_labels(ticks)
            found = list(zip(ticks, labels, strict=True))
            if sum(text_width(label) + 12 for label in labels) <= room:
                break
        return found

    def xs(self, values: Any) -> np.ndarray:
        """Places across the chart."""
        assert self.left is not None
        return self.x.at(values, self.left, self.width - self.right)

    def ys(self, values: Any) -> np.ndarray:
        """Places up the chart."""
        return self.y.at(values, self.height - self.bottom, self.top)

    def line(
        self, x: Any, y: Any, ink: str, name: str = "", *, dotted: bool = False,
        thin: bool = False, legend: bool = True, said: str = "",
    ) -> None:  # fmt: skip
        """Draw a line; gaps where a value is not finite."""
        if name and legend:
            self.names.append((name, ink, dotted))
        drawn = path(self.xs(x), self.ys(y))
        if drawn:
            style: dict[str, object] = {"stroke_width": 2}
            if thin or dotted:
                style = {"stroke_width": 0.8, "opacity": 0.45} if thin else {"stroke_width": 1.3}
                style["stroke_dasharray"] = "3 4" if dotted else None
            told: Html | str = tag("title", said or name) if said or name else ""
            self.marks.append(tag("path", told, d=drawn, fill="none", stroke=ink, **style))

    def dots(
        self, x: Any, y: Any, ink: str, said: Sequence[str], sizes: Any = 3.5, name: str = ""
    ) -> None:
        """Draw points with their tooltips."""
        if name:
            self.names.append((name, ink, False))
        radii = np.broadcast_to(sizes, len(said))
        for cx, cy, r, words in zip(self.xs(x), self.ys(y), radii, said, strict=True):
            if math.isfinite(cx + cy):
                told = tag("title", words)
                place = {"cx": f"{cx:.1f}", "cy": f"{cy:.1f}", "r": f"{r:.1f}"}
                self.marks.append(tag("circle", told, **place, fill=ink))

    def cloud(self, x: Any, y: Any, ink: str) -> None:
        """Draw many points as one path, without tooltips."""
        points = zip(self.xs(x), self.ys(y), strict=True)
        drawn = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in points if math.isfinite(a + b))
        self.marks.append(
            tag("path", d=drawn, stroke=ink, stroke_width=4, stroke_linecap="round", opacity=0.4)
        )

    def whiskers(self, x: Any, low: Any, high: Any, ink: str) -> None:
        """Draw upright error bars."""
        ends = zip(self.xs(x), self.ys(low), self.ys(high), strict=True)
        drawn = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends)
        self.marks.append(tag("path", d=drawn, stroke=ink, stroke_width=1.2, opacity=0.7))

    def bars(self, edges: Any, heights: Any, ink: str, name: str = "", base: Any = 0.0) -> None:
        """Draw the bars of a histogram as one path, standing on `base`."""
        x, base = self.xs(edges), np.broadcast_to(base, len(heights))
        low, high = self.ys(base), self.ys(base + np.asarray(heights, dtype=float))
        drawn = "".join(
            f"M{a:.1f} {b:.1f}V{c:.1f}H{d - 0.6:.1f}V{b:.1f}z"
            for a, d, b, c in zip(x[:-1], x[1:], low, high, strict=True)
            if abs(b - c) > 0.05
        )
        told = tag("title", name) if name else ""
        self.marks.append(tag("path", told, d=drawn, fill=ink))

    def upright(self, x: float, ink: str, name: str = "") -> None:
        """Draw a vertical line over the whole height."""
        place = float(self.xs(x))
        ends = {"x1": f"{place:.1f}", "x2": f"{place:.1f}", "y1": self.top}
        told = tag("title", name) if name else ""
        if name:
            self.names.append((name, ink, True))
        self.marks.append(
            tag("line", told, **ends, y2=self.height - self.bottom, stroke=ink,
                stroke_width=1.5, stroke_dasharray="2 3")
        )  # fmt: skip

    def draw(self, description: str = "") -> Html:
        """The chart: its title and legend as text of the page, then the picture."""
        assert self.left is not None
        assert self.x.ticks is not None
        assert self.y.ticks is not None
        floor, end, grid, words = self.height - self.bottom, self.width - self.right, [], []
        for value, label in self.y.ticks:
            y = float(self.ys(value))
            grid.append(f"M{self.left:.1f} {y:.1f}H{end:.1f}")
            words.append(_text(label, self.left - 6, y, "end"))
        last = -math.inf
        for value, label in self.x.ticks:
            x = float(self.xs(value))
            grid.append(f"M{x:.1f} {floor:.1f}v4")
            half = text_width(label) / 2
            # Within the picture, and clear of the one before.
            middle = min(max(x, half + 1), self.width - half - 1)
            if middle - half >= last + 4:
                words.append(_text(label, middle, floor + 14, "middle"))
                last = middle + half
        if self.x.title:
            most = int((self.width - 8) / (FONT * _MEAN))
            middle = max((self.left + end) / 2, text_width(short(self.x.title, most)) / 2 + 2)
            words.append(_text(short(self.x.title, most), middle, floor + 32, "middle", "soft"))
        if self.y.title:
            words.append(_text(short(self.y.title, 50), 2, 8, "start", "soft"))
        axes = tag("path", d="".join(grid), class_="grid")
        said = description or self.title
        return framed(
            self.title, self.names,
            [axes, *self.marks, *words], self.width, self.height, said,
        )  # fmt: skip


def framed(
    title: str,
    names: Sequence[tuple[str, str, bool]],
    parts: Sequence[Html],
    width: float,
    height: float,
    description: str,
    *,
    fixed: bool = False,
) -> Html:
    """A picture under its title and legend; a `fixed` one keeps its size, in a box that scrolls."""
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}"} if fixed else {}
    picture = tag(
        "svg", *parts, **size, viewBox=f"0 0 {width:.0f} {height:.0f}", role="img",
        aria_label=description, font_size=FONT,
    )  # fmt: skip
    if fixed:
        picture = tag("div", picture, class_="wide", tabindex="0", role="region",
                      aria_label=description)  # fmt: skip
    legend: Html | str = ""
    if names:
        entries = [
            tag("li", short(name, 34), class_="dotted" if dotted else None, title=name,
                style=f"--swatch: {ink}")
            for name, ink, dotted in names
        ]  # fmt: skip
        legend = tag("ul", *entries, class_="key")
    head = tag("h4", title) if title else ""
    alone = fixed and width > 0.9 * WIDTH
    return tag("div", head, legend, picture, class_="chart wide-chart" if alone else "chart")


def path(x: np.ndarray, y: np.ndarray) -> str:
    """A line through points, with a gap where one is not finite."""
    drawn, pen = [], "M"
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(a + b):
            drawn.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(drawn)


def _text(words: str, x: float, y: float, anchor: str, style: str | None = None) -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    return tag("text", words, **place, class_=style, dominant_baseline="central")


def bar_list(
    rows: Sequence[tuple[str, float, float, str, str]], ink: str, title: str, description: str,
    *, width: float = 400, mark: float | None = None,
) -> Html:  # fmt: skip
    """Horizontal bars with error bars, one row for each name.

    `rows` are names, values, errors, texts to the right, and tooltips; a dotted line is drawn at
    `mark`, if there is one.
    """
    step, top = 24, 6
    names = short_each([name for name, *_ in rows], 20)
    notes = max((text_width(note) for *_, note, _ in rows), default=0)
    left = min(155.0, max((text_width(name) for name in names), default=0) + 8)
    right = width - notes - 10
    ends = [(value - error, value + error) for _, value, error, _, _ in rows]
    low = min([0.0, *(a for a, _ in ends)])
    high = max([*(b for _, b in ends), low + 1e-12, mark or 0.0])
    axis = Axis(low, high)
    parts, zero = [], float(axis.at(0.0, left, right))
    for place, (_, value, error, note, said) in enumerate(rows):
        y = top + step * (place + 0.5)
        at, start, stop = axis.at([value, value - error, value + error], left, right).tolist()
        bar = tag(
            "rect", x=f"{min(zero, at):.1f}", y=f"{y - 8:.1f}", width=f"{abs(at - zero):.1f}",
            height=16, fill=ink, opacity=0.85,
        )  # fmt: skip
        drawn = [bar]
        if error > 0:
            whisker = f"M{start:.1f} {y:.1f}H{stop:.1f}M{start:.1f} {y - 4:.1f}v8M{stop:.1f} "
            drawn.append(tag("path", d=f"{whisker}{y - 4:.1f}v8", class_="whisker"))
        words = [_text(names[place], left - 6, y, "end"), _text(note, width - 2, y, "end", "soft")]
        parts.append(tag("g", tag("title", said), *drawn, *words))
    base = tag("path", d=f"M{zero:.1f} {top}V{top + step * len(rows):.1f}", class_="grid")
    height = 2 * top + step * max(len(rows), 1)
    if mark is not None:
        at = float(axis.at(mark, left, right))
        parts.append(tag("path", d=f"M{at:.1f} {top}V{height - top:.1f}", class_="mark"))
    return framed(title, [], [base, *parts], width, height, description)


def figure(charts: Sequence[Html], caption: str) -> Html:
    """Charts next to each other where there is room, and what they show."""
    return tag("figure", tag("div", *charts, class_="charts"), tag("figcaption", caption))
