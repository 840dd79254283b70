"""How sure a model is: intervals, quantiles and sets of a fit's report, and how often they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nrs._util.text import plain
from nrs.files.coverage import Intervals, Sets, intervals_of, sets_of
from nrs.pages.fit_figures import GREY, unit_axis
from nrs.pages.html import Html, tag
from nrs.pages.series import COLOURS
from nrs.pages.svg import WIDTH, Axis, Chart, bar_list, figure

if TYPE_CHECKING:
    from nrs.files.fit import FittedFile

# Rows whose intervals are drawn, classes that are named, and targets that have figures.
_ROWS, _MAX_CLASSES, MAX_TARGETS = 120, 12, 6
_QUARTILES = ("lowest", "second", "third", "highest")


def draw_certainty(fitted: FittedFile) -> Html:
    """The section of intervals or sets; empty where the model has none."""
    drawn, source = [], getattr(fitted.scored, "source", "")
    for name, one in list(intervals_of(fitted).items())[:MAX_TARGETS]:
        drawn += [tag("h3", name)] if name else []
        drawn.append(tag("p", _of_intervals(one, source)))
        panels = [_some_intervals(one), _by_quartile(one)]
        panels += [] if one.quantiles is None else [_of_levels(one)]
        caption = "Dotted: the share of the rows that should be held."
        drawn.append(figure(panels, caption))
    sets = sets_of(fitted)
    if sets is not None:
        drawn.append(tag("p", _of_sets(sets, source)))
        panels = [_by_size(sets), _by_class(sets)]
        caption = "Dotted: the share of the rows that should be held."
        drawn.append(figure(panels, caption))
    if not drawn:
        return Html("")
    return tag("section", tag("h2", "How sure it is"), *drawn, id="certainty")


def _of_intervals(found: Intervals, source: str) -> str:
    low, middle, high = np.quantile(found.high - found.low, [0.1, 0.5, 0.9])
    text = (
        f"Intervals for {100 * found.level:.4g} % hold {100 * found.right.mean():.1f} % of "
        f"{len(found.truth):,} {_rows(source)}. "
    )
    if high <= low * 1.001:
        return text + f"All are {plain(middle)} wide."
    return text + (
        f"They are {plain(middle)} wide in the median, and from {plain(low)} to {plain(high)} "
        "in eight of ten rows."
    )


def _of_sets(found: Sets, source: str) -> str:
    return (
        f"Sets of classes for {100 * found.level:.4g} % have the true class of "
        f"{100 * found.right.mean():.1f} % of {len(found.truth):,} {_rows(source)}. They have "
        f"{found.sizes.mean():.3g} of {len(found.classes)} classes on average."
    )


def _rows(source: str) -> str:
    return "out-of-bag rows" if source == "out-of-bag" else source


def _some_intervals(found: Intervals) -> Html:
    """Intervals of some rows over what is predicted of them, and whether they hold the truth."""
    order = np.argsort(found.predicted, kind="stable")
    # Without the outermost hundredths, which would draw all others together.
    first, last = np.array([0.01, 0.99]) * (len(order) - 1)
    some = order[np.unique(np.linspace(first, last, _ROWS).round().astype(int))]
    x, truth = found.predicted[some], found.truth[some]
    low, high = found.low[some], found.high[some]
    axis = Axis.around(np.concatenate([low, high, truth]), "true")
    title = f"{100 * found.level:.4g} % intervals of {len(some)} rows"
    chart = Chart(title, Axis.around(x, "predicted"), axis)
    chart.whiskers(x, low, high, COLOURS[0])
    for name, ink, own in (
        ("held", COLOURS[0], found.right[some]),
        ("missed", COLOURS[1], ~found.right[some]),
    ):
        said = [
            f"predicted {plain(p)}, from {plain(a)} to {plain(b)}, true {plain(t)}"
            for p, a, b, t in zip(x[own], low[own], high[own], truth[own], strict=True)
        ]
        chart.dots(x[own], truth[own], ink, said, 2.6, name)
    return chart.draw()


def _by_quartile(found: Intervals) -> Html:
    """How often intervals hold the truth, by quartile of the prediction."""
    shares = [
        (f"{name} quarter", value)
        for name, value in zip(_QUARTILES, found.by_quartile(), strict=True)
        if value is not None
    ]
    return _shares("Held, by prediction", shares, found.level)


def _of_levels(found: Intervals) -> Html:
    """Which share of the rows is below each quantile."""
    assert found.levels is not None
    assert found.quantiles is not None
    below = (found.truth[:, None] <= found.quantiles).mean(0)
    chart = Chart("Quantiles", unit_axis("quantile"), unit_axis("share of rows below"))
    chart.line([0, 1], [0, 1], GREY, "ideal", dotted=True)
    said = [f"{b:.3f} below {a:.3g}" for a, b in zip(found.levels, below, strict=True)]
    chart.line(found.levels, below, COLOURS[0], "model")
    chart.dots(found.levels, below, COLOURS[0], said)
    return chart.draw()


def _by_size(found: Sets) -> Html:
    """How many rows have sets of how many classes."""
    sizes, counts = np.unique(found.sizes, return_counts=True)
    few = len(sizes) <= _MAX_CLASSES
    ticks = [(float(size), str(size)) for size in sizes.tolist()] if few else None
    across = Axis(sizes.min() - 0.6, sizes.max() + 0.6, "classes in the set", ticks)
    chart = Chart("Sizes of the sets", across, Axis(0, 1.05 * counts.max(), "rows"))
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        said = f"{size} classes: {count:,} rows"
        chart.bars([size - 0.4, size + 0.4], [count], COLOURS[2], said)
    return chart.draw()


def _by_class(found: Sets) -> Html:
    """How often sets have the true class, by that class: of the most frequent ones."""
    counts = np.bincount(found.truth, minlength=len(found.classes))
    shown = np.sort(np.argsort(-counts, kind="stable")[:_MAX_CLASSES])
    shares = [
        (str(found.classes[place]), float(found.right[found.truth == place].mean()))
        for place in shown.tolist()
        if counts[place]
    ]
    return _shares("Held, by class", shares, found.level)


def _shares(title: str, shares: list[tuple[str, float]], level: float) -> Html:
    rows = [
        (name, value, 0.0, f"{100 * value:.0f} %", f"{name}: {100 * value:.1f} % are held")
        for name, value in shares
    ]
    return bar_list(rows, COLOURS[2], title, title, width=WIDTH, mark=level)
