"""A trained encoder as one ONNX file: clouds in, classes and their probabilities out."""

from __future__ import annotations

import json
import os

import numpy as np
from torch import Tensor, nn

from nrs._util.atomic import atomic_write
from nrs._util.optional import import_optional
from nrs._version import __version__
from nrs.core import fold
from nrs.points.clouds import unit_sphere
from nrs.points.encoder import PointEncoder
from nrs.points.predict import load_encoder
from nrs.tabular.export.graph import Graph


class CloudModule(nn.Module):
    """A trained encoder with its preprocessing: clouds of any place and size, probabilities.

    **Shape** input ``(B, N, 3 or 6)``, output ``(B, classes)``.

    Examples
    --------
    >>> import torch
    >>> from nrs.points import PointNet
    >>> CloudModule(PointNet(10))(torch.rand(2, 64, 3) * 100).sum(1).allclose(torch.ones(2))
    True
    """

    def __init__(self, encoder: PointEncoder) -> None:
        super().__init__()
        self.encoder = fold(encoder)
        self.eval().requires_grad_(False)

    def forward(self, clouds: Tensor) -> Tensor:
        probabilities: Tensor = self.encoder(unit_sphere(clouds)).softmax(1)
        return probabilities


def export_onnx(model: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a model file of clouds as ONNX.

    The file has one input, ``clouds`` (rows, points, 3), or 6 with normals, float32, and two
    outputs, ``label`` (rows,) and ``probabilities`` (rows, classes). Every cloud has as many
    points as those that the model was trained on; where it lies and how large it is does not
    matter. The metadata says under ``nrs`` how many points, and which classes.

    Parameters
    ----------
    model : path
        A file that ``nrs train points`` wrote.
    path : path
        Where to write.

    Raises
    ------
    ModelFileError
        If the file is not a whole model of clouds.
    ModuleNotFoundError
        Without the extra ``export``.
    """
    encoder, header = load_encoder(model)
    to_onnx(encoder, header["classes"], header["points"], path)


def to_onnx(
    encoder: PointEncoder, classes: list[str], points: int, path: str | os.PathLike[str]
) -> None:
    """Write an encoder as ONNX, for clouds of so many points; see `export_onnx`."""
    graph = Graph()
    import_optional("onnxscript", "to_onnx", "export")
    from nrs.points.onnx_operators import OPERATORS

    shape = (points, encoder.channels)
    clouds = graph.input("clouds", np.float32, *shape)
    probabilities = graph.module(CloudModule(encoder), shape, clouds, OPERATORS)
    best = graph.op("ArgMax", probabilities, axis=1, keepdims=0)
    names = graph.constant(np.array(classes, object))
    graph.output("label", graph.op("Gather", names, best), object)
    graph.output("probabilities", probabilities, np.float32, len(classes))
    facts = {
        "nrs": __version__,
        "task": "classification",
        "points": points,
        "normals": encoder.normals,
        "classes": classes,
    }
    content = graph.serialize({"nrs": json.dumps(facts)})
    with atomic_write(path) as file:
        file.write(content)
