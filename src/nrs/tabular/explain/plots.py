"""Pictures of trees and of what counts, with matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrs._util.optional import import_optional
from nrs.tabular.explain.inputs import column_names
from nrs.tabular.explain.trees import Trees
from nrs.tabular.targets import ClassTarget

BLUE, RED, GREY = "#4878a8", "#c8553d", "0.55"
COLOURS = ("#4878a8", "#c8553d", "#588157", "#e0a458", "#8a6fb0", "#4aa3a2", "#a0616a", "#7d7d7d")
# More columns, or more classes, are not told apart in a small picture.
MOST_BARS = 10
BINS = 40


def plot_importance(model: Any, n: int = 20, ax: Any = None) -> Any:
    """Draw the importance of the columns, the largest on top; returns the axes.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    n : how many columns to draw.
    ax : axes to draw in; a new figure's if None.
    """
    plt = import_optional("matplotlib.pyplot", "plot_importance", "plots")
    values = model.feature_importances_
    names = column_names(model.encoder_)
    order = np.argsort(-values, kind="stable")[:n][::-1]
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 0.9 + 0.28 * len(order)), layout="constrained")
    ax.barh([_short(names[i], 28) for i in order], values[order], color=BLUE, height=0.7)
    ax.set_xlabel("share of the model's response")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.margins(y=0.02)
    return ax


def plot_tree(model: Any, X: Any, y: Any = None, tree: int = 0, axes: Any = None) -> Any:
    """Draw one tree: what it weighs, and where the rows of a table fall about its threshold.

    Left, for each column that it reads, how far its part of the weighted sum reaches over the rows:
    the bar ends at the 10 and 90 % quantiles of the rows, relative to their mean. Right, the
    weighted sums of all rows, by class if `y` is given; the tree says yes to those right of the
    threshold.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X, y : rows to draw, and their labels.
    tree : number of the tree in ``model.trees()``: 0 is the most important one.
    axes : two axes to draw in.

    Returns
    -------
    axes
        The two that were drawn in.
    """
    plt = import_optional("matplotlib.pyplot", "plot_tree", "plots")
    trees: Trees = model.trees(tree + 1)
    if not 0 <= tree < len(trees):
        raise ValueError(f"tree must be below the number of trees {len(trees)}, however: {tree}")
    one = trees[tree]
    if axes is None:
        bars = min(len(one.columns), MOST_BARS)
        size = (9, max(2.8, 1.3 + 0.26 * bars))
        _, axes = plt.subplots(1, 2, figsize=size, width_ratios=(2, 3), layout="constrained")
    _draw_parts(axes[0], one.columns, trees.contributions(X, tree))
    sums = trees[tree : tree + 1].sums(X)[:, 0] + one.threshold
    _draw_sides(axes[1], model, sums, one.threshold, y)
    axes[0].set_title(f"tree {one.tree} of member {one.member}", loc="left", fontsize=10)
    axes[1].set_title(
        f"importance {one.importance:.2%}, number {tree + 1} of all", loc="left", fontsize=10
    )
    return axes


def plot_forest(model: Any, X: Any, y: Any = None, n: int = 9) -> Any:
    """Draw the `n` most important trees as small pictures of how the rows fall; returns the figure.

    Each picture shows the weighted sums of the rows, by class if `y` is given, and the columns
    that weigh most.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X, y : rows to draw, and their labels.
    n : how many trees to draw.
    """
    plt = import_optional("matplotlib.pyplot", "plot_forest", "plots")
    trees: Trees = model.trees(n)
    across = min(3, len(trees))
    down = -(-len(trees) // across)
    figure, grid = plt.subplots(
        down, across, figsize=(3.4 * across, 2.3 * down + 0.4), layout="constrained", squeeze=False
    )
    sums = trees.sums(X)
    for place, ax in enumerate(grid.flat):
        if place >= len(trees):
            ax.axis("off")
            continue
        one = trees[place]
        _draw_sides(ax, model, sums[:, place] + one.threshold, one.threshold, y, small=True)
        spread = trees.contributions(X, place).std(0)
        heaviest = [_short(one.columns[i], 16) for i in np.argsort(-spread)[:3]]
        more = f" +{len(one.columns) - 3}" if len(one.columns) > 3 else ""
        ax.set_title(", ".join(heaviest) + more, loc="left", fontsize=8)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(
            handles, labels, loc="outside upper right", ncols=min(8, len(labels)), frameon=False,
            fontsize=8,
        )  # fmt: skip
    return figure


def _draw_parts(ax: Any, columns: tuple[str, ...], parts: np.ndarray) -> None:
    low, middle, high = np.quantile(parts, [0.1, 0.5, 0.9], axis=0) - parts.mean(0)
    order = np.argsort(parts.std(0))[-MOST_BARS:]
    places = np.arange(len(order))
    ax.barh(places, high[order] - low[order], left=low[order], color=BLUE, height=0.6)
    ax.plot(middle[order], places, "|", color="white", markersize=8)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.set_yticks(places, [_short(columns[i], 24) for i in order])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("part of the weighted sum")
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_sides(
    ax: Any, model: Any, sums: np.ndarray, threshold: float, y: Any, small: bool = False
) -> None:
    groups = _groups(model, y, len(sums))
    edges = np.histogram_bin_edges(sums, BINS)
    heights = [sums[rows] for _, rows in groups]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(groups))]
    labels = [label for label, _ in groups]
    ax.hist(heights, edges, stacked=True, color=colours, label=labels, linewidth=0)
    ax.axvline(threshold, color="black", linewidth=1.1)
    top = ax.get_ylim()[1]
    ax.set_ylim(0, top * 1.14)
    yes = float((sums >= threshold).mean())
    for side, text, align in ((-4, f"no {1 - yes:.0%}", "right"), (4, f"yes {yes:.0%}", "left")):
        ax.annotate(
            text, (threshold, 0.985), xycoords=("data", "axes fraction"), xytext=(side, 0),
            textcoords="offset points", ha=align, va="top", fontsize=7 if small else 9,
        )  # fmt: skip
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)
    if small:
        ax.tick_params(axis="x", labelsize=7)
        return
    ax.set_xlabel("weighted sum; the line is the threshold")
    if len(groups) > 1:
        ax.legend(frameon=False, fontsize=8, loc="upper left")


def _groups(model: Any, y: Any, n_rows: int) -> list[tuple[str, np.ndarray]]:
    """Rows by class, the last group being all further classes."""
    target = model.target_
    if y is None or not isinstance(target, ClassTarget):
        return [("rows", np.ones(n_rows, dtype=bool))]
    labels = np.asarray(y)
    most = len(COLOURS)
    shown = target.classes if len(target.classes) <= most else target.classes[: most - 1]
    groups = [(str(label), labels == label) for label in shown.tolist()]
    if len(shown) < len(target.classes):
        groups.append(("others", ~np.isin(labels, shown)))
    return groups


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
