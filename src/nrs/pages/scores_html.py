"""The part of a fit's page on how good it is: figures and tables, from 2 to 50 classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nrs.files.scores import Scored, ScoredTargets
from nrs.pages import fit_figures
from nrs.pages.html import Html, header_row, scrollable, tag
from nrs.pages.svg import figure, short

if TYPE_CHECKING:
    from nrs.tabular.types import TableModel

# Targets that have figures of their own, classes with a row each, and the mistakes that are listed.
MAX_TARGETS, MAX_CLASSES, MISTAKES = 6, 50, 10
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def draw_scores(model: TableModel | None, scored: Scored | ScoredTargets) -> Html:
    """Figures and tables of one target, or of each under its name."""
    parts = scored.parts if isinstance(scored, ScoredTargets) else {"": scored}
    threshold = 0.5 if isinstance(scored, ScoredTargets) else _threshold(model)
    drawn = []
    for name, one in list(parts.items())[:MAX_TARGETS]:
        drawn += [tag("h3", name)] if name else []
        drawn += _figures(one, threshold, brief=bool(name))
    if len(parts) > MAX_TARGETS:
        drawn.append(tag("p", f"The first {MAX_TARGETS} of {len(parts)} targets are drawn."))
    return tag("section", tag("h2", "How good it is"), *drawn, id="scores")


def _threshold(model: TableModel | None) -> float:
    found = getattr(model, "threshold_", None)
    return 0.5 if found is None else float(found)


def _figures(scored: Scored, threshold: float, *, brief: bool) -> list[Html]:
    caption = f"All from {scored.source} predictions. Dotted: guessing, or the ideal."
    if scored.classes is None:
        return [figure(fit_figures.residuals(scored), caption)]
    charts, tables = [fit_figures.confusion(scored)], []
    if scored.probabilities is not None:
        charts += [*fit_figures.roc_and_precision(scored), fit_figures.calibration(scored)]
        if len(scored.classes) == 2:
            charts.append(fit_figures.thresholds(scored, threshold))
            tables += [] if brief else [_costs(scored, threshold)]
    if len(scored.classes) > 2:
        tables += [_by_class(scored), _mistakes(scored)]
    return [figure(charts, caption), *tables]


def _costs(scored: Scored, threshold: float) -> Html:
    """What each threshold finds, misses and wrongly calls."""
    assert scored.classes is not None
    levels = np.unique([*LEVELS, round(threshold, 4)])
    found, label = fit_figures.by_threshold(scored, levels), str(scored.classes[1])
    lines = []
    for place, level in enumerate(levels.tolist()):
        counts = [f"{found[name][place]:,}" for name in ("called", "wrongly called", "missed")]
        shares = ("precision", "recall", "balanced accuracy")
        shown = [_percent(float(found[name][place])) for name in shares]
        used = abs(level - threshold) < 1e-4
        head = tag("th", f"{level:.4g}" + (" (used)" if used else ""), scope="row")
        cells = (tag("td", cell) for cell in (*counts, *shown))
        lines.append(tag("tr", head, *cells, class_="used" if used else None))
    name = short(label, 20)
    titles = ("threshold", f"called {name}", "of these wrong", f"{name} missed", "precision",
              "recall", "balanced accuracy")  # fmt: skip
    grid = tag("table", header_row(titles), tag("tbody", *lines), class_="cells")
    words = (
        f"Rows are called {label} from this probability on. A lower threshold misses fewer and "
        "calls more wrongly; nrs fit --threshold chooses another."
    )
    heading = tag("h3", "What the threshold costs"), tag("p", words)
    return tag("div", *heading, scrollable(grid, aria_label="Thresholds"))


def _by_class(scored: Scored) -> Html:
    """How well each class is recognised, the worst first."""
    from sklearn import metrics

    labels, counts = np.unique(scored.truth, return_counts=True)
    exact, found, both, _ = metrics.precision_recall_fscore_support(
        scored.truth, scored.predicted, labels=labels, zero_division=0.0
    )
    order = np.argsort(both, kind="stable")[:MAX_CLASSES]
    lines = []
    for k in order.tolist():
        taken, often = np.unique(
            scored.predicted[(scored.truth == labels[k]) & (scored.predicted != labels[k])],
            return_counts=True,
        )
        most = f"{short(taken[often.argmax()], 20)} ({often.max():,})" if len(taken) else "–"
        cells = (f"{counts[k]:,}", *map(_percent, (found[k], exact[k], both[k])), most)
        head = tag("th", short(labels[k], 30), scope="row")
        lines.append(tag("tr", head, *(tag("td", cell) for cell in cells)))
    titles = ("class", "rows", "recall", "precision", "F1", "most often taken for")
    grid = tag("table", header_row(titles), tag("tbody", *lines), class_="cells")
    more = f" The worst {MAX_CLASSES} of {len(labels)}." if len(labels) > MAX_CLASSES else ""
    heading = tag("h3", "By class"), tag("p", f"The worst first, by F1.{more}")
    return tag("div", *heading, scrollable(grid, aria_label="Scores by class"))


def _mistakes(scored: Scored) -> Html:
    """The pairs of classes that are mixed up most often."""
    wrong = np.flatnonzero(scored.truth != scored.predicted)
    if len(wrong) == 0:
        return Html("")
    pairs = np.stack([scored.truth[wrong], scored.predicted[wrong]])
    kinds, counts = np.unique(pairs, axis=1, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MISTAKES].tolist()
    lines = [
        tag("tr", tag("th", short(kinds[0, k], 30), scope="row"),
            tag("td", short(kinds[1, k], 30)), tag("td", f"{counts[k]:,}"))
        for k in order
    ]  # fmt: skip
    grid = tag("table", header_row(("true", "predicted", "rows")), tag("tbody", *lines),
               class_="cells")  # fmt: skip
    heading = tag("h3", "The most frequent mistakes")
    return tag("div", heading, scrollable(grid, aria_label="Mistakes"))


def _percent(share: float) -> str:
    return "–" if share != share else f"{100 * share:.1f} %"
