"""The rows that a fit predicted worst, as a table with a box to search it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.files.scores import Scored, ScoredTargets
from nrs.pages.html import Html, header_row, scrollable, tag

if TYPE_CHECKING:
    from nrs.files.fit import FittedFile

# Mispredicted rows that are listed, and their columns.
MAX_WRONG, MAX_COLUMNS = 300, 12

# Which rows, what stands of each beside its features, and a sentence on them.
Listed = tuple[np.ndarray, dict[str, list[Any]], str]


def draw_wrong_rows(fitted: FittedFile, names: list[str]) -> Html:
    """The section of mispredicted rows; `names` are those of the model's columns.

    Empty where no row is right or wrong by itself: without scores, and of a ranker.
    """
    scored, table = fitted.scored, fitted.table
    if isinstance(scored, ScoredTargets):
        order, beside, words = _several(scored)
    elif not isinstance(scored, Scored):
        return Html("")
    else:
        order, beside, words = _numbers(scored) if scored.classes is None else _classes(scored)
    if len(order) == 0:
        text = tag("p", "None of the rows was predicted wrongly.")
        return tag("section", tag("h2", "Mispredicted rows"), text, id="wrong")
    important = np.argsort(-fitted.model.feature_importances_)[:MAX_COLUMNS]
    columns = [names[place] for place in important.tolist()]
    cells = table.features.select(columns).take(scored.rows[order]).to_pylist()
    titles = ["row", *beside, *columns]
    lines = []
    for place, k in enumerate(order.tolist()):
        number = int(table.rows[scored.rows[k]]) + 1
        values = [column[place] for column in beside.values()] + list(cells[place].values())
        shown = (tag("td", _cell(value)) for value in values)
        lines.append(tag("tr", tag("th", number, scope="row"), *shown))
    field = Html('<input type="search" data-filter="wrong-rows" data-whole>')
    search = tag("div", tag("label", "Search ", field), tag("output"), class_="search")
    caption, body = tag("caption", "Mispredicted rows"), tag("tbody", *lines)
    grid = tag("table", caption, header_row(titles), body, id="wrong-rows", class_="cells")
    box = scrollable(grid, aria_label="Rows")
    return tag("section", tag("h2", "Mispredicted rows"), tag("p", words), search, box, id="wrong")


def _numbers(scored: Scored) -> Listed:
    error = scored.predicted - scored.truth
    order = np.argsort(-np.abs(error), kind="stable")[:MAX_WRONG]
    beside = {
        "true": list(scored.truth[order]),
        "predicted": list(scored.predicted[order]),
        "error": [f"{value:+.4g}" for value in error[order]],
    }
    return order, beside, f"The {len(order)} rows with the largest errors."


def _classes(scored: Scored) -> Listed:
    wrong = np.flatnonzero(scored.truth != scored.predicted)
    chance = np.zeros(len(scored)) if scored.probabilities is None else scored.probabilities.max(1)
    order = wrong[np.argsort(-chance[wrong], kind="stable")][:MAX_WRONG]
    beside = {
        "true": list(scored.truth[order]),
        "predicted": list(scored.predicted[order]),
        "sure by": [f"{100 * value:.0f} %" for value in chance[order]],
    }
    return order, beside, _counted(len(wrong), len(scored), len(order), "the surest first")


def _several(scored: ScoredTargets) -> Listed:
    parts = list(scored.parts.values())
    if parts[0].classes is None:
        # Errors in different units, each as a share of its target's spread.
        spread = [max(float(one.truth.std()), 1e-30) for one in parts]
        gaps = zip(parts, spread, strict=True)
        errors = [np.abs(one.predicted - one.truth) / s for one, s in gaps]
        order = np.argsort(-np.sum(errors, axis=0), kind="stable")[:MAX_WRONG]
        words = f"The {len(order)} rows with the largest errors over all targets."
    else:
        n_wrong = (~scored.right).sum(1)
        wrong = np.flatnonzero(n_wrong)
        order = wrong[np.argsort(-n_wrong[wrong], kind="stable")][:MAX_WRONG]
        most = "those with most wrong targets first"
        words = _counted(len(wrong), len(scored), len(order), most)
    beside: dict[str, list[Any]] = {}
    for name, one in scored.parts.items():
        beside[f"{name}, true"] = list(one.truth[order])
        beside[f"{name}, predicted"] = list(one.predicted[order])
    return order, beside, words


def _counted(wrong: int, rows: int, shown: int, order: str) -> str:
    words = f"{wrong:,} of {rows:,} rows were predicted wrongly; {order}."
    return words + (f" The first {shown} are shown." if wrong > shown else "")


def _cell(value: Any) -> str:
    value = value.item() if hasattr(value, "item") else value
    if value is None or value != value:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
