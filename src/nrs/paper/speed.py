"""Model size, times and accuracy, with fewer trees and a smaller n_mul.

nrs paper run speed --datasets letter,MNIST
"""

from __future__ import annotations

from nrs.datasets import variants_of
from nrs.paper.printed import number, reported
from nrs.paper.table import Printed, Subject, Table
from nrs.paper.vector import Plan

# A smaller n_mul "for better model size, speed and accuracy trade-off" (Section 4.2).
PLAN = Plan(size="speed", n_mul={"GISETTE": 1, "MNIST": 5, "letter": 50, "SUSY": 10})

COLUMNS = {
    "model_mb": "model_mb",
    "inference_s": "predict_cpu_s",
    "training_s": "fit_cpu_s",
    "accuracy": "accuracy",
}
_TIMES = "seconds of one core; the paper's networks and ThunderGBM ran on a GPU"
_NDF = "12 trees of depth 8, meant for one core; the paper has 50"


def _printed() -> tuple[Printed, ...]:
    cells = []
    for row in reported("speed"):
        names = [row["dataset"]]
        names += [v.name for v in variants_of(row["dataset"]) if v.task == "classification"]
        for dataset in names:
            method = row["method"]
            notes = [_NDF] if method == "NDF" else []
            if dataset != row["dataset"]:
                notes.append(f"beside the paper's value for {row['dataset']}")
            cells += [
                Printed(
                    f"{dataset} / {method}",
                    column,
                    Subject("speed", dataset, method),
                    metric=metric,
                    reported=number(row[column]),
                    note="; ".join([*notes, _TIMES] if column.endswith("_s") else notes),
                    extra=frozenset() if dataset == row["dataset"] else frozenset({"dataset"}),
                    comparable=dataset == row["dataset"] and column == "accuracy",
                )
                for column, metric in COLUMNS.items()
            ]
    return tuple(cells)


SPEED = Table(
    name="speed",
    title="Model size (MB), inference and training time (s), accuracy (%)",
    finding=(
        "NRS is the most accurate of the forests, has the fastest inference on MNIST and letter, "
        "and the smallest model on letter and SUSY; it is faster and smaller than NDF everywhere."
    ),
    protocol=(
        "As for accuracy, but n_mul 1, 5, 50 and 10 on GISETTE, MNIST, letter and SUSY, and 100 "
        "trees for RS, RF and GBDT. Training on the whole training part, inference on the whole "
        "test part, CPU seconds of one thread. Model size: weights and buffers of a network, the "
        "package's own file of a forest; 1 MB is 10⁶ bytes."
    ),
    printed=_printed(),
    measure=PLAN.measure,
    searches=PLAN.searches,
    search=PLAN.search,
    lower_is_better=frozenset({"model_mb", "predict_cpu_s", "fit_cpu_s"}),
)
