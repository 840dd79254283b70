"""A saved encoder of clouds on a labelled folder, for ``nrs evaluate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nrs.datasets.cloud_folders import hdf5_files, measured_clouds
from nrs.files.folder import Drawing, EvaluatedFolder, score_files
from nrs.points.clouds import choose_points, unit_sphere
from nrs.points.critical import critical_points, critical_weights
from nrs.points.encoder import PointEncoder
from nrs.points.picture import cloud_png
from nrs.points.predict import class_probabilities, describe, load_encoder, read_prepared
from nrs.points.sources import load_clouds

BATCH = 32
_SHOWN = ("encoder", "head", "points", "normals")


def evaluate_folder(
    model: str | os.PathLike[str], folder: str | os.PathLike[str]
) -> EvaluatedFolder:
    """Score an encoder on a folder of clouds; see `nrs.datasets.read_cloud_folder` for its forms.

    Of a folder with a part to measure on, that part; of the one folder that the model was trained
    on, the clouds that training left out for this; of an .npz file or HDF5 files the test clouds.
    A file is read as ``nrs predict`` reads it.

    Raises
    ------
    ModelFileError
        If the file is not a whole model of clouds.
    FileNotFoundError, ValueError
        If the folder has no clouds, or none that can be read, or none of a class of the model.
    """
    encoder, header = load_encoder(model)
    classes: list[str] = header["classes"]
    clouds = _Clouds(encoder, header["points"])
    path = Path(folder)
    if path.suffix == ".npz" or hdf5_files(path):
        truth, note = clouds.read_arrays(path, classes), "the test clouds"
    else:
        entries, note = measured_clouds(path, header.get("split"))
        _check_classes(path, {name for name, _ in entries}, classes)
        truth = clouds.read_files(entries)
    _check_classes(path, set(truth), classes)
    probabilities = clouds.probabilities()

    def draw(place: int) -> list[Drawing]:
        cloud, label = clouds.clouds[place], int(probabilities[place].argmax())
        weights = critical_weights(encoder, cloud, label)
        n_critical = len(critical_points(weights))
        caption = f"{n_critical} points carry half of the gradient of {classes[label]!r}"
        return [(caption, cloud_png(cloud, weights))]

    facts = describe(header)
    return EvaluatedFolder(
        score_files(str(folder), truth, probabilities, classes),
        clouds.paths,
        clouds.skipped,
        draw,
        note,
        {name: str(facts[name]) for name in _SHOWN},
    )


class _Clouds:
    """Clouds as an encoder takes them, where they come from, and files that are none."""

    def __init__(self, encoder: PointEncoder, points: int) -> None:
        self.encoder, self.points = encoder, points
        self.clouds: list[Tensor] = []
        self.paths: list[Path] = []
        self.skipped: list[tuple[Path, str]] = []

    def read_files(self, entries: list[tuple[str, Path]]) -> list[str]:
        """Read files, and give the class of each one that can be read."""
        truth = []
        for name, path in entries:
            try:
                cloud = read_prepared(path, self.encoder, self.points)
            except (ValueError, OSError) as error:
                self.skipped.append((path, str(error)))
                continue
            self.clouds.append(cloud)
            self.paths.append(path)
            truth.append(name)
        if not truth and self.skipped:
            raise ValueError(f"none of the clouds can be read: {self.skipped[0][1]}")
        return truth

    def read_arrays(self, path: Path, classes: list[str]) -> list[str]:
        """Take the test clouds of an array file, and give their classes."""
        data = load_clouds(path, normals=self.encoder.normals)
        channels = self.encoder.channels
        if data.X_test.ndim != 3 or data.X_test.shape[2] < channels:
            raise ValueError(
                f"{path} must hold clouds (n, points, {channels}); got {data.X_test.shape}"
            )
        for place, array in enumerate(data.X_test):
            whole = torch.from_numpy(np.asarray(array, np.float32))[:, :channels]
            # As training measures: arrays have points in no order that matters.
            self.clouds.append(unit_sphere(choose_points(whole, self.points, random=False)))
            self.paths.append(Path(f"{path.name}[{place}]"))
        return [_class_name(data.classes[label], classes) for label in data.y_test]

    def probabilities(self) -> Any:
        """Probabilities of the classes, (n, classes), as NumPy's float64."""
        # A list of points may have fewer than the encoder was trained on: alone in its batch.
        found = np.empty((len(self.clouds), self.encoder.num_classes))
        by_size: dict[int, list[int]] = {}
        for place, cloud in enumerate(self.clouds):
            by_size.setdefault(len(cloud), []).append(place)
        for places in by_size.values():
            for start in range(0, len(places), BATCH):
                some = places[start : start + BATCH]
                batch = torch.stack([self.clouds[place] for place in some])
                found[some] = class_probabilities(self.encoder, batch).double().numpy()
        return found


def _class_name(label: str, classes: list[str]) -> str:
    """The class that a label of an array names, or counts."""
    counts = label not in classes and label.isdigit() and int(label) < len(classes)
    return classes[int(label)] if counts else label


def _check_classes(path: Path, found: set[str], classes: list[str]) -> None:
    if not found & set(classes):
        raise ValueError(
            f"{path} must hold clouds of a class of the model, such as {classes[0]!r}; its classes "
            f"are {', '.join(sorted(found)[:5])}"
        )
