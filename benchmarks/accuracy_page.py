"""What `benchmarks.accuracy` found, as a page: tables, ranks, paired tests, one picture.

A method that was not run on nearly all sets takes no part in ranks and tests: it would leave few
sets to rank the others on. Its own sets are ranked beside them. Ranks are taken over the sets on
which all others were run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.accuracy import (
    ABLATION,
    DEVELOPMENT,
    FRESH,
    METHODS,
    REGRESSION,
    SEEDS,
)
from benchmarks.measure import table as text_table
from nrs._util.atomic import atomic_write
from nrs.paper.results import Results
from nrs.paper.statistics import critical_differences, ranks, wilcoxon_holm
from nrs.paper.table import Cell, Subject

# What methods are compared by, whether more of it is better, and its digits.
MEASURES = {
    "accuracy": (True, 2),
    "balanced_accuracy": (True, 2),
    "log_loss": (False, 4),
    "auc": (True, 2),
    "calibration": (False, 2),
    "rmse": (False, 4),
}
# Presets of ours that are not rivals of the default: they are shown, and not ranked.
ASIDE = ("NRS fast", "NRS best")
# A method that ran on a smaller share of the sets is not ranked.
LEAST_SHARE = 0.8

Scores = dict[str, dict[str, float]]
Trials = dict[str, dict[str, dict[int, float]]]


def trials(
    results: Path,
    names: tuple[str, ...],
    measure: str,
    methods: tuple[str, ...] = METHODS,
    *,
    table: str = "benchmark",
    seeds: int = SEEDS,
) -> Trials:
    """Values by method, data set and seed; only finished cells."""
    folder = Results(results)
    group = "times" if measure.endswith("_s") else "metrics"
    group = "data" if measure == "multiply_adds" else group
    found: Trials = {}
    for method in methods:
        for name in names:
            for seed in range(seeds):
                record = folder.read(Cell(Subject(table, name, method), seed))
                if record is not None and record["status"] == "ok":
                    by_set = found.setdefault(method, {})
                    by_set.setdefault(name, {})[seed] = float(record[group][measure])
    return found


def scores(
    results: Path, names: tuple[str, ...], measure: str, methods: tuple[str, ...] = METHODS
) -> Scores:
    """Means over the seeds, by method and data set; only finished cells."""
    return {
        method: {name: float(np.mean(list(values.values()))) for name, values in by_set.items()}
        for method, by_set in trials(results, names, measure, methods).items()
    }


def ranked(found: Scores, names: tuple[str, ...]) -> Scores:
    """The methods to be ranked, on the sets that they all have."""
    methods = [
        method
        for method, by_set in found.items()
        if method not in ASIDE and len(by_set) >= LEAST_SHARE * len(names)
    ]
    common = [name for name in names if all(name in found[method] for method in methods)]
    return {method: {name: found[method][name] for name in common} for method in methods}


def _with_aside(found: Scores, chosen: Scores) -> Scores:
    """Those that are ranked, and our other presets where they ran on the same sets."""
    # NRS itself may have run on too few sets to be ranked.
    common = list(next(iter(chosen.values()), {}))
    return {
        method: {name: by_set[name] for name in common}
        for method, by_set in found.items()
        if method in chosen or (method in ASIDE and all(name in by_set for name in common))
    }


def summary(
    read: Callable[[str], Scores], names: tuple[str, ...], title: str, measures: tuple[str, ...]
) -> str:
    """Markdown: every set, means, average ranks, wins, paired tests, times.

    `read` gives the scores of a measure.
    """
    parts = [f"{title}\n"]
    for measure in measures:
        parts.append(_measured(read(measure), names, measure))
    fit = read("fit_cpu_s")
    if "NRS" not in fit:
        return "\n".join(parts)
    times = []
    for measure in ("fit_cpu_s", "predict_cpu_s"):
        found = read(measure)
        shared = _with_aside(found, ranked(found, names))
        medians = {m: float(np.median(list(v.values()))) for m, v in shared.items() if v}
        shown = ", ".join(f"{m} {value:.2f}" for m, value in medians.items())
        times.append(f"Median {measure.split('_')[0]} time, CPU seconds: {shown}.")
    ours, pairs = fit["NRS"], []
    for method, by_set in fit.items():
        both = [name for name in by_set if name in ours]
        if method != "NRS" and both:
            ratio = float(np.median([by_set[name] / ours[name] for name in both]))
            pairs.append(f"{method} {ratio:.2f} ({len(both)} sets)")
    times.append(f"Fit time over that of NRS, median of the sets: {', '.join(pairs)}.\n")
    return "\n".join([*parts, *times])


def _measured(found: Scores, names: tuple[str, ...], measure: str) -> str:
    more, digits = MEASURES[measure]
    chosen = ranked(found, names)
    if "NRS" not in chosen or len(chosen) < 2 or not chosen["NRS"]:
        return f"### {measure}\n\nnot run on enough sets yet\n"
    common = tuple(chosen["NRS"])
    signed = more_is_better(chosen, measure)
    rank = ranks(signed)
    rows: list[list[str]] = [
        [name, *(_shown(found[m].get(name), digits) for m in found)]
        for name in names
        if any(name in by_set for by_set in found.values())
    ]
    label, means = _means(_with_aside(found, chosen), measure)
    rows.append([label, *(_shown(means.get(m), digits) for m in found)])
    rows.append(["average rank", *(_shown(rank.get(m), 2) for m in found)])
    rows.append(["NRS wins/ties/loses", *(_against(found, m, more) for m in found)])
    lines = [
        f"### {measure}\n",
        text_table(["", *found], rows),
        "",
        f"Means and ranks over {len(common)} sets; wins over the sets that both ran on.\n",
        "Wilcoxon signed-rank tests, Holm-adjusted: "
        + ", ".join(
            f"{({test['first'], test['second']} - {'NRS'}).pop()} p = {test['p_holm']:.3f}"
            for test in wilcoxon_holm(signed)
            if "NRS" in (test["first"], test["second"])
        )
        + ".\n",
        *_partial(found, signed, measure),
    ]
    return "\n".join(lines)


def _means(chosen: Scores, measure: str) -> tuple[str, dict[str, float]]:
    """Errors in different units have no mean, but the times of NRS's error that others make do."""
    if measure != "rmse":
        return "mean", {m: float(np.mean(list(v.values()))) for m, v in chosen.items()}
    times = {
        m: [np.log(error / chosen["NRS"][name]) for name, error in v.items()]
        for m, v in chosen.items()
    }
    return "over NRS, geometric mean", {m: float(np.exp(np.mean(v))) for m, v in times.items()}


def more_is_better(found: Scores, measure: str) -> Scores:
    """Scores of which more is better; of errors their logarithms, as tests compare differences."""
    if measure == "rmse":
        return {m: {n: -math.log(v) for n, v in by_set.items()} for m, by_set in found.items()}
    sign = 1 if MEASURES[measure][0] else -1
    return {m: {n: sign * v for n, v in by_set.items()} for m, by_set in found.items()}


def _partial(found: Scores, signed: Scores, measure: str) -> list[str]:
    """Ranks with each method that was run on some sets, on those."""
    lines = []
    for method, by_set in more_is_better(found, measure).items():
        shared = [name for name in by_set if name in signed["NRS"]]
        if method in signed or method in ASIDE or len(shared) < 2:
            continue
        own = {method: {name: by_set[name] for name in shared}}
        rank = ranks(own | {m: {name: v[name] for name in shared} for m, v in signed.items()})
        shown = ", ".join(f"{m} {value:.2f}" for m, value in sorted(rank.items(), key=_second))
        lines.append(f"Average ranks on the {len(shared)} sets of {method}: {shown}.\n")
    return lines


def _second(pair: tuple[str, float]) -> float:
    return pair[1]


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _against(found: Scores, method: str, more: bool) -> str:
    if method == "NRS":
        return ""
    shared = [name for name in found[method] if name in found["NRS"]]
    gaps = [(found["NRS"][n] - found[method][n]) * (1 if more else -1) for n in shared]
    return "/".join(str(int((np.sign(gaps) == sign).sum())) for sign in (1, 0, -1))


def ablation(results: Path) -> tuple[str, dict[str, tuple[float, float]]]:
    """Markdown, and the mean difference to NRS in accuracy and log-loss, by variant."""
    variants = ("NRS", *ABLATION, "NRS paper")
    accuracy, loss = (
        scores(results, DEVELOPMENT, measure, variants) for measure in ("accuracy", "log_loss")
    )
    found, rows = {}, []
    for variant in (*ABLATION, "NRS paper"):
        shared = [n for n in accuracy.get(variant, {}) if n in accuracy.get("NRS", {})]
        if shared:
            gaps = [
                float(np.mean([each[variant][n] - each["NRS"][n] for n in shared]))
                for each in (accuracy, loss)
            ]
            found[variant] = (gaps[0], gaps[1])
            rows.append([variant, f"{gaps[0]:+.2f}", f"{gaps[1]:+.4f}", str(len(shared))])
    if not rows:
        return "", {}
    header = ["", "accuracy", "log-loss", "sets"]
    text = (
        "## What each ingredient is worth\n\nThe default with one ingredient changed, less the "
        "default itself, averaged over development sets. Differences below a point are within "
        f"what other seeds give.\n\n{text_table(header, rows)}\n"
    )
    return text, found


def coverage(results: Path) -> str:
    """How often 90 % intervals held the truth."""
    found = scores(results, REGRESSION, "coverage", ("NRS",)).get("NRS")
    if not found:
        return ""
    each = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    return f"90 % intervals of NRS cover {np.mean(list(found.values())):.1f} % ({each}).\n"


def show(results: Path, out: Path, before: Path | None = None) -> None:
    """Write ``<out>.md`` and ``<out>.png``; costs are compared with those of `before`."""
    from benchmarks import autogluon, mixed_page

    def section(names: tuple[str, ...], title: str, measures: tuple[str, ...]) -> str:
        return summary(lambda measure: scores(results, names, measure), names, title, measures)

    of_classes = ("accuracy", "log_loss", "calibration")
    ablated, gaps = ablation(results)
    text = [
        "# Accuracy at defaults\n",
        "Made by `python -m benchmarks.accuracy run` and `… show`; that file has the rules, the "
        "cells under `results/paper/benchmark` and `results/paper/mixed` the seeds, versions and "
        "commits.\n",
        section(FRESH, "## Sets that the recipe was not developed on", of_classes),
        section(DEVELOPMENT, "## Sets that it was developed on", of_classes),
        section(REGRESSION, "## Regression", ("rmse",)),
        coverage(results),
        mixed_page.section(results, before),
        autogluon.summary(results / "autogluon.json"),
        ablated,
        Path(__file__).with_name("ingredients.md").read_text(encoding="utf-8"),
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out.with_suffix(".md")) as file:
        file.write("\n".join(text).encode())
    _picture(results, gaps, out.with_suffix(".png"))
    print("\n".join(text))


def _picture(results: Path, gaps: dict[str, tuple[float, float]], path: Path) -> None:
    """Ranks by accuracy and by log-loss, and what each ingredient is worth."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11 if gaps else 7.4, 6.4), dpi=130, layout="constrained")
    grid = figure.add_gridspec(2, 2 if gaps else 1, width_ratios=[1.6, 1] if gaps else None)
    for place, (measure, title) in enumerate(
        [("accuracy", "Average rank by accuracy"), ("log_loss", "Average rank by log-loss")]
    ):
        found = ranked(scores(results, FRESH, measure), FRESH)
        if len(found) > 2 and len(next(iter(found.values()))) > 1:
            axes = figure.add_subplot(grid[place, 0])
            critical_differences(more_is_better(found, measure), axes)
            axes.set_title(f"{title}, {len(next(iter(found.values())))} sets", fontsize=10)
    if gaps:
        axes = figure.add_subplot(grid[:, 1])
        names = list(gaps)[::-1]
        axes.barh(names, [gaps[name][1] for name in names], color="#4a7fb5")
        axes.axvline(0, color="black", linewidth=0.8)
        axes.locator_params(axis="x", nbins=4)
        axes.set_title("Log-loss added by the change", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
