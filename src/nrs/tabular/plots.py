"""Pictures of a fit."""

from __future__ import annotations

from typing import Any

from nrs.core.optional import import_optional
from nrs.training import History


def plot_history(history: History, ax: Any = None) -> Any:
    """Draw the losses of a fit by epoch, and mark the epoch whose weights were kept.

    Raises
    ------
    ImportError
        Without matplotlib; the extra ``plots`` installs it.
    """
    plt = import_optional("matplotlib.pyplot", "plot_history", "plots")
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
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
