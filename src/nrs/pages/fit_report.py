"""The report of a fit: one page that needs no network, for ``nrs fit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nrs._util.text import plain
from nrs._version import __version__
from nrs.files.explained import Explained, explain_fitted
from nrs.files.read import describe_readings
from nrs.files.scores import Scored, ScoredTargets
from nrs.pages import fit_figures
from nrs.pages.columns_html import (
    column_names,
    draw_columns,
    draw_effects,
    draw_fast_importance,
)
from nrs.pages.document import draw_document
from nrs.pages.html import Html, facts_list, header_row, scrollable, tag, tile
from nrs.pages.interval_figures import draw_certainty
from nrs.pages.scores_html import draw_scores
from nrs.pages.svg import figure
from nrs.pages.tree_html import draw_trees
from nrs.pages.wrong_rows import draw_wrong_rows

if TYPE_CHECKING:
    from nrs.files.fit import FittedFile
    from nrs.files.read import LabelledTable

N_TREES = 6
# Rows that trees are shown with.
MAX_ROWS = 20_000
_WORDS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1, mean over classes",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "mean absolute error",
    "all_right": "rows with all right",
    "ndcg@10": "NDCG@10",
    "ndcg@5": "NDCG@5",
    "map": "MAP",
    "mrr": "MRR",
    "concordance": "concordance",
}


def draw_fit_report(fitted: FittedFile, explained: Explained | None = None) -> Html:
    """Draw the page of a fit, which needs no network and no script to be read.

    Learning curves; the confusion matrix, ROC, precision–recall, calibration and thresholds, or
    residuals, of rows that the model did not learn from, and their intervals or sets; which columns
    matter, how they act and why the worst rows got their answers; the most decisive trees with how
    the rows fall; a searchable table of mispredicted rows; the settings. `explained` is worked out
    unless it is given.
    """
    explained = explain_fitted(fitted) if explained is None else explained
    model, table, scored = fitted.model, fitted.table, fitted.scored
    some = np.linspace(0, len(table.truth) - 1, min(MAX_ROWS, len(table.truth))).astype(int)
    main = tag(
        "main",
        _summary(fitted),
        _curves(model.history_),
        draw_scores(model, scored) if isinstance(scored, (Scored, ScoredTargets)) else Html(""),
        draw_certainty(fitted),
        draw_columns(fitted, explained),
        draw_effects(fitted, explained),
        _trees(model, table.features.take(some), _shown_truth(table, some), N_TREES),
        draw_wrong_rows(fitted, column_names(model), explained.reasons),
        _settings(model),
    )
    what = f"{table.task.capitalize()} of {table.n_rows:,} rows of {table.source}"
    header = tag("header", tag("h1", f"Predicting {table.target}"), tag("p", what))
    return draw_document(f"Predicting {table.target}", header, main, "fit.css")


def draw_explanation(model: Any, name: str, n_trees: int, rows: Any = None) -> Html:
    """Draw the page of ``nrs explain``: importances, trees and settings of a saved model."""
    about = model.about_ or {}
    target = about.get("target", "its target")
    target = ", ".join(target) if isinstance(target, list) else target
    lead = f"{about.get('task', 'a model').capitalize()} of {target}"
    main = tag(
        "main",
        tag("section", tag("p", lead, class_="lead"), id="summary"),
        tag("section", tag("h2", "What it looks at"), draw_fast_importance(model), id="importance"),
        _trees(model, rows, {}, n_trees),
        _settings(model),
    )
    header = tag("header", tag("h1", name), tag("p", "What the model looks at"))
    return draw_document(name, header, main, "fit.css")


def _shown_truth(table: LabelledTable, some: np.ndarray) -> dict[str, np.ndarray]:
    """Labels or numbers of some rows, by target."""
    truth = table.truth[some]
    if table.targets is None:
        # Of bounds of times the lower ones.
        return {table.target: truth[:, 0] if truth.ndim == 2 else truth}
    names = enumerate(table.targets.names)
    return {name: table.targets.decode(place, truth[:, place]) for place, name in names}


def _summary(fitted: FittedFile) -> Html:
    table, scored = fitted.table, fitted.scored
    parts = []
    if scored is None:
        lead = "There were too few rows to score the model."
    else:
        by = "out-of-bag rows" if scored.source == "out-of-bag" else scored.source
        lead = f"Measured on {len(scored):,} {by}, which the predicting members did not learn from."
        if table.targets is not None:
            lead += f" Means over the {len(table.targets.names)} targets:"
        tiles = [tile(_shown(name, value), _WORDS[name]) for name, value in scored.scores().items()]
        parts.append(tag("ul", *tiles, class_="tiles"))
        if isinstance(scored, ScoredTargets):
            parts.append(_scores_by_target(scored.scores_by_target()))
    if scored is not None and not isinstance(scored, ScoredTargets):
        parts.insert(0, tag("p", scored.headline(), class_="lead"))
    if fitted.findings:
        parts.append(tag("h3", "What to know about the data"))
        parts.append(tag("ul", *(tag("li", one.text) for one in fitted.findings)))
    said = [*table.notes, *describe_readings(table.readings)]
    if said:
        parts.append(tag("h3", "What was converted"))
        parts.append(tag("ul", *(tag("li", line) for line in said)))
    facts = (
        f"Fitted in {fitted.seconds:.1f} s to {len(table.columns)} columns. "
        f"The task was {table.why}."
    )
    return tag("section", tag("p", lead, class_="lead"), *parts, tag("p", facts), id="summary")


def _scores_by_target(found: dict[str, dict[str, float]]) -> Html:
    metrics = list(dict.fromkeys(metric for scores in found.values() for metric in scores))
    lines = []
    for name, scores in found.items():
        cells = [_shown(key, scores[key]) if key in scores else "–" for key in metrics]
        lines.append(tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells)))
    head = header_row(("target", *map(_WORDS.get, metrics)))
    grid = tag("table", head, tag("tbody", *lines), class_="cells")
    return scrollable(grid, aria_label="Scores")


def _shown(name: str, value: float) -> str:
    percent = name in ("accuracy", "balanced_accuracy", "all_right")
    return f"{100 * value:.1f} %" if percent else plain(value)


def _curves(history: Any) -> Html:
    if len(history) == 0:
        return Html("")
    panels = [fit_figures.learning_curves(history), fit_figures.score_curve(history)]
    caption = (
        "After every round; the dotted line marks the weights that were kept. A round of a forest "
        "is several passes over the rows."
    )
    drawn = figure([one for one in panels if one is not None], caption)
    return tag("section", tag("h2", "How it learned"), drawn, id="learning")


def _trees(model: Any, rows: Any, truth: dict[str, np.ndarray], n: int) -> Html:
    try:
        trees = model.trees(n)
    except ValueError as error:
        return tag("section", tag("h2", "The trees"), tag("p", str(error)), id="trees")
    lead = (
        "The model is a list of one-level oblique trees: each adds up a few weighted features and "
        "asks whether the sum reaches a threshold. These are the most decisive. Numbers are "
        "standardised; a bin such as age[30…45] is 0 below 30, 1 above 45."
    )
    drawn = draw_trees(trees, rows, truth, hasattr(model, "classes_"))
    return tag("section", tag("h2", "What decides"), tag("p", lead), drawn, id="trees")


def _settings(model: Any) -> Html:
    about = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in (model.about_ or {}).items()
        if name not in ("scores", "scores_by_target", "labels")
    }
    parameters = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if value is not None and name not in ("verbose", "callbacks", "checkpoint", "device")
    }
    groups = {
        "Run": about | {"nrs": __version__, "estimator": type(model).__name__},
        "Asked for": parameters,
        "Used": {k: v for k, v in model.recipe_.to_dict().items() if v is not None},
    }
    drawn = [
        tag("div", tag("h3", title), facts_list(facts.items())) for title, facts in groups.items()
    ]
    grid = tag("div", *drawn, class_="facts")
    return tag("section", tag("h2", "Settings"), grid, id="settings")
