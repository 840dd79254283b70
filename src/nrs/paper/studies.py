"""The studies of n_mul, n_per, n_h and of the number of grouped convolutions.

nrs paper run n_mul --datasets letter
nrs paper run n_per --datasets letter
nrs paper run n_h --datasets letter
nrs paper run depth --datasets letter
"""

from __future__ import annotations

from collections.abc import Mapping

from nrs.paper.accuracy import ACCURACY, PLAN
from nrs.paper.table import Printed, Setting, Subject, Table

# The paper's figures have no numbers; these values span what it says about them.
N_MUL_VALUES = {
    "GISETTE": (1, 2, 5, 10),
    "MNIST": (1, 2, 5, 10, 16),
    "letter": (1, 2, 5, 10, 20, 50, 100),
    "USPS": (1, 2, 5, 10, 20, 30),
}
# Divisors of d, as n_mul is 1; the last but for GISETTE is a standard convolution.
N_PER_VALUES = {
    "GISETTE": (1, 2, 5, 20, 50, 100),
    "MNIST": (1, 2, 5, 20, 60, 156, 780),
    "letter": (1, 2, 4, 8, 16),
    "USPS": (1, 2, 4, 16, 64, 256),
}
N_H_VALUES = (1, 2, 3, 4, 5)
# Of the studies of n_h and depth (Section "Hyperparameters studies").
SMALLER_N_MUL = {"GISETTE": 1, "MNIST": 5, "letter": 50, "USPS": 20}


def _study(
    name: str,
    title: str,
    finding: str,
    protocol: str,
    x_label: str,
    settings: Mapping[str, Mapping[int, Setting]],
) -> Table:
    known = {cell.row: cell for cell in ACCURACY.printed if cell.column == "NRS"}
    cells = []
    for dataset, by_value in settings.items():
        for value, setting in by_value.items():
            usual = known[dataset]
            # The largest n_mul of the study is the one of the table of accuracies.
            same = name == "n_mul" and value == max(by_value)
            cells.append(
                Printed(
                    str(value),
                    dataset,
                    Subject("accuracy", dataset, "NRS")
                    if same
                    else Subject(name, dataset, "NRS", setting),
                    reported=usual.reported if same else None,
                    reported_std=usual.reported_std if same else None,
                    note="reported in the table of accuracies" if same else "",
                )
            )
    return Table(
        name=name,
        title=title,
        finding=finding,
        protocol=f"{protocol} Otherwise as for accuracy. The paper gives these values as a figure.",
        printed=tuple(cells),
        measure=PLAN.measure,
        searches=PLAN.searches,
        search=PLAN.search,
        kind="figure",
        x_label=x_label,
        y_label="accuracy (%)",
        x_values=tuple(sorted({value for values in settings.values() for value in values})),
    )


N_MUL = _study(
    "n_mul",
    "Expansion rate n_mul",
    "The more subspaces (n_mul), the higher the accuracy and the smaller its deviation.",
    "n_per 1, n_h 3.",
    "n_mul",
    {
        dataset: {value: (("n_mul", value),) for value in values}
        for dataset, values in N_MUL_VALUES.items()
    },
)
N_PER = _study(
    "n_per",
    "Channels per group n_per",
    "Accuracy rises with n_per at first, then stays or falls a little; a standard convolution "
    "(n_per = C) is worse.",
    "n_mul 1, n_h 3.",
    "n_per",
    {
        dataset: {value: (("n_mul", 1), ("n_per", value)) for value in values}
        for dataset, values in N_PER_VALUES.items()
    },
)
N_H = _study(
    "n_h",
    "Expansion height and width n_h",
    "n_h = 1 is bad, accuracy rises up to 2 or 3, and does not improve beyond 3.",
    "n_mul 1, 5, 50 and 20 on GISETTE, MNIST, letter and USPS, n_per 1.",
    "n_h",
    {
        dataset: {value: (("n_mul", n_mul), ("n_h", value)) for value in N_H_VALUES}
        for dataset, n_mul in SMALLER_N_MUL.items()
    },
)
DEPTH = _study(
    "depth",
    "Number of grouped convolutions",
    "One and two grouped convolutions are about equally accurate; two cost more.",
    "n_mul 1, 5, 50 and 20 on GISETTE, MNIST, letter and USPS; one 3×3 convolution on 3×3 cells, "
    "or two on 5×5 cells.",
    "grouped convolutions",
    {
        dataset: {value: (("n_mul", n_mul), ("depth", value)) for value in (1, 2)}
        for dataset, n_mul in SMALLER_N_MUL.items()
    },
)
