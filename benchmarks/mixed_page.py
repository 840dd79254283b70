"""What `benchmarks.mixed` found, as a section of the page of `benchmarks.accuracy`.

A seed is a split of the rows, so methods are compared on the same seeds: on each set those that all
methods have which ran on it, our other presets aside.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.accuracy_page import (
    ASIDE,
    Scores,
    Trials,
    more_is_better,
    ranked,
    summary,
    trials,
)
from benchmarks.measure import table as text_table
from benchmarks.mixed import CLASSES, METHODS, NUMBERS
from nrs.paper.statistics import DECIMALS, holm, ranks

Read = Callable[[str], Scores]

PEERS = tuple(method for method in METHODS if not method.startswith("NRS"))
RIVAL = "CatBoost"
# Seeds that are looked for.
MAX_SEEDS = 10
OF_CLASSES = ("accuracy", "log_loss", "auc", "balanced_accuracy", "calibration")
# How far behind the best peer is too far: a share of its error, and nats of log-loss.
MAX_SHARE, MAX_NATS = 0.08, 0.005


def section(results: Path, before: Path | None = None) -> str:
    """Markdown: everything about the mixed tables; empty if nothing ran.

    Parameters
    ----------
    results : folder of the cells.
    before : another one, with NRS cells of another commit whose costs are compared.
    """

    def of_classes(measure: str) -> Scores:
        return of(results, CLASSES, measure)

    def of_numbers(measure: str) -> Scores:
        return of(results, NUMBERS, measure)

    losses = _paired(results, CLASSES, "log_loss")
    errors = _paired(results, NUMBERS, "rmse")
    if not losses and not errors:
        return ""
    parts = [
        "## Mixed tables\n",
        "Tables with strings, missing cells and rare classes, by `… run --section mixed` "
        "(`benchmarks/mixed.py` has the rules). All 38 are development sets: choices were made on "
        "held-out parts of their training rows. Claims about other tables rest on the sets that "
        "the recipe was not developed on.\n",
        overview(of_classes, of_numbers),
        against({m: of_classes(m) for m in ("accuracy", "log_loss", "auc")}),
        lower(means(losses), means(errors)),
        calibration(of_classes("calibration")),
        behind(losses, errors),
        cost(results, before),
        summary(of_classes, CLASSES, "## Mixed tables with classes", OF_CLASSES),
        summary(of_numbers, NUMBERS, "## Mixed tables with numbers", ("rmse",)),
    ]
    return "\n".join(part for part in parts if part)


def paired(found: Trials) -> Trials:
    """Keep of each set the seeds that all methods have which ran on it.

    Examples
    --------
    >>> found = {"NRS": {"a": {0: 1.0, 1: 3.0}}, "RF": {"a": {1: 2.0}}, "HGB": {"b": {0: 1.0}}}
    >>> paired(found)
    {'NRS': {'a': {1: 3.0}}, 'RF': {'a': {1: 2.0}}, 'HGB': {'b': {0: 1.0}}}
    """
    common: dict[str, set[int]] = {}
    for method, by_set in found.items():
        for name, by_seed in by_set.items():
            if method not in ASIDE:
                common[name] = common.get(name, set(by_seed)) & set(by_seed)
    kept: Trials = {}
    for method, by_set in found.items():
        for name, by_seed in by_set.items():
            seeds = {s: v for s, v in by_seed.items() if s in common.get(name, by_seed)}
            if seeds:
                kept.setdefault(method, {})[name] = seeds
    return kept


def means(found: Trials) -> Scores:
    """Means over the seeds."""
    return {
        method: {name: float(np.mean(list(values.values()))) for name, values in by_set.items()}
        for method, by_set in found.items()
    }


def of(results: Path, names: tuple[str, ...], measure: str) -> Scores:
    """Means over the seeds that all methods of a set have."""
    return means(_paired(results, names, measure))


def _paired(results: Path, names: tuple[str, ...], measure: str) -> Trials:
    return paired(trials(results, names, measure, METHODS, table="mixed", seeds=MAX_SEEDS))


def overview(of_classes: Read, of_numbers: Read) -> str:
    """Average ranks by every measure, of the methods that ran on nearly all sets."""
    columns: dict[str, dict[str, float]] = {}
    for names, read, measures in (
        (CLASSES, of_classes, ("accuracy", "log_loss", "auc")),
        (NUMBERS, of_numbers, ("rmse",)),
    ):
        for measure in measures:
            chosen = ranked(read(measure), names)
            n_sets = len(next(iter(chosen.values()), {}))
            columns[f"{measure}, {n_sets} sets"] = ranks(more_is_better(chosen, measure))
    rows = [
        [method, *(f"{by[method]:.2f}" if method in by else "–" for by in columns.values())]
        for method in METHODS
        if any(method in by for by in columns.values())
    ]
    return f"{text_table(['average rank by', *columns], rows)}\n" if rows else ""


def against(found: dict[str, Scores]) -> str:
    """Wins, ties and losses against each peer, by measure, on the sets that both ran on.

    Wilcoxon's signed-rank test of NRS and each peer, adjusted by Holm for the number of peers.
    """
    columns: dict[str, dict[str, str]] = {}
    for measure, scored in found.items():
        values = more_is_better(scored, measure)
        gaps: dict[str, np.ndarray] = {}
        for peer in PEERS:
            ours, theirs = values.get("NRS", {}), values.get(peer, {})
            both = [name for name in theirs if name in ours]
            if len(both) > 1:
                # Means that differ by rounding alone are equal.
                gaps[peer] = np.array([ours[n] - theirs[n] for n in both]).round(DECIMALS)
        p = holm([stats.wilcoxon(gap).pvalue if gap.any() else 1.0 for gap in gaps.values()])
        columns[measure] = {
            peer: f"{'/'.join(str((np.sign(gap) == sign).sum()) for sign in (1, 0, -1))}, "
            f"p = {adjusted:.3f}"
            for (peer, gap), adjusted in zip(gaps.items(), p, strict=True)
        }
    rows = [
        [peer, *(by.get(peer, "–") for by in columns.values())]
        for peer in PEERS
        if any(peer in by for by in columns.values())
    ]
    return f"{text_table(['NRS wins/ties/loses', *columns], rows)}\n" if rows else ""


def lower(losses: Scores, errors: Scores) -> str:
    """On how many sets the log-loss or RMSE of NRS is lower than that of each peer."""
    if "NRS" not in losses | errors:
        return ""
    rows = []
    for peer in PEERS:
        counts = []
        for found in (losses, errors):
            ours, theirs = found.get("NRS", {}), found.get(peer, {})
            both = [name for name in theirs if name in ours]
            counts.append((sum(ours[name] < theirs[name] for name in both), len(both)))
        (of_losses, sets), (of_errors, more) = counts
        if sets + more:
            rows.append(
                [peer, f"{of_losses} of {sets}", f"{of_errors} of {more}",
                 f"{of_losses + of_errors} of {sets + more}"]
            )  # fmt: skip
    header = ["NRS has the lower", "log-loss", "RMSE", "either"]
    return f"{text_table(header, rows)}\n" if rows else ""


def calibration(found: Scores) -> str:
    """The mean calibration error of NRS and of its rival, on the sets of both."""
    ours, theirs = found.get("NRS", {}), found.get(RIVAL, {})
    both = [name for name in ours if name in theirs]
    if not both:
        return ""
    mine, other = (np.mean([by_set[name] for name in both]) for by_set in (ours, theirs))
    return (
        f"Mean calibration error on {len(both)} sets: NRS {mine:.2f}, {RIVAL} {other:.2f} "
        "(percent, 15 bins of confidence).\n"
    )


def behind(losses: Trials, errors: Trials) -> str:
    """The sets on which NRS is further behind the best peer than it may be.

    Differences are those of the same splits, and so is their standard error. "Beyond" are the
    bounds that the difference exceeds by more than two of its standard errors.
    """
    rows, n_sets = [], 0
    for found, of_losses in ((losses, True), (errors, False)):
        for name, ours in found.get("NRS", {}).items():
            peers = {m: found[m][name] for m in PEERS if name in found.get(m, {})}
            if not peers:
                continue
            n_sets += 1
            best = min(peers, key=lambda m: float(np.mean(list(peers[m].values()))))
            gaps = np.array([ours[seed] - value for seed, value in peers[best].items()])
            error = 2 * gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
            theirs = float(np.mean(list(peers[best].values())))
            bounds = {"8 %": MAX_SHARE * theirs} | ({"0.005": MAX_NATS} if of_losses else {})
            if any(gaps.mean() > bound for bound in bounds.values()):
                beyond = [label for label, bound in bounds.items() if gaps.mean() - error > bound]
                rows.append(
                    [name, best, f"{theirs + gaps.mean():.4f}", f"{theirs:.4f}",
                     f"{gaps.mean():+.4f}", f"{100 * gaps.mean() / theirs:+.1f} %",
                     "–" if np.isnan(error) else f"{error:.4f}", str(len(gaps)),
                     " and ".join(beyond) or "–"]
                )  # fmt: skip
    if not n_sets:
        return ""
    if not rows:
        return f"On none of {n_sets} sets is NRS behind the best peer by 8 % or 0.005 nats.\n"
    header = [
        "behind the best peer", "best peer", "NRS", "peer", "difference", "share",
        "two standard errors", "seeds", "beyond",
    ]  # fmt: skip
    return (
        f"Sets, of {n_sets}, on which log-loss or RMSE is more than 8 % or 0.005 nats above that "
        "of the best peer. Where the difference exceeds a bound by two standard errors (over the "
        f"seeds, of differences on the same split), the last column has it.\n\n"
        f"{text_table(header, rows)}\n"
    )


def cost(results: Path, before: Path | None = None) -> str:
    """Multiply-adds of a fit (`benchmarks.cost`), and over those of another commit."""
    lines = []
    for method in ("NRS", *ASIDE):
        found, other = (
            trials(folder, (*CLASSES, *NUMBERS), "multiply_adds", (method,), table="mixed",
                   seeds=MAX_SEEDS).get(method, {}) if folder else {}
            for folder in (results, before)
        )  # fmt: skip
        if not found:
            continue
        median = np.median([np.mean(list(by_seed.values())) for by_seed in found.values()])
        line = f"Multiply-adds of a fit of {method}, median of {len(found)} sets: {median:.3g}"
        ratios = [
            np.mean([found[name][seed] / other[name][seed] for seed in shared])
            for name in found
            if (shared := [seed for seed in found[name] if seed in other.get(name, {})])
        ]
        if ratios:
            line += (
                f"; over those of the commit before, median of {len(ratios)} sets: "
                f"{np.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})"
            )
        lines.append(f"{line}.\n")
    return "\n".join(lines)
