"""The report of a fit: one page that needs no network, for ``nrs fit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nrs._version import __version__
from nrs.pages import fit_figures
from nrs.pages.document import draw_document, draw_plots
from nrs.pages.html import Html, tag
from nrs.pages.tree_html import draw_trees

if TYPE_CHECKING:
    from nrs.tabular.fit_file import FittedFile
    from nrs.tabular.judged import Judged

N_TREES = 6
# Rows that trees are shown with, mispredicted rows that are listed, and their columns.
MOST_ROWS, MOST_WRONG, MOST_COLUMNS = 20_000, 300, 12
_WORDS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1, mean over classes",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "mean absolute error",
}


def draw_fit_report(fitted: FittedFile) -> Html:
    """Draw the page of a fit.

    Learning curves; the confusion matrix, ROC, precision–recall and calibration, or residuals, of
    rows that the model did not learn from; the columns by importance; the most decisive trees with
    how the rows fall; a searchable table of mispredicted rows; the settings.

    Raises
    ------
    ImportError
        Without plotly; the extra ``plots`` installs it.
    """
    model, table, judged = fitted.model, fitted.table, fitted.judged
    some = np.linspace(0, len(table.truth) - 1, min(MOST_ROWS, len(table.truth))).astype(int)
    main = tag(
        "main",
        _summary(fitted),
        _curves(model.history_),
        Html("") if judged is None else _judged(judged),
        _importance(model),
        _trees(model, table.features.take(some), table.truth[some], table.task, N_TREES),
        Html("") if judged is None else _wrong(fitted),
        _settings(model),
    )
    what = f"{table.task.capitalize()} of {table.n_rows:,} rows of {table.source}"
    header = tag("header", tag("h1", f"Predicting {table.target}"), tag("p", what))
    return draw_document(f"Predicting {table.target}", header, main, "fit.css")


def draw_explanation(model: Any, name: str, n_trees: int, rows: Any = None) -> Html:
    """Draw the page of ``nrs explain``: importances, trees and settings of a saved model."""
    about = model._about or {}
    lead = f"{about.get('task', 'A model')} of {about.get('target', 'its target')}".capitalize()
    main = tag(
        "main",
        tag("section", tag("p", lead, class_="lead"), id="summary"),
        _importance(model),
        _trees(model, rows, None, "regression", n_trees),
        _settings(model),
    )
    header = tag("header", tag("h1", name), tag("p", "What the model looks at"))
    return draw_document(name, header, main, "fit.css")


def _summary(fitted: FittedFile) -> Html:
    table, judged = fitted.table, fitted.judged
    parts = []
    if judged is None:
        lead = "There were too few rows to judge the model by."
    else:
        by = "out-of-bag rows" if judged.source == "out-of-bag" else judged.source
        lead = f"Measured on {len(judged):,} {by}, which the predicting members did not learn from."
        tiles = [
            tag("li", tag("strong", _shown(name, value)), tag("span", _WORDS[name]), class_="tile")
            for name, value in judged.scores().items()
        ]
        parts.append(tag("ul", *tiles, class_="tiles"))
    facts = (
        f"Fitted in {fitted.seconds:.1f} s to {len(table.columns)} columns. "
        f"The task was {'' if table.why == 'as asked' else 'guessed'}"
        f"{table.why.removeprefix('guessed')}."
    )
    return tag("section", tag("p", lead, class_="lead"), *parts, tag("p", facts), id="summary")


def _shown(name: str, value: float) -> str:
    percent = name in ("accuracy", "balanced_accuracy")
    return f"{100 * value:.1f} %" if percent else f"{value:.4g}"


def _curves(history: Any) -> Html:
    if len(history) == 0:
        return Html("")
    panels = [fit_figures.learning_curves(history), fit_figures.score_curve(history)]
    caption = (
        "After every round; the dotted line marks the weights that were kept. A round of a forest "
        "is several passes over the rows."
    )
    drawn = draw_plots("learning", [p for p in panels if p], "Learning curves", caption)
    return tag("section", tag("h2", "How it learned"), drawn, id="learning")


def _judged(judged: Judged) -> Html:
    if judged.classes is None:
        panels = fit_figures.residuals(judged)
        words = "Residuals"
    else:
        panels = [
            fit_figures.confusion(judged),
            *fit_figures.roc_and_precision(judged),
            fit_figures.calibration(judged),
        ]
        words = "Confusion matrix, ROC, precision and recall, calibration"
    caption = f"All from {judged.source} predictions. Dotted: guessing, or the ideal."
    drawn = draw_plots("judged", panels, words, caption)
    return tag("section", tag("h2", "How good it is"), drawn, id="judged")


def _names(model: Any) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return [f"x{k}" for k in range(model.n_features_in_)] if names is None else names.tolist()


def _importance(model: Any) -> Html:
    panel = fit_figures.importance(_names(model), model.feature_importances_)
    caption = "How far the outputs move when a column moves as much as it usually does."
    drawn = draw_plots("importance", [panel], "Importance of the columns", caption)
    return tag("section", tag("h2", "What it looks at"), drawn, id="importance")


def _trees(model: Any, rows: Any, truth: np.ndarray | None, task: str, n: int) -> Html:
    try:
        trees = model.trees(n)
    except ValueError as error:
        return tag("section", tag("h2", "The trees"), tag("p", str(error)), id="trees")
    lead = (
        "The model is a list of one-level oblique trees: each adds up a few weighted features and "
        "asks whether the sum reaches a threshold. These are the most decisive. Numbers are "
        "standardised; a bin such as age[30…45] is 0 below 30, 1 above 45."
    )
    drawn = draw_trees(trees, rows, truth, task == "classification")
    return tag("section", tag("h2", "What decides"), tag("p", lead), drawn, id="trees")


def _wrong(fitted: FittedFile) -> Html:
    """The rows that were predicted worst, with a box to search them."""
    judged, table = fitted.judged, fitted.table
    assert judged is not None
    if judged.classes is None:
        size = np.abs(judged.predicted - judged.truth)
        order = np.argsort(-size, kind="stable")[:MOST_WRONG]
        head, total = ["error"], len(judged)
        extra = [[f"{judged.predicted[k] - judged.truth[k]:+.4g}"] for k in order]
        words = f"The {len(order)} rows with the largest errors."
    else:
        wrong = np.flatnonzero(judged.truth != judged.predicted)
        total = len(wrong)
        chance = np.zeros(len(judged))
        if judged.probabilities is not None:
            chance = judged.probabilities.max(1)
        order = wrong[np.argsort(-chance[wrong], kind="stable")][:MOST_WRONG]
        head = ["sure by"]
        extra = [[f"{100 * chance[k]:.0f} %"] for k in order]
        words = f"{total:,} of {len(judged):,} rows were predicted wrongly; the surest first."
        if total > len(order):
            words += f" The first {len(order)} are shown."
    if len(order) == 0:
        text = tag("p", "None of the rows was predicted wrongly.")
        return tag("section", tag("h2", "Mispredicted rows"), text, id="wrong")
    model = fitted.model
    columns = [
        _names(model)[k] for k in np.argsort(-model.feature_importances_)[:MOST_COLUMNS].tolist()
    ]
    cells = table.features.select(columns).take(judged.rows[order]).to_pylist()
    titles = ["row", "true", "predicted", *head, *columns]
    lines = []
    for place, k in enumerate(order.tolist()):
        number = int(table.rows[judged.rows[k]]) + 1
        shown = [judged.truth[k], judged.predicted[k]]
        values = (
            [_cell(v) for v in shown] + extra[place] + [_cell(v) for v in cells[place].values()]
        )
        lines.append(tag("tr", tag("th", number, scope="row"), *(tag("td", v) for v in values)))
    search = tag(
        "div",
        tag("label", "Search ", Html('<input type="search" data-filter="wrong-rows" data-whole>')),
        tag("output"),
        class_="search",
    )
    grid = tag(
        "table",
        tag("caption", "Mispredicted rows"),
        tag("thead", tag("tr", *(tag("th", title, scope="col") for title in titles))),
        tag("tbody", *lines),
        id="wrong-rows",
        class_="cells",
    )
    box = tag("div", grid, class_="scroll", tabindex="0", role="region", aria_label="Rows")
    return tag("section", tag("h2", "Mispredicted rows"), tag("p", words), search, box, id="wrong")


def _cell(value: Any) -> str:
    value = value.item() if hasattr(value, "item") else value
    if value is None or value != value:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _settings(model: Any) -> Html:
    about = {k: v for k, v in (model._about or {}).items() if k != "scores"}
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
        tag(
            "div",
            tag("h3", title),
            tag("dl", *(part for k, v in facts.items() for part in (tag("dt", k), tag("dd", v)))),
        )
        for title, facts in groups.items()
    ]
    return tag(
        "section",
        tag("h2", "Settings"),
        tag("div", *drawn, class_="facts"),
        id="settings",
    )
