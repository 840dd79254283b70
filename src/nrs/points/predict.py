"""Predictions of a saved encoder for a mesh or cloud, for ``nrs predict``."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from nrs.core.layer import ACTIVATIONS
from nrs.core.permutations import LAYOUTS
from nrs.core.subspace_map import FORMULATIONS
from nrs.datasets import read_cloud
from nrs.datasets.cloud_folders import visible_clouds
from nrs.datasets.clouds import KINDS, cloud_name
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
# How the clouds to measure on were drawn from a folder that had no part for them.
_SPLIT = record({"share": number(0, 1), "seed": integer(0, (1 << 63) - 1), "files": text()})
HEADER = record(
    {
        "model": record(
            {"name": choice(*ENCODERS), "num_classes": _CLASSES, **_ARGUMENTS}, absent=_ARGUMENTS
        ),
        "classes": list_of(text(), 1),
        "points": integer(1, 1 << 16),
        "split": optional(_SPLIT),
    },
    defaults={"split": None},
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
) -> list[dict[str, Any]]:
    """Predict the class of a mesh or cloud, or of every one in a folder and those within it.

    Of a list of more points than the model was trained on, so many are taken that cover it. A
    file of a folder that cannot be read is skipped.

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
        ``picture``; of a skipped file ``input`` and ``error``.

    Raises
    ------
    ModelFileError, DatasetFileError, ValueError
        If the model cannot be read, or no cloud can.
    """
    encoder, header = load_encoder(model)
    classes = header["classes"]
    rows: list[dict[str, Any]] = []
    drawn: Counter[str] = Counter()
    paths = _files(Path(source))
    for path in paths:
        try:
            cloud = read_prepared(path, encoder, header["points"])
        except (ValueError, OSError) as error:
            if len(paths) == 1:
                raise
            rows.append({"input": str(path), "error": str(error)})
            continue
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
    if all("error" in row for row in rows):
        raise ValueError(f"none of the clouds in {source} can be read: {rows[0]['error']}")
    return rows


def read_prepared(path: Path, encoder: PointEncoder, points: int) -> torch.Tensor:
    """Read a mesh or cloud as an encoder takes it: so many points, in the unit sphere."""
    whole = torch.from_numpy(read_cloud(path, points, normals=encoder.normals, whole=True))
    return unit_sphere(spread_points(whole, points))


def describe(header: dict[str, Any]) -> dict[str, Any]:
    """What ``nrs info`` shows of a model of clouds."""
    header = check_header(header, HEADER)
    model = header["model"]
    subspace = model.get("subspace")
    default = inspect.signature(ENCODERS[model["name"]]).parameters["normals"]
    facts = {
        "encoder": model["name"],
        "head": "plain" if subspace is None else f"NRS ({_listed(subspace)})",
        "classes": header["classes"],
        "points": header["points"],
        "normals": bool(model.get("normals", default.default)),
    }
    test = header.get("test")
    if isinstance(test, dict) and isinstance(test.get("top1"), float):
        facts["test"] = f"accuracy {test['top1']:.2f} %"
    return facts


def _listed(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in arguments.items())


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    found = visible_clouds(source, "**/*")
    if not found:
        raise ValueError(f"{source} must hold files {', '.join(KINDS)}; it has none")
    return found
