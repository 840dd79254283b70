"""Predictions of a saved encoder for a mesh or cloud, for ``nrs predict``."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from nrs.core.layer import ACTIVATIONS
from nrs.core.permutations import LAYOUTS
from nrs.core.subspace_map import FORMULATIONS
from nrs.datasets import read_cloud
from nrs.datasets.clouds import TEXTS, cloud_name, is_cloud
from nrs.datasets.readers.mesh import MESHES
from nrs.points.clouds import spread_points, unit_sphere
from nrs.points.critical import critical_weights
from nrs.points.encoder import PointEncoder
from nrs.points.picture import draw_cloud
from nrs.points.registry import ENCODERS, create
from nrs.training import ModelFileError, load_network, loading, read_model
from nrs.training.schema import (
    anything,
    check_header,
    check_outputs,
    choice,
    either,
    flag,
    integer,
    list_of,
    number,
    optional,
    record,
    text,
)

TOP = 5
_SUBSPACE = {
    "n_mul": integer(1, 1 << 16),
    "n_per": integer(1, 1 << 16),
    "n_h": integer(1, 1 << 8),
    "layout": choice(*LAYOUTS),
    "depth": choice(1, 2),
    "bias": flag,
    "norm": flag,
    "activation": choice(None, *ACTIVATIONS),
    "formulation": choice("auto", *FORMULATIONS),
    "seed": optional(integer(0, (1 << 63) - 1)),
}
_NEIGHBOURS = integer(1, 1 << 12)
_ARGUMENTS = {
    "subspace": optional(record(_SUBSPACE, absent=_SUBSPACE)),
    "normals": flag,
    "dropout": number(0, 1),
    "k": either(_NEIGHBOURS, list_of(_NEIGHBOURS, 2, 2)),
    "centres": list_of(integer(1, 1 << 16), 2, 2),
    "radii": list_of(number(0), 2, 2),
    "bandwidths": list_of(number(0), 3, 3),
}
_CLASSES = integer(1, 1 << 24)
HEADER = record(
    {
        "model": record(
            {"name": choice(*ENCODERS), "num_classes": _CLASSES, **_ARGUMENTS}, absent=_ARGUMENTS
        ),
        "classes": list_of(text(), 1),
        "points": integer(1, 1 << 16),
    },
    others=anything,
)


def load_encoder(path: str | os.PathLike[str]) -> tuple[PointEncoder, dict[str, Any]]:
    """Make the encoder of a model file again, in evaluation mode, and give its header.

    Raises
    ------
    ModelFileError
        If the file is not a whole model of clouds.
    """
    file = read_model(path, kind="points")
    with loading(path):
        header = check_header(file.header, HEADER)
        known, outputs = len(header["classes"]), header["model"]["num_classes"]
        if known != outputs:
            raise ModelFileError(f"header.classes must have {outputs} items; got {known}")
        model = load_network(lambda: create(**header["model"]), file.tensors)
    return model.eval(), header


@torch.no_grad()
def class_probabilities(encoder: PointEncoder, clouds: torch.Tensor) -> torch.Tensor:
    """Probabilities of the classes, (B, N, 3 or 6) to (B, num_classes).

    Raises
    ------
    ValueError
        If the network's outputs are beyond float32.
    """
    outputs: torch.Tensor = encoder(clouds)
    check_outputs(outputs)
    return outputs.softmax(1)


def predict_file(
    model: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    pictures: str | os.PathLike[str] | None = ".",
    skipped: list[str] | None = None,
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
    skipped : list of str, optional
        Gets what is wrong with files that cannot be read; without it the first one is raised.

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
        try:
            points = read_cloud(path, n, normals=encoder.normals, whole=True)
        except (ValueError, OSError) as error:
            if skipped is None:
                raise
            skipped.append(str(error))
            continue
        whole = torch.from_numpy(points)
        cloud = unit_sphere(spread_points(whole, n))
        best = class_probabilities(encoder, cloud.unsqueeze(0))[0].topk(min(TOP, len(classes)))
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
    if not rows and skipped:
        raise ValueError(skipped[0])
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
