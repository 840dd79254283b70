"""Pictures of a fit."""

from __future__ import annotations

import math
from typing import Any

from nrs._util.optional import import_optional
from nrs.training import History


def plot_history(history: History, ax: Any = None) -> Any:
    """Draw the losses of a fit by epoch, and mark the epoch whose weights were kept.

    Raises
    ------
    ImportError
        Without matplotlib; the extra ``plots`` installs it.
    """
    ax = _axes(ax)
    epochs = history["epoch"]
    ax.plot(epochs, history["train_loss"], label="training", color="#4878a8")
    if "val_loss" in history.columns:
        ax.plot(epochs, history["val_loss"], label="held out", color="#c8553d")
        if history.best_epoch is not None:
            ax.axvline(history.best_epoch, color="0.6", linewidth=1, linestyle="--")
            ax.annotate(
                "kept", (history.best_epoch, 0.97), xycoords=("data", "axes fraction"),
                xytext=(4, 0), textcoords="offset points", va="top", color="0.4",
            )  # fmt: skip
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def plot_trials(trials: list[dict[str, Any]], ax: Any = None) -> Any:
    """Draw the score of every trial of a search, and the best so far.

    Raises
    ------
    ImportError
        Without matplotlib; the extra ``plots`` installs it.
    """
    ax = _axes(ax)
    for state, color in (("pruned", "0.7"), ("complete", "#4878a8")):
        chosen = [one for one in trials if one["state"] == state]
        if chosen:
            places = [one["number"] for one in chosen]
            ax.scatter(places, [one["score"] for one in chosen], s=18, color=color, label=state)
    best: list[float] = []
    for one in trials:
        score = one["score"] if one["state"] == "complete" else -math.inf
        best.append(max([score, *best[-1:]]))
    ax.step(
        [one["number"] for one in trials], best, where="post", color="#c8553d", label="best so far"
    )
    ax.set_xlabel("trial")
    ax.set_ylabel("score")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def _axes(ax: Any) -> Any:
    plt = import_optional("matplotlib.pyplot", "plot_history", "plots")
    return plt.subplots(figsize=(6, 3.6), layout="constrained")[1] if ax is None else ax
