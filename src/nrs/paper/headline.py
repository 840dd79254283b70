"""What the cells say about the paper's main table, in a few sentences that a test recounts.

Only cells of NRS as the paper builds it, each once, by the paper's own t-test. Nothing here is
written by hand: the README and the report quote these sentences as they come.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nrs.datasets import info
from nrs.paper.accuracy import ACCURACY, METHODS
from nrs.paper.collect import against_paper, entries, statistics_of
from nrs.paper.methods import SEARCHED
from nrs.paper.statistics import win_tie_lose

Counts = tuple[int, int, int]
PEERS = METHODS[1:]
_HEAD = f"NRS{SEARCHED}"


@dataclass(frozen=True)
class Headline:
    """What was counted.

    Attributes
    ----------
    level, above, below : data sets on which NRS is so against its own printed value.
    pairs, printed : wins, ties and losses of NRS over (data set, peer), here and in the paper on
        the same pairs.
    by_peer, printed_by_peer : the same by peer.
    rows : data sets of the paper's table with such a pair.
    ranks, ranked : average ranks, and on how many data sets.
    parts, part_rows : pairs on parts of the paper's sets, and which those are.
    searched, searched_rows : the searched head against the paper's two layers, and where the two
        were measured.
    sets : data sets of the paper's table with a cell of NRS, parts and other readings included.
    """

    level: tuple[str, ...]
    above: tuple[str, ...]
    below: tuple[str, ...]
    pairs: Counts
    printed: Counts
    by_peer: Mapping[str, Counts]
    printed_by_peer: Mapping[str, Counts]
    rows: tuple[str, ...]
    ranks: Mapping[str, float] = field(default_factory=dict)
    ranked: int = 0
    parts: Counts = (0, 0, 0)
    part_rows: tuple[str, ...] = ()
    searched: Counts = (0, 0, 0)
    searched_rows: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()


def headline(results: str | os.PathLike[str] = "results") -> Headline:
    """Count the cells of the table of accuracies."""
    cells = entries(ACCURACY, results)
    statistics = statistics_of(ACCURACY, cells)
    measured = _outcomes(statistics["marks"])
    printed = _outcomes(statistics["reported"]["marks"])
    in_paper = {cell["row"] for cell in cells if cell["in_paper"]}
    # A merged reading of a whole set is the paper's own set over again.
    parts = {c["row"] for c in cells if not c["in_paper"] and not info(c["row"]).merge_labels}
    parts -= in_paper
    same = [pair for pair in measured if pair[0] in in_paper and pair in printed]
    of_parts = [pair for pair in measured if pair[0] in parts]
    found: dict[str, list[str]] = {"level": [], "above": [], "below": []}
    for cell in cells:
        outcome = against_paper(ACCURACY, cell) if cell["column"] == "NRS" else None
        if outcome is not None:
            found[outcome].append(cell["row"])
    ranks = statistics.get("average_ranks", {})
    # Marks are from the side of NRS; here the searched head is the first of the two.
    heads = {m["row"]: m["outcome"] for m in statistics["marks"] if m["column"] == _HEAD}
    losses, ties, wins = win_tie_lose(heads.values())
    return Headline(
        **{name: tuple(rows) for name, rows in found.items()},
        pairs=_count(measured, same),
        printed=_count(printed, same),
        by_peer={peer: _count(measured, [p for p in same if p[1] == peer]) for peer in PEERS},
        printed_by_peer={
            peer: _count(printed, [p for p in same if p[1] == peer]) for peer in PEERS
        },
        rows=tuple(dict.fromkeys(row for row, _ in same)),
        ranks={method: ranks[method] for method in METHODS if method in ranks},
        ranked=len(statistics.get("datasets", ())),
        parts=_count(measured, of_parts),
        part_rows=tuple(dict.fromkeys(row for row, _ in of_parts)),
        searched=(wins, ties, losses),
        searched_rows=tuple(heads),
        sets=_sets(cells),
    )


def sentences(found: Headline) -> list[str]:
    """The headline in words."""
    if not found.rows:
        return []
    tested = len(found.level) + len(found.above) + len(found.below)
    wins, ties, losses = found.pairs
    said = [
        f"NRS has cells on {len(found.sets)} of the paper's 35 data sets, parts of sets included.",
        f"By the paper's t-test its accuracy is level with the printed one on {len(found.level)} "
        f"of {tested} sets, above it on {_listed(found.above)} and below it on "
        f"{_listed(found.below)}.",
        f"Against its five peers NRS wins {wins} of {sum(found.pairs)} pairs, ties {ties} and "
        f"loses {losses}, where the paper prints {found.printed[0]} wins, {found.printed[1]} ties "
        f"and {found.printed[2]} losses on the same pairs ({len(found.rows)} sets).",
        f"Against a tuned MLP it is {_slashed(found.by_peer['MLP'])} (wins/ties/losses; printed: "
        f"{_slashed(found.printed_by_peer['MLP'])}).",
    ]
    if found.ranks:
        order = sorted(found.ranks, key=found.ranks.__getitem__)
        ranked = ", ".join(f"{method} {found.ranks[method]:.2f}" for method in order)
        said.append(f"Average ranks on the {found.ranked} sets that all six have: {ranked}.")
    if found.searched_rows:
        said.append(
            "A searched head (no hidden layer, or a batch of 32), which the paper does not have, "
            f"is {_slashed(found.searched)} against its two layers on the "
            f"{len(found.searched_rows)} sets where the search chose one "
            f"({', '.join(found.searched_rows)})."
        )
    if found.part_rows:
        said.append(
            f"On parts of {len(found.part_rows)} more sets ({', '.join(found.part_rows)}) it is "
            f"{_slashed(found.parts)}; these are not the paper's splits."
        )
    return said


def _outcomes(marks: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Outcomes by data set and peer, of the paper's five peers."""
    return {(m["row"], m["column"]): m["outcome"] for m in marks if m["column"] in PEERS}


def _count(outcomes: Mapping[tuple[str, str], str], pairs: Sequence[tuple[str, str]]) -> Counts:
    return win_tie_lose(outcomes[pair] for pair in pairs)


def _sets(cells: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    rows = [c["row"] for c in cells if c["column"] == "NRS" and c["measured"] is not None]
    return tuple(dict.fromkeys(info(row).variant_of or row for row in rows))


def _listed(rows: Sequence[str]) -> str:
    return f"{len(rows)} ({', '.join(rows)})" if rows else "none"


def _slashed(counts: Counts) -> str:
    return "/".join(map(str, counts))
