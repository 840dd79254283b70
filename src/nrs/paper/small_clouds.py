"""The point-cloud table in small: made-up clouds, an epoch, few points."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from nrs.datasets import Dataset, read_cloud_folder
from nrs.paper.cloud_plan import METHODS, CloudPlan, CloudRecipe
from nrs.paper.table import Cell, Measured
from nrs.points import Augmentation
from nrs.training import TrainSettings

NAME = "made-up clouds"
_LEVELS = {"centres": (16, 4), "k": (4, 4)}
_ARGUMENTS = {"pointnet": {}, "dgcnn": {"k": 4}}


def made_up_clouds(
    name: str = NAME, normals: bool = False, n: int = 16, points: int = 48
) -> Dataset:
    """Balls and sticks, by way of files as ModelNet40's; their normals are made up too.

    Examples
    --------
    >>> made_up_clouds().X_train.shape
    (16, 48, 3)
    """
    generator = np.random.default_rng(0)
    labels = np.arange(2 * n) % 2
    stretch = np.where(labels[:, None, None] == 1, [1.0, 0.1, 0.1], [1.0, 1.0, 1.0])
    clouds = (generator.normal(size=(2 * n, points, 3)) * stretch).astype(np.float32)
    directions = clouds / np.linalg.norm(clouds, axis=2, keepdims=True)
    with tempfile.TemporaryDirectory() as scratch:
        _write_texts(Path(scratch), np.concatenate([clouds, directions], axis=2), labels, n)
        found = read_cloud_folder(scratch, points, normals=normals)
    return Dataset(
        name, found.X_train, found.y_train, X_test=found.X_test, y_test=found.y_test, n_classes=2,
        kind="points",
    )  # fmt: skip


def _write_texts(folder: Path, clouds: np.ndarray, labels: np.ndarray, n: int) -> None:
    """Clouds in the form of modelnet40_normal_resampled: a text each, and lists of names."""
    names = [f"{'stick' if label else 'ball'}_{place:04}" for place, label in enumerate(labels)]
    for name, cloud in zip(names, clouds, strict=True):
        kind = folder / name.rpartition("_")[0]
        kind.mkdir(exist_ok=True)
        np.savetxt(kind / f"{name}.txt", cloud, fmt="%.6f", delimiter=",")
    for part, listed in (("train", names[:n]), ("test", names[n:])):
        (folder / f"clouds_{part}.txt").write_text("\n".join(listed) + "\n")


def _recipe(encoder: str) -> CloudRecipe:
    return CloudRecipe(
        TrainSettings(epochs=1),
        batch_size=8,
        points=32,
        augmentation=Augmentation(drop=0.5, scale=(0.8, 1.25), shift=0.1),
        normals=encoder in ("pointnet2", "pointconv"),
        arguments=_ARGUMENTS.get(encoder, _LEVELS),
    )


SMALL_CLOUDS = CloudPlan(
    recipes={NAME: {encoder: _recipe(encoder) for encoder, _ in METHODS.values()}},
    load=made_up_clouds,
    cost_points=64,
    cost_repeats=1,
)


def tiny(cell: Cell) -> Measured:
    """A trial of the point-cloud table on the made-up clouds."""
    return SMALL_CLOUDS.measure(replace(cell, subject=replace(cell.subject, dataset=NAME)), {})
