"""A picture of a grown adaptive neural tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nrs._util.optional import import_optional

_COLOURS = {"router": "#c8553d", "transformer": "#b8b8b8", "solver": "#4878a8"}
# Classes beyond this many are not named under the leaves, only drawn.
_MOST_NAMED = 3
# Heights of a leaf's picture below its middle: bars from here, this high, then words.
_BARS_AT, _BARS_HIGH, _WORDS_AT = -0.78, 0.5, -0.84


def plot_tree(
    nodes: Sequence[dict[str, Any]], classes: Sequence[Any] | None = None, ax: Any = None
) -> Any:
    """Draw routers, transformers and solvers; edges are as wide as the share of rows they carry.

    Under a leaf stand the classes of the rows that reach it, as bars in the order of `classes`
    with the most frequent named, or their mean target.

    Parameters
    ----------
    nodes : the `nodes_` of a fitted estimator.
    classes : names of the columns of the nodes' values; None for numbers.
    ax : matplotlib axes to draw on; None makes a figure of fitting size.

    Raises
    ------
    ImportError
        Without matplotlib; the extra ``plots`` installs it.
    """
    plt = import_optional("matplotlib.pyplot", "plot_tree", "plots")
    places = _places(nodes)
    lowest = min(y for _, y in places.values())
    leaves = sum(node["kind"] == "solver" for node in nodes)
    if ax is None:
        size = max(4.5, 1.25 * leaves + 1.2), max(3.0, 0.62 * (2.2 - lowest))
        _, ax = plt.subplots(figsize=size, layout="constrained")
    for node in nodes:
        x, y = places[node["node"]]
        above = (x, y + node["transformers"] + 1)
        if node["parent"] is not None:
            above = places[node["parent"]]
        _draw_edge(ax, node, above, (x, y))
        if node["kind"] == "solver":
            _draw_leaf(ax, node, (x, y), classes)
        else:
            _box(ax, (x, y), f"router {node['node']}", _COLOURS["router"])
    ax.annotate(
        "input", (places[0][0], places[0][1] + nodes[0]["transformers"] + 1),
        ha="center", va="center", fontsize=9, zorder=4,
        bbox={"fc": "white", "ec": "0.5", "boxstyle": "round"},
    )  # fmt: skip
    ax.set_xlim(-0.6, max(x for x, _ in places.values()) + 0.6)
    ax.set_ylim(lowest - 1.45, nodes[0]["transformers"] + 1.5)
    ax.axis("off")
    return ax


def _places(nodes: Sequence[dict[str, Any]]) -> dict[int, tuple[float, float]]:
    """Leaves side by side, a parent over the middle of its children, a step down a module."""
    children: dict[int, list[int]] = {}
    for node in nodes:
        if node["parent"] is not None:
            children.setdefault(node["parent"], []).append(node["node"])
    places: dict[int, tuple[float, float]] = {}
    column = 0

    def place(number: int, y: float) -> float:
        nonlocal column
        below = [
            place(child, y - 1.25 - nodes[child]["transformers"])
            for child in children.get(number, [])
        ]
        if below:
            x = sum(below) / len(below)
        else:
            x, column = float(column), column + 1
        places[number] = x, y
        return x

    place(0, 0.0)
    return places


def _draw_edge(
    ax: Any, node: dict[str, Any], above: tuple[float, float], at: tuple[float, float]
) -> None:
    # Aslant to the column of the node, then straight down it: so its transformers stand apart from
    # those of its sibling.
    bend = (at[0], at[1] + node["transformers"])
    ax.plot(
        [above[0], bend[0], at[0]], [above[1], bend[1], at[1]], color="0.75",
        linewidth=0.6 + 9 * node["reach"], solid_capstyle="round", solid_joinstyle="round",
        zorder=1,
    )  # fmt: skip
    for step in range(1, node["transformers"] + 1):
        place = (at[0], at[1] + step)
        _box(ax, place, "transformer", _COLOURS["transformer"], ink="black", size=7)


def _draw_leaf(
    ax: Any, node: dict[str, Any], at: tuple[float, float], classes: Sequence[Any] | None
) -> None:
    x, y = at
    _box(ax, at, f"solver {node['node']}", _COLOURS["solver"])
    share = f"{node['reach']:.0%}" if node["reach"] >= 0.01 else "under 1%"
    words = f"{share} of rows"
    if classes is None:
        shown = ", ".join(f"{value:.3g}" for value in node["value"][:_MOST_NAMED])
        words += f"\nmean {shown}{', …' if len(node['value']) > _MOST_NAMED else ''}"
        ax.annotate(words, (x, y - 0.38), ha="center", va="top", fontsize=8, zorder=3)
        return
    values = node["value"]
    width = 0.8 / len(values)
    highest = max([*values, 1e-12])
    ax.bar(
        [x - 0.4 + (position + 0.5) * width for position in range(len(values))],
        [_BARS_HIGH * value / highest for value in values],
        width=0.9 * width, bottom=y + _BARS_AT, color=_COLOURS["solver"], alpha=0.7, zorder=2,
    )  # fmt: skip
    ax.plot([x - 0.4, x + 0.4], [y + _BARS_AT] * 2, color="0.6", linewidth=0.6, zorder=2)
    common = sorted(range(len(values)), key=lambda position: -values[position])[:_MOST_NAMED]
    names = ", ".join(str(classes[position]) for position in common)
    more = ", …" if len(values) > _MOST_NAMED else ""
    ax.annotate(
        f"{words}\n{names}{more}", (x, y + _WORDS_AT), ha="center", va="top", fontsize=8, zorder=3
    )


def _box(
    ax: Any, at: tuple[float, float], words: str, colour: str, ink: str = "white", size: int = 8
) -> None:
    ax.annotate(
        words, at, ha="center", va="center", fontsize=size, color=ink, zorder=4,
        bbox={"boxstyle": "round,pad=0.25", "fc": colour, "ec": "none"},
    )  # fmt: skip
