"""The permutation as a fully connected layer: what sparseness and freezing are worth.

nrs paper run ablation --datasets satimage,german,heart
"""

from __future__ import annotations

from nrs.paper.accuracy import PLAN
from nrs.paper.printed import number, reported
from nrs.paper.table import Printed, Subject, Table

_NAMES = {"yes": "", "no": "not "}


def _row(row: dict[str, str]) -> str:
    sparse, frozen = _NAMES[row["sparse_init"]], _NAMES[row["frozen_weight"]]
    return f"({row['scheme']}) {sparse}sparse, {frozen}frozen"


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
        "epochs of NRS."
    ),
    printed=tuple(
        Printed(
            _row(row),
            row["dataset"],
            Subject("ablation", row["dataset"], f"scheme {row['scheme']}"),
            reported=number(row["mean"]),
            reported_std=number(row["std"]),
        )
        for row in reported("ablation")
    ),
    measure=PLAN.measure,
    searches=PLAN.searches,
    search=PLAN.search,
)
