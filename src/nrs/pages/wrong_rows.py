"""The rows that a fit predicted worst, as a table with a box to search it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs._util.text import plain
from nrs.files.scores import Scored, ScoredTargets
from nrs.pages.columns_html import draw_reasons
from nrs.pages.html import Html, header_row, scrollable, tag
from nrs.pages.svg import short

if TYPE_CHECKING:
    from nrs.files.fit import FittedFile
    from nrs.tabular.explain import Reasons

# Mispredicted rows that are listed, and their columns.
MAX_WRONG, MAX_COLUMNS = 300, 12
# Characters of a cell that are shown.
MAX_CELL = 60

# Which rows, what stands of each beside its features, and a sentence on them.
Listed = tuple[np.ndarray, dict[str, list[Any]], str]


def draw_wrong_rows(fitted: FittedFile, names: list[str], why: Mapping[int, Reasons]) -> Html:
    """The section of mispredicted rows; `names` are those of the model's columns.

    `why` says of some of the scored rows why they got their answers.

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
    parts = [tag("p", words), search, box]
    if why and isinstance(scored, Scored):
        parts.append(_reasons(scored, table.rows, why))
    return tag("section", tag("h2", "Mispredicted rows"), *parts, id="wrong")


def _reasons(scored: Scored, numbers: np.ndarray, why: Mapping[int, Reasons]) -> Html:
    """Why the worst of the rows got their answers."""
    cards = []
    for place, one in why.items():
        title = f"Row {int(numbers[scored.rows[place]]) + 1}"
        words = f"True: {_cell(scored.truth[place])}, predicted: {_cell(scored.predicted[place])}."
        if one.label is not None:
            words += f" Probability of {short(one.label, 30)}: {one.shown(one.answer)}."
        cards.append((title, words, one))
    unit = "" if next(iter(why.values())).label is None else " in percentage points"
    lead = (
        f"What each cell of a row adds to its answer{unit}, compared with usual rows: Shapley "
        "values, sampled, by members that have not seen the row. nrs explain MODEL FILE --row 17 "
        "does this for any row."
    )
    heading = tag("h3", "Why the worst rows got their answers")
    return tag("div", heading, tag("p", lead), draw_reasons(cards))


def _numbers(scored: Scored) -> Listed:
    error = scored.predicted - scored.truth
    order = scored.worst()[:MAX_WRONG]
    beside = {
        "true": list(scored.truth[order]),
        "predicted": list(scored.predicted[order]),
        "error": [("+" if value > 0 else "") + plain(value) for value in error[order].tolist()],
    }
    return order, beside, f"The {len(order)} rows with the largest errors."


def _classes(scored: Scored) -> Listed:
    wrong = scored.worst()
    order = wrong[:MAX_WRONG]
    chance = np.zeros(len(scored)) if scored.probabilities is None else scored.probabilities.max(1)
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
    return plain(value, 6) if isinstance(value, float) else short(value, MAX_CELL)
