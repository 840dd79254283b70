"""The permutation as a fully connected layer: what sparseness and freezing are worth.

nrs paper run ablation --datasets satimage,german,heart
"""

from __future__ import annotations

from dataclasses import replace

from nrs.paper.accuracy import PLAN
from nrs.paper.methods import SEARCHED
from nrs.paper.printed import number, reported
from nrs.paper.table import Printed, Subject, Table

_NAMES = {"yes": "", "no": "not "}


def _row(row: dict[str, str]) -> str:
    sparse, frozen = _NAMES[row["sparse_init"]], _NAMES[row["frozen_weight"]]
    return f"({row['scheme']}) {sparse}sparse, {frozen}frozen"


def _printed() -> tuple[Printed, ...]:
    cells = [
        Printed(
            _row(row),
            row["dataset"],
            Subject("ablation", row["dataset"], f"scheme {row['scheme']}"),
            reported=number(row["mean"]),
            reported_std=number(row["std"]),
        )
        for row in reported("ablation")
    ]
    # The same with the head that NRS has as an extra column of the table of accuracies.
    cells += [
        Printed(
            f"{cell.row}{SEARCHED}",
            cell.column,
            replace(cell.subject, method=f"{cell.subject.method}{SEARCHED}"),
            extra=frozenset({"method"}),
        )
        for cell in cells
    ]
    return tuple(cells)


ABLATION = Table(
    name="ablation",
    title="Ablation: the permutation as a fully connected layer, accuracy (%)",
    finding=(
        "Starting sparse and staying frozen together (row d, which is NRS) is best on all four "
        "sets; freezing helps most on the small ones."
    ),
    protocol=(
        "The permutation as a fully connected layer d → M·d without bias, started from the "
        "permutations or at random, and trained or not. Otherwise as for accuracy, with the "
        "layers and epochs of NRS."
    ),
    printed=_printed(),
    measure=PLAN.measure,
    searches=PLAN.searches,
    search=PLAN.search,
)
