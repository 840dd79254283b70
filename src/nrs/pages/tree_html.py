"""Trees drawn: the question with its weights, and what falls on either side."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrs._util.text import plain
from nrs.pages.fit_figures import colour, sums
from nrs.pages.html import Html, tag
from nrs.pages.svg import figure

_MAX_TERMS = 6
_MAX_CLASSES = 6

# Name, colour and mask of some rows.
Group = tuple[str, str, np.ndarray]
# Words, values of the rows, and whether their mean is a share.
Mean = tuple[str, np.ndarray, bool]


def draw_trees(trees: Any, rows: Any, truth: dict[str, np.ndarray], is_class: bool) -> Html:
    """The trees of a model, each with its question and, given rows, how they fall.

    `truth` holds the labels (if `is_class`) or numbers of the rows, (n_rows,) by target; it is
    empty if they are not known.
    """
    values = None if rows is None else trees.sums(rows)
    groups = [] if values is None else _groups(truth, is_class, len(values))
    means = _means(truth, is_class)
    drawn = []
    for place, tree in enumerate(trees):
        fallen = None if values is None else values[:, place]
        drawn.append(_draw_tree(place, tree, fallen, groups, means))
    return tag("div", *drawn, class_="trees")


def _means(truths: dict[str, np.ndarray], is_class: bool) -> list[Mean]:
    """What a leaf tells the mean of: numbers, and of several targets how often each holds."""
    if len(truths) == 1 and is_class:
        return []
    means: list[Mean] = []
    for name, truth in truths.items():
        if is_class:
            label = np.unique(truth)[-1]
            means.append((f"{name} = {label}:", truth == label, True))
        else:
            means.append(("mean" if len(truths) == 1 else f"mean {name}", truth, False))
    return means


def _groups(truths: dict[str, np.ndarray], is_class: bool, n_rows: int) -> list[Group]:
    """Rows by class, or by thirds of a number; of several targets all in one."""
    if len(truths) != 1:
        return [("rows", colour(0), np.ones(n_rows, dtype=bool))]
    (truth,) = truths.values()
    if is_class:
        labels, counts = np.unique(truth, return_counts=True)
        most = np.sort(np.argsort(-counts, kind="stable")[:_MAX_CLASSES])
        groups = [(str(labels[k]), colour(k), truth == labels[k]) for k in most.tolist()]
        if len(labels) > _MAX_CLASSES:
            groups.append(("others", "#8A8F98", ~np.isin(truth, labels[most])))
        return groups
    low, high = np.quantile(truth, [1 / 3, 2 / 3])
    return [
        (f"low (≤ {plain(low)})", colour(0), truth <= low),
        ("middle", "#8A8F98", (truth > low) & (truth <= high)),
        (f"high (> {plain(high)})", colour(1), truth > high),
    ]


def _draw_tree(
    place: int, tree: Any, values: np.ndarray | None, groups: list[Group], means: list[Mean]
) -> Html:
    order = sorted(range(len(tree.inputs)), key=lambda k: -abs(tree.weights[k]))
    largest = max((abs(weight) for weight in tree.weights), default=1.0) or 1.0
    terms = [_term(tree.inputs[k], tree.weights[k], largest) for k in order[:_MAX_TERMS]]
    more = len(order) - _MAX_TERMS
    if more > 0:
        terms.append(tag("div", f"and {more} smaller terms", class_="quiet"))
    question = tag("p", f"Is the sum at least {tree.threshold:.3g}?")
    parts = [
        tag("h3", f"Tree {place + 1}", tag("span", f" reads {len(tree.columns)} columns, "
            f"{100 * tree.importance:.2g} % of the response", class_="quiet")),
        tag("div", *terms, question, class_="root"),
        tag("div", tag("span"), class_="branches", aria_hidden="true"),
    ]  # fmt: skip
    if values is None:
        leaves = [
            tag("div", tag("strong", f"no: {100 * (1 - tree.yes):.0f} %"), class_="leaf"),
            tag("div", tag("strong", f"yes: {100 * tree.yes:.0f} %"), class_="leaf"),
        ]
    else:
        yes = values >= 0
        leaves = [_leaf("no", ~yes, groups, means), _leaf("yes", yes, groups, means)]
    parts.append(tag("div", *leaves, class_="leaves"))
    if values is not None:
        caption = "Rows by their sum; right of the line the tree says yes."
        parts.append(figure([sums(values, groups)], caption))
    return tag("article", *parts, class_="tree")


def _term(name: str, weight: float, largest: float) -> Html:
    width = 50 * abs(weight) / largest
    bar = tag("span", class_="plus" if weight > 0 else "minus", style=f"width: {width:.0f}%")
    parts = tag("b", name, title=name), tag("i", f"{weight:+.2f}"), tag("div", bar, class_="beam")
    return tag("div", *parts, class_="term")


def _leaf(word: str, side: np.ndarray, groups: list[Group], means: list[Mean]) -> Html:
    n = int(side.sum())
    share = _percent(n / max(len(side), 1))
    parts = [tag("strong", f"{word}: {n:,} rows ({share})")]
    if n and len(groups) > 1:
        counts = [int((mask & side).sum()) for _, _, mask in groups]
        bars = [
            tag("span", style=f"flex-grow: {count}; background: {ink}")
            for count, (_, ink, _) in zip(counts, groups, strict=True)
            if count
        ]
        items = [
            tag("li", f"{name} {_percent(count / n)}", style=f"--swatch: {ink}")
            for count, (name, ink, _) in zip(counts, groups, strict=True)
        ]
        parts += [tag("div", *bars, class_="shares", aria_hidden="true"), tag("ul", *items)]
    for name, values, is_share in means if n else []:
        mean = float(values[side].mean())
        shown = _percent(mean) if is_share else plain(mean)
        parts.append(tag("div", f"{name} {shown}", class_="quiet"))
    return tag("div", *parts, class_="leaf")


def _percent(share: float) -> str:
    # A narrow leaf must not part the number from its sign.
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"
