"""A saved image model as ONNX, its preprocessing inside, for ``nrs export``."""

from __future__ import annotations

import json
import os

import torch
from torch import Tensor, nn

from nrs._util.atomic import atomic_write
from nrs._util.optional import import_optional
from nrs.vision.predict import ImageModel

# Sides of the picture that is traced: any other may follow.
_SIDES = (70, 90)


class RawPictures(nn.Module):
    """An image model from decoded pictures to probabilities.

    **Shape** input ``(N, H, W, 3)`` of bytes, output ``(N, classes)``.

    Parameters
    ----------
    model : ImageModel
    """

    def __init__(self, model: ImageModel) -> None:
        super().__init__()
        self.prepare = model.preparation.measured(by_products=True)
        self.network = model.network

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.network(self.prepare(pictures.permute(0, 3, 1, 2)))
        return scores.softmax(1)


def export_onnx(model: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write an image model as ONNX: decoded pictures of one size in, probabilities out.

    The input ``pictures`` is (N, H, W, 3) of bytes, as decoders give it, with any N, H and W; the
    output is ``probabilities`` (N, classes). The entry ``nrs`` of the file's metadata is JSON with
    the ``classes``.

    Raises
    ------
    ModelFileError
        If the model file is not a whole image model.
    ModuleNotFoundError
        Without onnx and onnxscript; the extra ``export`` installs them.
    """
    for needed in ("onnx", "onnxscript"):
        import_optional(needed, "the export of an image model", "export")
    loaded = ImageModel.load(model)
    module = RawPictures(loaded).eval()
    pictures = torch.zeros(2, *_SIDES, 3, dtype=torch.uint8)
    free = {0: "n", 1: "height", 2: "width"}
    sizes = {place: torch.export.Dim(name, min=1) for place, name in free.items()}
    program = torch.onnx.export(
        module, (pictures,), dynamo=True, verbose=False,
        input_names=["pictures"], output_names=["probabilities"],
        dynamic_shapes=({**sizes},),
    )  # fmt: skip
    assert program is not None
    program.model.metadata_props["nrs"] = json.dumps({"classes": loaded.classes})
    with atomic_write(path) as file:
        file.write(program.model_proto.SerializeToString())
