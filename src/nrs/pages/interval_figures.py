"""How sure a model is: intervals, quantiles and sets of a fit's report, and how often they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.files.coverage import Intervals, Sets, intervals_of, sets_of
from nrs.pages.document import draw_plots
from nrs.pages.figures import plain
from nrs.pages.fit_figures import as_numbers, draw_bars, draw_line, draw_panel
from nrs.pages.html import Html, tag
from nrs.pages.series import COLOURS

if TYPE_CHECKING:
    from nrs.files.fit import FittedFile

# Rows whose intervals are drawn, classes that are named, and targets that have figures.
_ROWS, _MAX_CLASSES, MAX_TARGETS = 120, 12, 6
_QUARTILES = ("lowest", "second", "third", "highest")


def draw_certainty(fitted: FittedFile) -> Html:
    """The section of intervals or sets; empty where the model has none."""
    drawn, source = [], getattr(fitted.scored, "source", "")
    for place, (name, one) in enumerate(list(intervals_of(fitted).items())[:MAX_TARGETS]):
        drawn += [tag("h3", name)] if name else []
        drawn.append(tag("p", _of_intervals(one, source)))
        panels = [_some_intervals(one), _by_quartile(one)]
        panels += [] if one.quantiles is None else [_of_levels(one)]
        caption = "Dotted: the share of the rows that should be held."
        drawn.append(draw_plots(f"intervals-{place}", panels, "Intervals", caption))
    sets = sets_of(fitted)
    if sets is not None:
        drawn.append(tag("p", _of_sets(sets, source)))
        panels = [_by_size(sets), _by_class(sets)]
        caption = "Dotted: the share of the rows that should be held."
        drawn.append(draw_plots("sets", panels, "Sets of classes", caption))
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
        return text + f"All are {_short(middle)} wide."
    return text + (
        f"They are {_short(middle)} wide in the median, and from {_short(low)} to {_short(high)} "
        "in eight of ten rows."
    )


def _short(value: float) -> str:
    """A number of four digits.

    >>> _short(52041.3), _short(0.123456)
    ('52,040', '0.1235')
    """
    return f"{float(f'{value:.4g}'):,g}"


def _of_sets(found: Sets, source: str) -> str:
    return (
        f"Sets of classes for {100 * found.level:.4g} % have the true class of "
        f"{100 * found.right.mean():.1f} % of {len(found.truth):,} {_rows(source)}. They have "
        f"{found.sizes.mean():.3g} of {len(found.classes)} classes on average."
    )


def _rows(source: str) -> str:
    return "out-of-bag rows" if source == "out-of-bag" else source


def _some_intervals(found: Intervals) -> dict[str, Any]:
    """Intervals of some rows over what is predicted of them, and whether they hold the truth."""
    order = np.argsort(found.predicted, kind="stable")
    # Without the outermost hundredths, which would draw all others together.
    first, last = np.array([0.01, 0.99]) * (len(order) - 1)
    some = order[np.unique(np.linspace(first, last, _ROWS).round().astype(int))]
    x, ends = found.predicted[some], np.stack([found.low[some], found.high[some]])
    gap = np.full((1, len(some)), np.nan)
    bars = draw_line(
        "interval", np.repeat(x, 3), np.concatenate([ends, gap]).T.ravel(), COLOURS[0],
        line={"width": 2}, opacity=0.35, hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    data = [bars]
    for name, ink, own in (
        ("held", COLOURS[0], found.right[some]),
        ("missed", COLOURS[1], ~found.right[some]),
    ):
        marker = {"color": ink, "size": 5}
        truth = as_numbers(found.truth[some][own])
        data.append(
            {"type": "scatter", "mode": "markers", "name": name, "x": as_numbers(x[own]),
             "y": truth, "marker": marker}
        )  # fmt: skip
    title = f"{100 * found.level:.4g} % intervals of {len(some)} rows"
    return draw_panel(title, data, "predicted", "true")


def _by_quartile(found: Intervals) -> dict[str, Any]:
    """How often intervals hold the truth, by quartile of the prediction."""
    shares = [(name, value) for name, value in zip(_QUARTILES, found.by_quartile(), strict=True)
              if value is not None]  # fmt: skip
    return _shares("Held, by prediction", shares, found.level, "quarter of the predictions")


def _of_levels(found: Intervals) -> dict[str, Any]:
    """Which share of the rows is below each quantile."""
    assert found.levels is not None
    assert found.quantiles is not None
    below = (found.truth[:, None] <= found.quantiles).mean(0)
    ideal = draw_line("ideal", [0, 1], [0, 1], COLOURS[6], line={"dash": "dot", "width": 1})
    data = draw_line("quantiles", found.levels, below, COLOURS[0], mode="lines+markers")
    unit = {"range": [-0.02, 1.02]}
    return draw_panel(
        "Quantiles", [ideal, data], "quantile", "share of rows below",
        xaxis=unit, yaxis=unit, showlegend=False,
    )  # fmt: skip


def _by_size(found: Sets) -> dict[str, Any]:
    """How many rows have sets of how many classes."""
    sizes, counts = np.unique(found.sizes, return_counts=True)
    bars = draw_bars(sizes, counts, COLOURS[2])
    axis = {"dtick": 1} if len(found.classes) <= _MAX_CLASSES else {}
    return draw_panel(
        "Sizes of the sets", [bars], "classes in the set", "rows",
        xaxis=axis, bargap=0.2, showlegend=False,
    )  # fmt: skip


def _by_class(found: Sets) -> dict[str, Any]:
    """How often sets have the true class, by that class: of the most frequent ones."""
    counts = np.bincount(found.truth, minlength=len(found.classes))
    shown = np.sort(np.argsort(-counts, kind="stable")[:_MAX_CLASSES])
    shares = [
        (str(found.classes[place]), float(found.right[found.truth == place].mean()))
        for place in shown.tolist()
        if counts[place]
    ]
    return _shares("Held, by class", shares, found.level, "true class")


def _shares(title: str, shares: list[tuple[str, float]], level: float, x: str) -> dict[str, Any]:
    names = [plain(name) for name, _ in shares]
    bars = draw_bars([0] * len(shares), [value for _, value in shares], COLOURS[2]) | {
        "x": names,
        "text": [f"{100 * value:.0f} %" for _, value in shares],
        "textposition": "inside",
        "insidetextanchor": "start",
    }
    line = {"color": COLOURS[6], "dash": "dot", "width": 1.5}
    dotted = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
    axis = {"type": "category"} | ({"tickangle": 0} if len(shares) <= len(_QUARTILES) else {})
    return draw_panel(
        title, [bars], x, "share that is held", shapes=[dotted | {"line": line}],
        xaxis=axis, yaxis={"range": [0, 1.02]}, bargap=0.25, showlegend=False,
    )  # fmt: skip
