"""The picture and the table of the README, made from the committed results.

    python -m benchmarks.readme            # write README.md and docs/images/accuracy-time*.png
    python -m benchmarks.readme --check    # exit code 1 if README.md says something else

Nothing is measured here: `benchmarks.accuracy` measured the cells in ``results/paper``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks import accuracy_page as page
from benchmarks import mixed_page
from benchmarks.accuracy import FRESH
from benchmarks.mixed import CLASSES
from nrs._util.atomic import atomic_write
from nrs.pages.series import COLOURS
from nrs.paper.statistics import holm, ranks

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
BLOCK = re.compile(r"(<!-- table -->\n).*?(<!-- end of table -->)", re.DOTALL)
Read = Callable[[str], page.Scores]
# Light and dark pages: ink and paper.
PAPERS = {"": ("#1f2328", "#ffffff"), "-dark": ("#e6edf3", "#0d1117")}


def fresh(results: Path) -> Read:
    """Scores on tables that the recipe was not developed on, by measure."""
    return lambda measure: page.scores(results, FRESH, measure)


def mixed(results: Path) -> Read:
    """Scores on tables with strings, missing cells and rare classes, by measure."""
    return lambda measure: mixed_page.of(results, CLASSES, measure)


def rivals(found: page.Scores) -> page.Scores:
    """NRS and the peers that are ranked next to it, on the sets that all of them have."""
    names = tuple(dict.fromkeys(name for by_set in found.values() for name in by_set))
    chosen = page.ranked(found, names)
    return {method: chosen[method] for method in chosen if method != "NRS paper"}


def table(results: Path) -> str:
    """Markdown: average ranks, wins of NRS by log-loss with tests, fit times.

    Tests are Wilcoxon's signed-rank tests of NRS and each peer, adjusted by Holm for the peers.
    """
    columns: dict[str, dict[str, str]] = {}
    for title, read in (("new", fresh(results)), ("mixed", mixed(results))):
        for measure, name in (("accuracy", "accuracy"), ("log_loss", "log-loss")):
            signed = page.more_is_better(rivals(read(measure)), measure)
            heading = f"{len(signed['NRS'])} {title}: rank by {name}"
            columns[heading] = {m: f"{value:.2f}" for m, value in ranks(signed).items()}
        peers = [method for method in signed if method != "NRS"]
        gaps = [np.array([signed["NRS"][n] - signed[m][n] for n in signed[m]]) for m in peers]
        adjusted = holm([float(stats.wilcoxon(gap).pvalue) for gap in gaps])
        columns[f"{title}: NRS lower / higher"] = {
            m: f"{(gap > 0).sum()} / {(gap < 0).sum()}, p {_probability(p)}"
            for m, gap, p in zip(peers, gaps, adjusted, strict=True)
        }
    times = rivals(mixed(results)("fit_cpu_s"))
    columns["mixed: fit, CPU s"] = {
        m: f"{np.median(list(v.values())):.2g}" for m, v in times.items()
    }
    by_rank = sorted((float(by[m]), m) for k, by in columns.items() if "rank" in k for m in by)
    methods = dict.fromkeys(method for _, method in by_rank)
    rows = [
        [f"**{m}**" if m == "NRS" else m,
         *(by.get(m, "" if m == "NRS" else "–") for by in columns.values())]
        for m in methods
    ]  # fmt: skip
    lines = [["", *columns], [":--", *["--:"] * len(columns)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def readme(results: Path, text: str) -> str:
    """The text of the README with its table as the results say.

    Raises ValueError if the text has no place for it.
    """
    written, n = BLOCK.subn(lambda found: found[1] + table(results) + found[2], text)
    if n != 1:
        raise ValueError(f"README.md needs one <!-- table --> block; got {n}")
    return written


def points(results: Path) -> dict[str, tuple[float, float]]:
    """Median CPU seconds of a fit and mean accuracy, by method, on mixed tables with classes."""
    right, seconds = (mixed(results)(measure) for measure in ("accuracy", "fit_cpu_s"))
    nearly_all = {m: v for m, v in right.items() if len(v) >= page.LEAST_SHARE * len(CLASSES)}
    common = [name for name in CLASSES if all(name in v for v in nearly_all.values())]
    return {
        m: (
            float(np.median([seconds[m][name] for name in common])),
            float(np.mean([right[m][name] for name in common])),
        )
        for m in nearly_all
    }


def draw(found: dict[str, tuple[float, float]], n_sets: int, path: Path) -> None:
    """Accuracy against fit time, for a light and a dark page."""
    from matplotlib.figure import Figure

    for suffix, (ink, paper) in PAPERS.items():
        figure = Figure(figsize=(6, 3.5), dpi=200, layout="constrained", facecolor=paper)
        axes = figure.add_subplot(facecolor=paper)
        x, y = np.array(list(found.values())).T
        ours = [method.startswith("NRS") for method in found]
        hues = [COLOURS[1] if own else COLOURS[0] for own in ours]
        axes.scatter(x, y, s=[110 if own else 60 for own in ours], c=hues, zorder=3)
        axes.set_xscale("log")
        axes.set_xlim(x.min() / 4, x.max() * 4)
        low, high = y.min(), y.max()
        axes.set_ylim(low - 0.16 * (high - low), high + 0.18 * (high - low))
        ticks = [t for t in (0.01, 0.1, 1, 10, 100) if x.min() / 4 < t < x.max() * 4]
        axes.set_xticks(ticks, [f"{t:g} s" for t in ticks], color=ink)
        axes.minorticks_off()
        axes.tick_params(colors=ink, labelsize=11)
        axes.set_xlabel("median time of a fit, one thread", fontsize=11, color=ink)
        title = f"Mean accuracy on {n_sets} tables, %, every method at its defaults"
        axes.set_title(title, fontsize=11.5, color=ink, loc="left")
        axes.grid(color=ink, alpha=0.12)
        axes.spines[:].set_visible(False)
        _label(figure, axes, found, ink)
        figure.savefig(path.with_name(f"{path.stem}{suffix}.png"), facecolor=paper)


def _label(figure: Any, axes: Any, found: dict[str, tuple[float, float]], ink: str) -> None:
    """Name the points, each on the first side where its name meets no other name or point."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    dots = [axes.transData.transform(place) for place in found.values()]
    taken = [Bbox.from_extents(x - 14, y - 14, x + 14, y + 14) for x, y in dots]
    sides = [(9, 0, "left"), (-9, 0, "right"), (0, 15, "center"), (0, -15, "center")]
    for own, (method, place) in enumerate(found.items()):
        weight = "bold" if method.startswith("NRS") else "normal"
        for dx, dy, across in sides:
            name = axes.annotate(
                method, place, (dx, dy), textcoords="offset points", ha=across, va="center",
                fontsize=12, color=ink, weight=weight,
            )  # fmt: skip
            box = name.get_window_extent()
            others = [one for number, one in enumerate(taken) if number != own]
            if not any(box.overlaps(other) for other in others):
                break
            if (dx, dy, across) != sides[-1]:
                name.remove()
        taken.append(box)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    given = parser.parse_args(arguments)
    text = given.readme.read_text(encoding="utf-8")
    written = readme(given.results, text)
    if given.check:
        sys.exit(f"{given.readme} is not what the results say: run it without --check"
                 if written != text else 0)  # fmt: skip
    with atomic_write(given.readme) as file:
        file.write(written.encode())
    found = points(given.results)
    sets = mixed_page.of(given.results, CLASSES, "accuracy")
    n_sets = sum(all(name in sets[m] for m in found) for name in CLASSES)
    draw(found, n_sets, IMAGES / "accuracy-time.png")


if __name__ == "__main__":
    main()
