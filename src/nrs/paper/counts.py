"""Parameters, FLOPs and representation size of every network of the paper, pictures and clouds.

nrs paper run counts
"""

from __future__ import annotations

from nrs.core import count
from nrs.paper.modelnet40 import cost_cells
from nrs.paper.table import Cell, Found, Measured, Printed, Subject, Table
from nrs.paper.vision_models import Model, models, on_meta

COLUMNS = ("params_m", "flops_m", "macs_m", "dim")


def _measure(cell: Cell, found: Found) -> Measured:
    return _counted(models()[cell.subject.dataset, cell.subject.method])


def _counted(model: Model) -> Measured:
    counts = count(*on_meta(model))
    metrics = {
        "params_m": counts.parameters / 1e6,
        "flops_m": counts.paper_flops / 1e6,
        "macs_m": counts.macs / 1e6,
    }
    if model.dim is not None:
        metrics["dim"] = float(model.dim)
    return Measured(metrics=metrics, settings={"input": list(model.inputs)})


def _tiny(cell: Cell) -> Measured:
    from nrs.vision import cifar_network

    network = Model("", "", lambda: cifar_network("resnet20", excite="nrs"), (3, 32, 32), dim=64)
    return _counted(network)


def _printed(model: Model) -> list[Printed]:
    subject = Subject("counts", model.table, model.row)
    return [
        Printed(
            f"{model.table} / {model.row}",
            column,
            subject,
            metric=column,
            reported=_reported(model, column),
            note=model.notes.get(column, ""),
            comparable=column in ("params_m", "flops_m"),
            exact=True,
        )
        for column in COLUMNS
        if column != "dim" or model.dim is not None
    ]


def _reported(model: Model, column: str) -> float | str | None:
    # The paper prints sizes in thousands, as a text.
    return (model.printed.get("dim") or None) if column == "dim" else model.reported(column)


COUNTS = Table(
    name="counts",
    title="Parameters (M), FLOPs (M), multiply-adds (M) and representation size",
    finding=(
        "NRS adds few parameters and hardly any FLOPs to a network; in place of squeeze-and-"
        "excitation it needs fewer of both."
    ),
    protocol=(
        "Counted on networks without weights. params_m and flops_m as the paper has them, FLOPs by "
        "the rules of a counter of late 2019 (nrs.core.counting); macs_m are plain multiply-adds; "
        "dim is what the classifier reads. A cell agrees if it is the printed number to the last "
        "digit."
    ),
    printed=(
        *(cell for model in models().values() for cell in _printed(model)),
        *cost_cells(("params_m", "flops_m", "macs_m")),
    ),
    measure=_measure,
    trials=1,
    lower_is_better=frozenset(COLUMNS),
    tiny=_tiny,
)
