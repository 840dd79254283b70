"""Plots of trees and importances, of a fit and of a search, with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs._util.optional import import_optional
from nrs.tabular.targets import Target
from nrs.training import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.explain.effects import Effect
    from nrs.tabular.forest.estimator import ForestEstimator
    from nrs.tabular.types import ArrayLike, Json, TableLike

COLOURS = ("#4878a8", "#c8553d", "#588157", "#e0a458", "#8a6fb0", "#4aa3a2", "#a0616a", "#7d7d7d")
BLUE, RED = COLOURS[:2]
# More columns are hard to read in a small plot.
MAX_BARS = 10
BINS = 40


def plot_importance(model: TableEstimator, n: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the importance of the columns, the largest on top; returns the axes.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    n : how many columns to draw.
    ax : axes to draw in; a new figure's if None.
    """
    values, names = model.feature_importances_, model.encoder_.column_names
    order = np.argsort(-values, kind="stable")[:n][::-1]
    ax = ax or _subplots("plot_importance", figsize=(6, 0.9 + 0.28 * len(order)))[1]
    _draw_bars(ax, [_short(names[i], 28) for i in order], values[order], height=0.7)
    ax.set_xlabel("share of the model's response")
    ax.margins(y=0.02)
    return ax


def plot_tree(
    model: ForestEstimator,
    X: TableLike,
    y: ArrayLike | None = None,
    tree: int = 0,
    axes: Sequence[Axes] | None = None,
) -> Sequence[Axes]:
    """Draw one tree: its columns, and where the rows of a table lie relative to its threshold.

    Left: for each column that it reads, the 10 to 90 % quantiles over the rows of its part of the
    weighted sum, relative to their mean. Right: the weighted sums of all rows, by class if `y` is
    given; the tree says yes to those right of the threshold.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X, y : rows to draw, and their labels.
    tree : number of the tree in ``model.trees()``: 0 is the most important one.
    axes : two axes to draw in; a new figure's if None.

    Returns
    -------
    axes
        The two that were drawn in.

    Raises
    ------
    ValueError
        If there is no tree of that number.
    """
    trees = model.trees()
    if not 0 <= tree < len(trees):
        raise ValueError(f"tree must be from 0 to {len(trees) - 1}; got {tree}")
    one, parts = trees[tree], trees.contributions(X, tree)
    order = np.argsort(parts.std(0))[-MAX_BARS:]
    if axes is None:
        size = (9, max(2.8, 1.3 + 0.26 * len(order)))
        axes = _subplots("plot_tree", 1, 2, figsize=size, width_ratios=(2, 3))[1]
    left, right = axes
    low, middle, high = (np.quantile(parts, [0.1, 0.5, 0.9], axis=0) - parts.mean(0))[:, order]
    names = [_short(one.columns[i], 24) for i in order]
    _draw_bars(left, names, high - low, left=low, height=0.6)
    left.plot(middle, range(len(order)), "|", color="white", markersize=8)
    left.axvline(0, color="0.55", linewidth=0.8)
    left.set_xlabel("part of the weighted sum")
    left.set_title(f"tree {one.tree} of member {one.member}", loc="left", fontsize=10)
    _draw_sides(right, model.target_, parts.sum(1), one.threshold, y, fontsize=9)
    right.set_xlabel("weighted sum; the line is the threshold")
    title = f"importance {one.importance:.2%}, number {tree + 1} of all"
    right.set_title(title, loc="left", fontsize=10)
    if len(right.get_legend_handles_labels()[1]) > 1:
        right.legend(frameon=False, fontsize=8, loc="upper left")
    return axes


def plot_forest(
    model: ForestEstimator, X: TableLike, y: ArrayLike | None = None, n: int = 9
) -> Figure:
    """Draw the `n` most important trees as small plots of the rows; returns the figure.

    Each shows the weighted sums of the rows, by class if `y` is given, and the heaviest columns.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X, y : rows to draw, and their labels.
    n : how many trees to draw.
    """
    trees = model.trees(n)
    across = min(3, len(trees))
    down = -(-len(trees) // across)
    size = (3.4 * across, 2.3 * down + 0.4)
    figure, grid = _subplots("plot_forest", down, across, figsize=size, squeeze=False)
    for ax in grid.flat[len(trees) :]:
        ax.axis("off")
    for place, (one, ax) in enumerate(zip(trees, grid.flat, strict=False)):
        parts = trees.contributions(X, place)
        _draw_sides(ax, model.target_, parts.sum(1), one.threshold, y, fontsize=7)
        ax.tick_params(axis="x", labelsize=7)
        heaviest = [_short(one.columns[i], 16) for i in np.argsort(-parts.std(0))[:3]]
        more = f" +{len(one.columns) - 3}" if len(one.columns) > 3 else ""
        ax.set_title(", ".join(heaviest) + more, loc="left", fontsize=8)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(
            handles, labels, loc="outside upper right", ncols=min(8, len(labels)), frameon=False,
            fontsize=8,
        )  # fmt: skip
    return figure


def plot_effect(found: Effect, ax: Axes | None = None) -> Axes:
    """Draw an effect: the mean answer thick, the answers of single rows thin; returns the axes.

    Parameters
    ----------
    found : what :func:`nrs.explain.effect` returned.
    ax : axes to draw in; a new figure's if None.
    """
    ax = ax or _subplots("plot_effect", figsize=(5, 3.4))[1]
    places = np.arange(len(found.cells))
    named = np.isnan(found.at)
    if named.all():
        ax.plot(places, found.curves[:, :60], ".", color="0.75", markersize=3, zorder=1)
        ax.plot(places, found.mean[:, found.shown], "o", color=BLUE)
        ax.set_xticks(places, [_short(cell, 14) for cell in found.cells])
    else:
        at, ordered = found.at[~named], found.kind == "date"
        across = at.astype("datetime64[s]") if ordered else at
        ax.plot(across, found.curves[~named][:, :60], color="0.8", linewidth=0.6, zorder=1)
        ax.plot(across, found.mean[~named, found.shown], color=BLUE, linewidth=2.2)
        for value in found.mean[named, found.shown]:
            ax.axhline(value, color=RED, linewidth=1, linestyle=":", label="missing")
            ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    label = (
        "prediction" if found.answers is None else f"probability of {found.answers[found.shown]}"
    )
    ax.set(xlabel=found.column, ylabel=label)
    return ax


def plot_history(history: History, ax: Axes | None = None) -> Axes:
    """Draw the losses of a fit by epoch, and mark the epoch whose weights were kept."""
    ax = ax or _subplots("plot_history")[1]
    epochs = history["epoch"]
    ax.plot(epochs, history["train_loss"], label="training", color=BLUE)
    if "val_loss" in history.columns:
        ax.plot(epochs, history["val_loss"], label="held out", color=RED)
        if history.best_epoch is not None:
            ax.axvline(history.best_epoch, color="0.6", linewidth=1, linestyle="--")
            ax.annotate(
                "kept", (history.best_epoch, 0.97), xycoords=("data", "axes fraction"),
                xytext=(4, 0), textcoords="offset points", va="top", color="0.4",
            )  # fmt: skip
    return _finish(ax, "epoch", "loss")


def plot_trials(trials: list[Json], ax: Axes | None = None) -> Axes:
    """Draw the score of every trial of a search, and the best so far."""
    ax = ax or _subplots("plot_history")[1]
    for state, color in (("pruned", "0.7"), ("complete", BLUE)):
        chosen = [(one["number"], one["score"]) for one in trials if one["state"] == state]
        if chosen:
            places, scores = zip(*chosen, strict=True)
            ax.scatter(places, scores, s=18, color=color, label=state)
    complete = [one["score"] if one["state"] == "complete" else -math.inf for one in trials]
    numbers, best = [one["number"] for one in trials], np.maximum.accumulate(complete)
    ax.step(numbers, best, where="post", color=RED, label="best so far")
    return _finish(ax, "trial", "score")


def _finish(ax: Axes, x: str, y: str) -> Axes:
    ax.set(xlabel=x, ylabel=y)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def _draw_bars(ax: Axes, names: list[str], widths: np.ndarray, **options: Any) -> None:
    # By place, since names cut short may be alike.
    ax.barh(range(len(names)), widths, color=BLUE, **options)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_sides(
    ax: Axes,
    target: Target,
    sums: np.ndarray,
    threshold: float,
    y: ArrayLike | None,
    fontsize: float,
) -> None:
    """Draw a histogram of weighted sums by class, and the shares on both sides of a threshold."""
    labels, heights = ["rows"], [sums]
    if y is not None and target.classes is not None and not target.several:
        classes, of = target.classes, np.asarray(y)
        shown = classes if len(classes) <= len(COLOURS) else classes[: len(COLOURS) - 1]
        labels, heights = list(map(str, shown.tolist())), [sums[of == label] for label in shown]
        if len(shown) < len(classes):
            labels, heights = [*labels, "others"], [*heights, sums[~np.isin(of, shown)]]
    edges = np.histogram_bin_edges(sums, BINS).tolist()
    colours = COLOURS[: len(labels)]
    ax.hist(heights, edges, stacked=True, color=colours, label=labels, linewidth=0)
    ax.axvline(threshold, color="black", linewidth=1.1)
    ax.set_ylim(0, ax.get_ylim()[1] * 1.14)
    yes = float((sums >= threshold).mean())
    for side, text, align in ((-4, f"no {1 - yes:.0%}", "right"), (4, f"yes {yes:.0%}", "left")):
        ax.annotate(
            text, (threshold, 0.985), xycoords=("data", "axes fraction"), xytext=(side, 0),
            textcoords="offset points", ha=align, va="top", fontsize=fontsize,
        )  # fmt: skip
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)


def _subplots(user: str, *grid: int, figsize: tuple[float, float] = (6, 3.6), **more: Any) -> Any:
    plt = import_optional("matplotlib.pyplot", user, "plots")
    return plt.subplots(*grid, figsize=figsize, layout="constrained", **more)


def _short(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
