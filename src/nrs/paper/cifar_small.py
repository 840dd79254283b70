"""ResNet-20, SE-ResNet-20 and SE+NRS on a tenth of CIFAR-10 for a few epochs: what a CPU can do.

nrs paper run cifar10_small
"""

from __future__ import annotations

from nrs.paper.pictures import curve_figures, measure_recipe, tiny_recipe
from nrs.paper.table import Cell, Found, Measured, Printed, Subject, Table

EXCITE = {"ResNet-20": "none", "SE-ResNet-20": "se", "SE-ResNet-20+NRS": "nrs"}
EPOCHS, PICTURES = 5, 5_000
COLUMNS = ("accuracy", "params_m", "minutes")
RECIPE = "cifar-resnet20"


def changes(method: str) -> list[str]:
    """What differs from the paper's recipe."""
    return [
        f"model.excite={EXCITE[method]}", f"train.epochs={EPOCHS}", f"data.limit={PICTURES}",
        "run.batch_size=64", "run.workers=0", "run.channels_last=true",
    ]  # fmt: skip


def _measure(cell: Cell, found: Found) -> Measured:
    return measure_recipe(cell, RECIPE, changes(cell.subject.method))


def _tiny(cell: Cell) -> Measured:
    return tiny_recipe(cell, RECIPE, changes(cell.subject.method))


CIFAR10_SMALL = Table(
    name="cifar10_small",
    title="CIFAR-10 in small: accuracy (%) after a few epochs, parameters (M), CPU minutes",
    finding=(
        "The paper trains 350 epochs on all pictures and finds SE+NRS at least as accurate as SE, "
        "and both better than the plain network (table cifar_se)."
    ),
    protocol=(
        f"{EPOCHS} epochs on {PICTURES:,} of the 50,000 training pictures, the same of every "
        "class, batches of 64, SGD 0.1 with cosine decay and the paper's augmentation; the last "
        "epoch on all 10,000 test pictures; 3 seeds. So few epochs say how quickly the networks "
        "learn, not how good they become."
    ),
    printed=tuple(
        Printed(method, column, Subject("cifar10_small", "CIFAR-10", method), metric=column)
        for method in EXCITE
        for column in COLUMNS
    ),
    measure=_measure,
    trials=3,
    lower_is_better=frozenset({"params_m", "minutes"}),
    tiny=_tiny,
)
_LINES = [Subject("cifar10_small", "CIFAR-10", method) for method in EXCITE]
_FINDING = "No figure of the paper; its own learning curves are of aircraft."
CIFAR10_CURVES, CIFAR10_LOSS = curve_figures(
    "cifar10", "CIFAR-10 in small", _FINDING, CIFAR10_SMALL, _LINES, EPOCHS
)
