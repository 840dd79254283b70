"""Predictions of a saved encoder for a mesh or cloud, for ``nrs predict``."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from nrs.datasets import read_cloud
from nrs.datasets.clouds import TEXTS, cloud_name, is_cloud
from nrs.datasets.readers.mesh import MESHES
from nrs.points.clouds import spread_points, unit_sphere
from nrs.points.critical import critical_weights
from nrs.points.encoder import PointEncoder
from nrs.points.picture import draw_cloud
from nrs.points.registry import create
from nrs.training import ModelFileError, read_model

TOP = 5


def load_encoder(path: str | os.PathLike[str]) -> tuple[PointEncoder, dict[str, Any]]:
    """Make the encoder of a model file again, in evaluation mode, and give its header.

    Raises
    ------
    ModelFileError
        If the file is not a whole model of clouds.
    """
    file = read_model(path)
    if file.kind != "points":
        raise ModelFileError(
            f"{os.fspath(path)} must hold a model of point clouds, however: its kind is "
            f"{file.kind!r}"
        )
    try:
        model = create(**file.header["model"])
        model.load_state_dict(file.tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(
            f"{os.fspath(path)} must describe an encoder of this version, however: {error}"
        ) from None
    return model.eval(), file.header


def predict_file(
    model: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    pictures: str | os.PathLike[str] | None = ".",
) -> list[dict[str, Any]]:
    """Predict the class of a mesh or cloud, or of every one in a folder.

    Of a list of more points than the model was trained on, so many are taken that cover it.

    Parameters
    ----------
    model : path
        A file that ``nrs train points`` wrote.
    source : path
        See `nrs.datasets.read_cloud`.
    pictures : path, optional
        The folder for a picture of each cloud with its critical points, ``<name>-critical.png``
        (``<name>-critical-2.png`` of a second file of that name); None draws none.

    Returns
    -------
    list of dict
        ``input``, ``top`` (the most probable classes: ``label`` and ``probability``), and
        ``picture``.

    Raises
    ------
    ModelFileError, DatasetFileError, ValueError
        If the model or a cloud cannot be read.
    """
    encoder, header = load_encoder(model)
    classes = header["classes"]
    rows = []
    drawn: Counter[str] = Counter()
    for path in _files(Path(source)):
        n = header["points"]
        whole = torch.from_numpy(read_cloud(path, n, normals=encoder.normals, whole=True))
        cloud = unit_sphere(spread_points(whole, n))
        with torch.no_grad():
            probabilities = encoder(cloud.unsqueeze(0))[0].softmax(0)
        best = probabilities.topk(min(TOP, len(classes)))
        top = [
            {"label": classes[label], "probability": round(value, 6)}
            for value, label in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        row: dict[str, Any] = {"input": str(path), "top": top}
        if pictures is not None:
            stem = f"{cloud_name(path)}-critical"
            drawn[stem] += 1
            number = f"-{drawn[stem]}" if drawn[stem] > 1 else ""
            picture = Path(pictures) / f"{stem}{number}.png"
            title = f"{path.name}: {top[0]['label']} ({100 * top[0]['probability']:.1f} %)"
            draw_cloud(picture, cloud, critical_weights(encoder, cloud), title=title)
            row["picture"] = str(picture)
        rows.append(row)
    return rows


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    found = sorted(filter(is_cloud, source.iterdir()))
    if not found:
        raise ValueError(
            f"{source} must hold files {', '.join((*MESHES, *TEXTS))}, however: it has none"
        )
    return found
