"""The page of ``nrs compare``: scores of methods on the same folds, against the time they take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nrs._version import __version__
from nrs.baselines.compare import METRICS
from nrs.pages.document import draw_document
from nrs.pages.fit_figures import colour
from nrs.pages.html import Html, facts_list, header_row, scrollable, tag
from nrs.pages.svg import Axis, Chart, figure

if TYPE_CHECKING:
    from nrs.baselines.compare import Compared
    from nrs.files.read import LabelledTable

_WORDS = {"log_loss": "log loss", "roc_auc": "ROC AUC", "r2": "R²", "rmse": "RMSE", "mae": "MAE"}
_DECADES = range(-4, 6)


def draw_comparison(
    table: LabelledTable, compared: Sequence[Compared], folds: int, seed: int
) -> Html:
    """Draw the page: a table of scores with settings, and scores against seconds of a fit."""
    metrics = METRICS[table.task]
    ran = [one for one in compared if one.problem is None]
    lead = (
        f"{len(table.truth):,} rows, {folds} folds, the same for all; each method with one thread. "
        "Nothing was tuned. XGBoost, LightGBM and CatBoost choose their rounds by early stopping "
        "on a tenth of the training rows, and read categories themselves."
    )
    charts = [_against_time(ran, metric) for metric in metrics[:2]] if ran else []
    caption = (
        "Means over the folds, with their standard deviation. Seconds of a fit are on a "
        "logarithmic axis; hover for numbers."
    )
    main = tag(
        "main",
        tag("section", tag("p", lead, class_="lead"), _scores(compared, metrics), id="summary"),
        tag("section", tag("h2", "Scores against time"), figure(charts, caption), id="time"),
        _settings(ran, seed),
    )
    title = f"Methods compared on {table.source}"
    what = f"{table.task.capitalize()} of {table.target}"
    header = tag("header", tag("h1", title), tag("p", what))
    return draw_document(title, header, main, "fit.css")


def _scores(compared: Sequence[Compared], metrics: Sequence[str]) -> Html:
    titles = ("method", "settings", *(_WORDS.get(one, one) for one in metrics))
    lines = []
    for one in compared:
        name = tag("th", one.name, scope="row")
        if one.problem is not None:
            lines.append(tag("tr", name, tag("td", one.problem, colspan=len(titles) + 1)))
            continue
        found = map(one.mean_and_std, metrics)
        cells = [f"{mean:.4f} ± {std:.4f}" if mean == mean else "–" for mean, std in found]
        cells = [one.how(), *cells, f"{one.fit_seconds:.2f}", f"{one.predict_seconds:.3f}"]
        lines.append(tag("tr", name, *(tag("td", cell) for cell in cells)))
    head = header_row((*titles, "fit, s", "predict, s"))
    grid = tag("table", head, tag("tbody", *lines), class_="cells")
    return scrollable(grid, aria_label="Scores")


def _against_time(ran: Sequence[Compared], metric: str) -> Html:
    """A score of each method, with its deviation, against the seconds of its fit."""
    name = _WORDS.get(metric, metric)
    seconds = [math.log10(max(one.fit_seconds, 1e-4)) for one in ran]
    found = [one.mean_and_std(metric) for one in ran]
    across = Axis.around(seconds, "seconds of a fit", room=0.15)
    low, high = min(across.low, min(seconds) - 0.3), max(across.high, max(seconds) + 0.3)
    across = Axis(low, high, across.title, _time_ticks(low, high))
    ends = [end for mean, std in found for end in (mean - std, mean + std)]
    chart = Chart(f"{name[0].upper()}{name[1:]}", across, Axis.around(ends, name, room=0.1))
    for place, (one, x, (mean, std)) in enumerate(zip(ran, seconds, found, strict=True)):
        chart.whiskers([x], [mean - std], [mean + std], colour(place))
        said = f"{one.name}: {name} {mean:.4f} ± {std:.4f}, fitted in {one.fit_seconds:.2f} s"
        chart.dots([x], [mean], colour(place), [said], 5, one.name)
    return chart.draw()


def _time_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers of seconds within logarithms."""
    wide = high - low
    steps = (1,) if wide > 3 else (1, 3) if wide > 1.2 else (1, 1.5, 2, 3, 5, 7)
    values = [step * 10.0**power for power in _DECADES for step in steps]
    return [(math.log10(v), f"{v:g}") for v in values if low <= math.log10(v) <= high]


def _settings(ran: Sequence[Compared], seed: int) -> Html:
    run: dict[str, Any] = {"nrs": __version__, "seed": seed}
    groups = {"Run": run} | {one.name: one.settings for one in ran}
    drawn = [
        tag("div", tag("h3", title), facts_list(facts.items())) for title, facts in groups.items()
    ]
    return tag("section", tag("h2", "Settings"), tag("div", *drawn, class_="facts"), id="settings")
