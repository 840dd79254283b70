"""The parts of a fit's page on columns: which matter, how they act, what they add to a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nrs.files.scores import ScoredTargets
from nrs.pages import fit_figures
from nrs.pages.html import Html, tag
from nrs.pages.svg import bar_list, figure, short

if TYPE_CHECKING:
    from nrs.files.explained import Explained
    from nrs.files.fit import FittedFile
    from nrs.tabular.explain import Permutation, Reasons
    from nrs.tabular.types import TableModel

# Columns that are drawn as bars, and cells that a row's answer is explained by.
MOST, PARTS = 20, 6
FAST_CAPTION = "Average change in the prediction for a typical change in this column."


def column_names(model: TableModel) -> list[str]:
    """Names of the columns of a fit; x0, x1, … where they have none."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{k}" for k in range(model.n_features_in_)] if names is None else names.tolist()


def draw_columns(fitted: FittedFile, explained: Explained) -> Html:
    """Which columns matter: by shuffling them, and by how far the prediction moves with them."""
    found, fast = explained.permutation, draw_fast_importance(fitted.model)
    if found is None:
        parts = [tag("p", f"Columns were not shuffled. {explained.why_not}"), fast]
        return tag("section", tag("h2", "What it looks at"), *parts, id="importance")
    unit, score_of = _score_of(fitted)
    rows = []
    for place in found.order()[:MOST].tolist():
        rise, error = float(found.increase[place]), 1.96 * float(found.error[place])
        note = score_of(float(found.drop[place]))
        said = f"{found.columns[place]}: loss {rise:+.4f} ± {error:.4f}, {unit} {note}"
        rows.append((found.columns[place], rise, error, note, said))
    measured = int((~np.isnan(found.increase)).sum())
    caption = (
        f"By how much the mean loss ({found.loss:.4g}) rises when a column is shuffled among "
        f"{found.n_rows:,} {_of(explained.source)}, {found.n_repeats} times, with its 95 % "
        f"interval; on the right, how the {unit} changes. A column around 0 is not needed: it says "
        "nothing, or others say the same."
    )
    caption += _which(found, measured)
    bars = bar_list(rows, fit_figures.colour(0), "What a column is worth", caption)
    both = tag("div", bars, class_="single"), tag("figcaption", caption)
    drawn = tag("figure", *both)
    more = tag("details", tag("summary", "How far the prediction moves with each column"), fast)
    return tag("section", tag("h2", "What it looks at"), drawn, more, id="importance")


def _which(found: Permutation, measured: int) -> str:
    every = len(found.columns)
    words = ""
    if measured < every:
        words = f" Shuffled were the {measured} of {every} columns that move the prediction most."
    return words + (f" The first {MOST} are shown." if measured > MOST else "")


def _of(source: str) -> str:
    return "out-of-bag rows" if source == "out-of-bag" else source


def _score_of(fitted: FittedFile) -> tuple[str, Callable[[float], str]]:
    """What the score is called, and how its fall is written."""
    if isinstance(fitted.scored, ScoredTargets):
        names = "share of rows with all right", "mean R²"
        classes = fitted.table.task == "classification"
    else:
        names, classes = ("accuracy", "R²"), fitted.table.task == "classification"
    if classes:
        return f"{names[0]} (percentage points)", lambda drop: _signed(-100 * drop, 1)
    squared = fitted.model.target_.kind == "regression"
    return names[1] if squared else "score", lambda drop: _signed(-drop, 3)


def _signed(value: float, digits: int) -> str:
    text = f"{abs(value):.{digits}f}"
    return text if float(text) == 0 else ("+" if value > 0 else "−") + text


def draw_fast_importance(model: TableModel) -> Html:
    """The bars of ``feature_importances_``, named for what it is."""
    names, shares = column_names(model), 100 * model.feature_importances_
    order = np.argsort(-shares, kind="stable")[:MOST].tolist()
    rows = [
        (names[k], float(shares[k]), 0.0, f"{shares[k]:.1f} %", f"{names[k]}: {shares[k]:.1f} %")
        for k in order
    ]
    bars = bar_list(rows, fit_figures.colour(6), "Share of the response", FAST_CAPTION)
    caption = f"{FAST_CAPTION} Measured without labels: a column learned by heart may lead."
    return tag("figure", tag("div", bars, class_="single"), tag("figcaption", caption))


def draw_effects(fitted: FittedFile, explained: Explained) -> Html:
    """How the leading columns act."""
    if not explained.effects:
        return Html("")
    targets, drawn = fitted.table.targets, []
    for one in explained.effects:
        named, target = one, fitted.table.target
        if targets is not None and one.answers is None:
            target = targets.names[one.shown]
        elif targets is not None and one.answers is not None:
            # Labels that hold or not, by the names of their columns.
            alike = len(targets.names) == len(one.answers)
            named = replace(one, answers=list(targets.names)) if alike else one
        drawn.append(fit_figures.effect(named, target))
    caption = (
        "The mean answer if all rows had this cell, all else as it is, and that of single rows: "
        "where these are not alike, the effect depends on other columns. Of the columns that "
        f"matter most, on {_of(explained.source)}; hover for numbers."
    )
    heading = tag("h2", "How the columns act")
    return tag("section", heading, figure(drawn, caption), id="effects")


def draw_reasons(found: Sequence[tuple[str, str, Reasons]]) -> Html:
    """Why some rows got their answers; each with a title and a sentence."""
    cards = []
    for title, words, why in found:
        largest = float(np.abs(why.parts).max()) or 1.0
        lines = [
            _part(f"{name} = {cell}" if cell else name, float(part), largest, why)
            for name, cell, part in zip(
                why.columns[:PARTS], why.cells[:PARTS], why.parts[:PARTS], strict=True
            )
        ]
        rest = float(why.parts[PARTS:].sum())
        if len(why.parts) > PARTS:
            text = f"the {len(why.parts) - PARTS} other parts together"
            lines.append(_part(text, rest, largest, why))
        about = f"{words} Usual rows: {why.shown(why.usual)}."
        cards.append(
            tag("article", tag("h4", title), tag("p", about), *lines, class_="reasons")
        )  # fmt: skip
    return tag("div", *cards, class_="cards")


def _part(text: str, part: float, largest: float, why: Reasons) -> Html:
    width = min(50.0, 50 * abs(part) / largest)
    style = "plus" if part > 0 else "minus"
    bar = tag("span", class_=style, style=f"width: {width:.0f}%")
    number = tag("i", why.shown(part, sign=True))
    named = tag("b", short(text, 60), title=text)
    return tag("div", named, number, tag("div", bar, class_="beam"), class_="term")
