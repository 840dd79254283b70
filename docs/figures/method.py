"""Draw what NRS is: permutations, a grouped convolution, an ensemble of one-level trees.

Writes docs/images/method.png. Run by `make figures`. The permutations are those of a real layer:
5 features, n_mul = 2, n_h = 2, as in the paper's Figure 1.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from nrs import NRS

TARGET = Path(__file__).parents[1] / "images" / "method.png"
COLOURS = ["#c8553d", "#e0a458", "#588157", "#4878a8", "#8a6fb0"]
FEATURES, N_MUL, N_H = 5, 2, 2
SHOWN = 3
INK, PALE = "#222222", "#999999"


def cell(ax, x, y, feature, size=0.8, text=True):
    ax.add_patch(
        Rectangle((x, y), size, size, facecolor=COLOURS[feature], edgecolor="white", linewidth=1.2)
    )
    if text:
        ax.text(
            x + size / 2, y + size / 2 - 0.02, f"$x_{feature + 1}$",
            ha="center", va="center", color="white", fontsize=size * 13,
        )  # fmt: skip


def arrow(ax, start, end, label=""):
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, color=PALE, linewidth=1.4)
    )
    if label:
        ax.text((start[0] + end[0]) / 2, start[1] + 0.25, label, ha="center", fontsize=9, color=INK)


def heading(ax, x, title, subtitle):
    ax.text(x, 9.55, title, fontsize=13, fontweight="bold", color=INK, va="top")
    ax.text(x, 9.0, subtitle, fontsize=9, color="#555555", va="top", linespacing=1.35)


def tree(ax, x, y, features, number):
    """One channel as a one-level oblique tree."""
    ax.add_patch(
        FancyBboxPatch(
            (x, y - 0.42), 6.1, 0.84, boxstyle="round,pad=0.05", facecolor="white", edgecolor=PALE
        )
    )
    for position, feature in enumerate(features):
        left = x + 0.15 + position * 1.52
        ax.text(left, y, f"$w_{position + 1}$", va="center", fontsize=9, color="#555555")
        cell(ax, left + 0.58, y - 0.24, feature, size=0.48)
        if position < len(features) - 1:
            ax.text(left + 1.16, y, "+", va="center", fontsize=9, color="#555555")
    ax.text(x + 6.3, y, r"$+\,b \geq 0\;?$", va="center", fontsize=10, color=INK)
    for direction, outcome in ((0.42, r"yes: $S$"), (-0.42, "no: 0")):
        arrow(ax, (x + 8.35, y), (x + 9.15, y + direction))
        ax.text(x + 9.25, y + direction, outcome, va="center", fontsize=10, color=INK)
    ax.text(x - 0.25, y, f"tree {number}", ha="right", va="center", fontsize=9, color="#555555")


def main() -> None:
    layer = NRS(FEATURES, n_mul=N_MUL, n_h=N_H, seed=2)
    permutations = layer.index.view(-1, FEATURES).tolist()
    subspaces = layer.subspaces().tolist()
    figure, ax = plt.subplots(figsize=(14.2, 4.7), dpi=160)
    ax.set_xlim(0, 35.6)
    ax.set_ylim(-1.0, 9.7)
    ax.axis("off")

    heading(ax, 0.2, "A row", f"d = {FEATURES} features")
    for feature in range(FEATURES):
        cell(ax, 0.5, 6.2 - feature * 0.95, feature)
    arrow(ax, (1.9, 4.6), (3.3, 4.6))

    heading(
        ax, 3.5, "Expansion",
        "random permutations: every feature\noccurs M = n_mul · n_h² times",
    )  # fmt: skip
    for row, permutation in enumerate(permutations):
        for column, feature in enumerate(permutation):
            cell(ax, 3.7 + column * 0.82, 7.1 - row * 0.95, feature, size=0.78)
    arrow(ax, (8.2, 4.6), (9.6, 4.6))

    heading(
        ax, 9.8, "Random subspaces",
        "C = n_mul · d channels of\nn_h × n_h cells: one a learner",
    )  # fmt: skip
    for channel, features in enumerate(subspaces):
        left, low = 10.0 + (channel % 2) * 2.6, 6.3 - (channel // 2) * 1.75
        for position, feature in enumerate(features):
            cell(
                ax, left + (position % N_H) * 0.72, low + 0.72 - (position // N_H) * 0.72,
                feature, size=0.7,
            )  # fmt: skip
        ax.text(left + 1.55, low + 0.72, f"{channel + 1}", fontsize=8, color=PALE, va="center")
    arrow(ax, (15.2, 4.6), (16.6, 4.6))

    heading(
        ax, 17.4, "Aggregation",
        "A grouped convolution and ReLU: every channel becomes\n"
        "a one-level oblique tree on its own features",
    )  # fmt: skip
    for number in range(SHOWN):
        tree(ax, 18.4, 6.7 - number * 1.75, subspaces[number], number + 1)
    ax.text(21.4, 1.95, r"$\vdots$", fontsize=16, color=PALE, ha="center")
    tree(ax, 18.4, 0.45, subspaces[-1], len(subspaces))

    arrow(ax, (30.6, 4.0), (31.9, 4.0))
    heading(ax, 31.2, "Combination", "fully connected\nlayers")
    for column, (x, count) in enumerate(((32.6, 4), (33.9, 2))):
        heights = [4.0 + (k - (count - 1) / 2) * 1.0 for k in range(count)]
        for y in heights:
            ax.add_patch(Circle((x, y), 0.26, facecolor="white", edgecolor=INK, zorder=3))
            if column == 0:
                for end in (3.5, 4.5):
                    ax.plot([x, 33.9], [y, end], color="#cccccc", linewidth=0.8, zorder=1)
    figure.savefig(TARGET, bbox_inches="tight", facecolor="white")


if __name__ == "__main__":
    main()
