"""How a cell of the tables of pictures is measured: a recipe of `nrs.vision`, trained and tested.

Beside the final numbers a result has those of every epoch, ``accuracy@1``, ``loss@1``, …, which
figures show as learning curves.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nrs.datasets import DatasetNotFoundError, cache_folder, data_folders
from nrs.paper.table import Cell, Measured, NotHereError, Printed, Subject, Table
from nrs.paper.tiny_sets import write_pictures
from nrs.paper.trial import Clock, device
from nrs.training.history import History


def measure_recipe(cell: Cell, recipe: str, changes: Iterable[str]) -> Measured:
    """Train a recipe with the cell's seed and measure it on the test pictures.

    A killed trial resumes from its last epoch. Raises NotHereError if the pictures or the
    pretrained weights are not on this machine and cannot be fetched.
    """
    from nrs.vision.train import run

    folder = cache_folder() / "runs" / cell.path.removesuffix(".json")
    overrides = [
        *changes, f"run.seed={cell.seed}", f"run.device={device()}", "run.tensorboard=false"
    ]  # fmt: skip
    times: dict[str, float] = {}
    try:
        with Clock("fit", times):
            outcome = run(recipe, folder, overrides=overrides, verbose=0)
    except (DatasetNotFoundError, FileNotFoundError, ImportError, ConnectionError) as error:
        raise NotHereError(str(error)) from None
    except OSError as error:
        # Pretrained weights that cannot be fetched.
        raise NotHereError(f"{type(error).__name__}: {error}") from None
    parameters = n_parameters(outcome.path)
    shutil.rmtree(folder, ignore_errors=True)
    return Measured(
        metrics={
            **scores(outcome.metrics["top1"], outcome.metrics["top5"]),
            "params_m": parameters / 1e6,
            "minutes": times["fit_cpu_s"] / 60,
            **curves(outcome.history),
        },
        times=times,
        settings={"recipe": recipe, "changes": overrides},
    )


def scores(top1: float, top5: float) -> dict[str, float]:
    """Accuracies in percent as the tables print them."""
    return {"accuracy": top1, "top5": top5, "top1_error": 100 - top1, "top5_error": 100 - top5}


def curves(history: History) -> dict[str, float]:
    """The columns of a history as metrics of each epoch, counted from 1."""
    found = {}
    for row in history:
        epoch = int(row["epoch"]) + 1
        found[f"loss@{epoch}"] = row["train_loss"]
        if "top1" in row:
            found[f"accuracy@{epoch}"] = row["top1"]
    return found


def curve_figures(
    name: str, title: str, finding: str, source: Table, lines: Sequence[Subject], epochs: int
) -> tuple[Table, Table]:
    """Figures of the learning curves of subjects of another table: test accuracy, training loss."""

    def figure(what: str, metric: str, words: str, unit: str) -> Table:
        return Table(
            name=f"{name}_{what}",
            title=f"{title}: {words} by epoch",
            finding=finding,
            protocol=f"Of the trials of {source.name}; mean and standard deviation over seeds.",
            printed=tuple(
                Printed(str(epoch), subject.method, subject, metric=f"{metric}@{epoch}")
                for subject in lines
                for epoch in range(1, epochs + 1)
            ),
            measure=source.measure,
            kind="figure",
            x_label="epoch",
            y_label=words + unit,
            x_values=tuple(range(1, epochs + 1)),
            trials=source.trials,
            lower_is_better=frozenset(f"loss@{epoch}" for epoch in range(1, epochs + 1)),
            tiny=source.tiny,
        )

    curves = figure("curves", "accuracy", "test accuracy", " (%)")
    return curves, figure("loss", "loss", "training loss", "")


def data_file(name: str) -> Path:
    """A file in one of the folders of ``NRS_DATA``; raises NotHereError if it is in none."""
    for folder in (*data_folders(), cache_folder()):
        if (folder / name).exists():
            return folder / name
    raise NotHereError(
        f"{name} is in no folder of NRS_DATA; benchmarks/vision_data.py says how to make it"
    )


def n_parameters(path: Path) -> int:
    """Parameters of a model file: all its tensors but running statistics, counters and indices."""
    from nrs.vision.predict import ImageModel

    return sum(p.numel() for p in ImageModel.load(path).network.parameters())


def tiny_recipe(cell: Cell, recipe: str, changes: Iterable[str]) -> Measured:
    """The same code for seconds: one epoch of a small network on made-up pictures."""
    from nrs.vision.train import read_recipe, run

    changes = list(changes)
    with tempfile.TemporaryDirectory() as scratch:
        # Through the reader of the real set, on files in its official form.
        reader = read_recipe(recipe, changes)["data"].reader
        pictures = write_pictures(reader, Path(scratch) / "pictures")
        small = [
            f"data.root='{pictures}'", "data.limit=''", "data.held_out=0.0",
            "picture.size=32", "picture.resize=32", "train.epochs=1", "run.batch_size=6",
            "run.workers=0", "run.tensorboard=false", "model.pretrained=false",
            "model.name=cifar/resnet20", "model.weights=''", f"run.seed={cell.seed}",
        ]  # fmt: skip
        outcome = run(recipe, Path(scratch) / "run", overrides=[*changes, *small], verbose=0)
        metrics: dict[str, Any] = scores(outcome.metrics["top1"], outcome.metrics["top5"])
        metrics |= {"params_m": 0.0, "minutes": 0.0}
        return Measured(metrics=metrics | curves(outcome.history))
