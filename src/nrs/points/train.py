"""``nrs train points``: an encoder trained from a configuration file.

The loop, checkpoints and processes are those of `nrs.training`; this file says which clouds,
which encoder and which loss.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.datasets.cloud_folders import TEST_SHARE
from nrs.points.augment import Augmentation
from nrs.points.registry import create
from nrs.points.samples import CloudSamples
from nrs.points.sources import load_clouds
from nrs.training import (
    RunSettings,
    TrainSettings,
    made_now,
    processes,
    read_config,
    save_network,
    train_network,
)
from nrs.training.config import config_values
from nrs.training.network import Loss, evaluate_network, hold_out


@dataclass(frozen=True)
class ModelPart:
    """Which encoder: a name of `nrs.points.create`, its subspace and further arguments."""

    name: str = "pointnet"
    subspace: dict[str, Any] | None = None
    normals: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DataPart:
    """Which clouds.

    Parameters
    ----------
    source : str
        See `nrs.points.sources.load_clouds`.
    points : int
        Points of a sample.
    stored : int
        Points drawn from each mesh, from which every epoch draws its own.
    test_share : float
        Share of the clouds of each class to measure on, drawn by ``run.seed``, where a folder has
        no part for that.
    held_out : float
        Part of the training clouds that chooses the epoch to keep; with 0 all are trained on
        and the last epoch is kept.
    """

    source: str = "ModelNet40"
    points: int = 1024
    stored: int = 2048
    test_share: float = TEST_SHARE
    held_out: float = 0.0

    def __post_init__(self) -> None:
        if self.points < 1 or self.stored < 1:
            raise ValueError(
                f"points and stored must be at least 1; got {self.points} and {self.stored}"
            )
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out must be at least 0 and below 1; got {self.held_out}")
        if not 0 < self.test_share < 1:
            raise ValueError(f"test_share must be between 0 and 1; got {self.test_share}")


PARTS = {
    "model": ModelPart,
    "data": DataPart,
    "augment": Augmentation,
    "train": TrainSettings,
    "run": RunSettings,
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended; every process has one, the writer shows it."""

    is_writer: bool
    path: Path
    epochs: int
    scores: dict[str, float]
    skipped: int = 0
    split: dict[str, Any] | None = None

    def summary(self) -> str:
        """One line for people."""
        drawn = ""
        if self.split is not None:
            share, seed = 100 * self.split["share"], self.split["seed"]
            drawn = f" on {share:.3g} % of each class, drawn by run.seed={seed}"
        unread = f", {self.skipped:,} files skipped" if self.skipped else ""
        return (
            f"{self.epochs} epochs, test accuracy {self.scores['top1']:.2f} %{drawn} "
            f"(mean of classes {self.scores['class_mean']:.2f} %){unread}, model in {self.path}"
        )


def recipe_names() -> list[str]:
    """The recipes that ship with the package.

    Examples
    --------
    >>> "pointnet-nrs" in recipe_names()
    True
    """
    folder = resources.files("nrs.points").joinpath("recipes")
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def describe_recipe(name: str) -> str:
    """What a recipe of the package is for: the sentence on its second line.

    >>> describe_recipe("dgcnn")
    'The plain DGCNN of the paper, on ModelNet40.'
    """
    lines = find_config(name).read_text(encoding="utf-8").splitlines()
    return lines[1].removeprefix("# ")


def find_config(config: str | os.PathLike[str]) -> Path:
    """Give the file of a configuration: a path, or the name of a recipe of the package.

    Raises
    ------
    FileNotFoundError
        If there is no such file or recipe.
    """
    path = Path(config)
    if path.is_file():
        return path
    name = str(config).removesuffix(".toml")
    if name in recipe_names():
        return Path(str(resources.files("nrs.points").joinpath(f"recipes/{name}.toml")))
    raise FileNotFoundError(
        f"the configuration must be a TOML file or one of {', '.join(recipe_names())}; got "
        f"{os.fspath(config)!r}"
    )


def run(
    config: str | os.PathLike[str],
    out: str | os.PathLike[str] = "run",
    *,
    overrides: Sequence[str] = (),
    extend: bool = False,
    verbose: int = 1,
) -> Outcome:
    """Train as a configuration says; started again it resumes where it was.

    Parameters
    ----------
    config : str or path
        A TOML file with the sections ``model, data, augment, train, run``, or the name of a
        recipe of this package.
    out : path
        Folder of the run: checkpoints, and ``model.safetensors`` at the end.
    overrides : sequence of str
        ``"section.key=value"``.
    extend : bool
        Whether a finished run resumes where ``train.epochs`` is now more.
    verbose : int
        See `nrs.training.Progress`.

    Raises
    ------
    ConfigError, DatasetNotFoundError, ValueError
        If the configuration, its data or a value does not fit.
    """
    parts = read_config(find_config(config), PARTS, overrides)
    model_part, data_part, settings = parts["model"], parts["data"], parts["run"]
    with processes(settings.device) as group:
        data = load_clouds(
            data_part.source,
            stored=data_part.stored,
            normals=model_part.normals,
            seed=settings.seed,
            test_share=data_part.test_share,
        )
        description = {
            "name": model_part.name,
            "num_classes": len(data.classes),
            "subspace": model_part.subspace,
            "normals": model_part.normals,
            **model_part.arguments,
        }
        with seeded(settings.seed):
            model = create(**description)
        kept = list(range(len(data.y_train)))
        held: list[int] = []
        if data_part.held_out:
            kept, held = hold_out(data.y_train.tolist(), data_part.held_out, settings.seed)
        common = {"points": data_part.points, "normals": model_part.normals}
        augmented = CloudSamples(
            data.X_train[kept], data.y_train[kept].tolist(), augmentation=parts["augment"],
            **common,
        )  # fmt: skip
        test = CloudSamples(data.X_test, data.y_test.tolist(), **common)
        chooses = CloudSamples(data.X_train[held], data.y_train[held].tolist(), **common)
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        history = train_network(
            model,
            augmented,
            chooses if held else test,
            parts["train"],
            settings,
            select=bool(held),
            loss=network_loss(model, settings.label_smoothing),
            extend=extend,
            group=group,
            folder=folder,
            fingerprint={"model": description, "data": asdict(data_part)},
            head=list(model.head.parameters()),
            verbose=verbose if group.is_writer else 0,
        )
        scores = evaluate_network(model, test, settings, group)
        path = folder / "model.safetensors"
        if group.is_writer:
            save_network(
                path,
                model,
                kind="points",
                model=description,
                classes=data.classes,
                history=history,
                further={
                    "points": data_part.points,
                    "config": config_values(parts),
                    "test": scores,
                    "split": data.split,
                },
                made=made_now(seed=settings.seed, clouds=len(kept), classes=len(data.classes)),
            )
        group.wait()
        skipped = len(data.skipped)
        return Outcome(group.is_writer, path, len(history), scores, skipped, data.split)


def network_loss(model: nn.Module, label_smoothing: float) -> Loss:
    """Cross-entropy, and what the encoder adds to it (PointNet's penalty)."""

    def loss(called: nn.Module, x: Any, labels: Tensor) -> Tensor:
        value = F.cross_entropy(called(x), labels, label_smoothing=label_smoothing)
        # The called module may be a wrapper for several processes; the encoder within knows.
        own = getattr(model, "auxiliary_loss", None)
        return value if own is None else value + own()

    return loss
