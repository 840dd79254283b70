"""NRS and multi-layer perceptrons: two layers, three, dropout on the inputs.

nrs paper run mlp_variants --datasets satimage,letter,yeast
"""

from __future__ import annotations

from nrs.paper.accuracy import ACCURACY, NOTES, PLAN
from nrs.paper.table import Printed, Subject, Table

DATASETS = ("satimage", "GISETTE", "MNIST", "letter", "USPS", "yeast")
# Lines of the figure, and where each is measured.
LINES = {
    "NRS": ("accuracy", "NRS"),
    "MLP-2": ("mlp_variants", "MLP-2"),
    "MLP-3": ("mlp_variants", "MLP-3"),
    "MLP-D keep 80%": ("mlp_variants", "MLP-D"),
    "MLP-D drop 80%": ("mlp_variants", "MLP-D drop 80%"),
}


def _printed() -> tuple[Printed, ...]:
    known = {(cell.row, cell.column): cell for cell in ACCURACY.printed}
    cells = []
    for line, (table, method) in LINES.items():
        for dataset in DATASETS:
            same = known[dataset, "NRS"] if line == "NRS" else None
            cells.append(
                Printed(
                    dataset,
                    line,
                    Subject(table, dataset, method),
                    reported=None if same is None else same.reported,
                    reported_std=None if same is None else same.reported_std,
                    note=NOTES.get(dataset, ""),
                )
            )
    return tuple(cells)


MLP_VARIANTS = Table(
    name="mlp_variants",
    title="NRS and MLP variants",
    finding=(
        "NRS is more accurate than MLP-2 and MLP-3 on all six sets, though MLP-3 has more "
        "parameters; input dropout (MLP-D) does very poorly on few features."
    ),
    protocol=(
        "As for accuracy. MLP-2 and MLP-3: widths by 5-fold cross-validation. MLP-D: the paper's "
        "'p = 0.8' both as the part that is kept (as the dropout paper means it) and as the part "
        "that is dropped. The paper gives these values as a figure only, but for NRS."
    ),
    printed=_printed(),
    measure=PLAN.measure,
    searches=PLAN.searches,
    search=PLAN.search,
    kind="figure",
    x_label="dataset",
    y_label="accuracy (%)",
    x_values=DATASETS,
    single_trial=frozenset({"yeast"}),
)
