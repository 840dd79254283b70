"""Predictions of a saved image model for pictures, for ``nrs predict`` and for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nrs.training import ModelFileError, read_model
from nrs.training.config import ConfigError, build_config
from nrs.vision.data import PICTURES, Preparation, open_picture
from nrs.vision.models import ModelSettings, build_model

BATCH = 16


class ImageModel:
    """A trained image classifier: pictures in, probabilities of classes out.

    Parameters
    ----------
    network : nn.Module
    classes : list of str
    transform : callable
        From a PIL picture to what the network reads.
    """

    def __init__(
        self, network: nn.Module, classes: list[str], transform: Callable[[Any], Tensor]
    ) -> None:
        self.network, self.classes, self.transform = network.eval(), classes, transform

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImageModel:
        """Read a model file that ``nrs train vision`` wrote; nothing in it is executed.

        Raises
        ------
        ModelFileError
            If the file is not a whole image model.
        """
        file = read_model(path, kind="image")
        header = file.header
        try:
            parts = build_config(
                {"model": header["model"], "picture": header["picture"]},
                {"model": ModelSettings, "picture": Preparation},
            )
            # The weights are in the file: nothing is fetched.
            network = build_model(parts["model"], len(header["classes"]), seed=0, fetch=False)
            network.load_state_dict(file.tensors)
        except (KeyError, TypeError, RuntimeError, ConfigError) as error:
            raise ModelFileError(
                f"{path} must describe an image model that this version can make, however: {error}"
            ) from None
        return cls(network, header["classes"], parts["picture"].transform(train=False))

    def probabilities(self, pictures: list[Any]) -> Tensor:
        """Probabilities (n, classes) of pictures: paths, PIL pictures or arrays (H, W, 3)."""
        rows = []
        with torch.inference_mode():
            for start in range(0, len(pictures), BATCH):
                some = pictures[start : start + BATCH]
                x = torch.stack([self.transform(open_picture(item)) for item in some])
                rows.append(self.network(x).float().softmax(1))
        return torch.cat(rows)

    def top(self, pictures: list[Any], k: int = 5) -> list[list[dict[str, Any]]]:
        """The k most probable classes of each picture: ``label`` and ``probability``."""
        found = self.probabilities(pictures).topk(min(k, len(self.classes)), dim=1)
        return [
            [
                {"label": self.classes[index], "probability": probability}
                for index, probability in zip(indices, values, strict=True)
            ]
            for indices, values in zip(found.indices.tolist(), found.values.tolist(), strict=True)
        ]


def predict_file(
    model: str | os.PathLike[str], source: str | os.PathLike[str]
) -> list[dict[str, Any]]:
    """Give the five most probable classes of a picture, or of every picture in a folder.

    Returns
    -------
    list of dict
        ``input``, the path; ``top``, a list of ``label`` and ``probability``.

    Raises
    ------
    ModelFileError
        If the model file is not a whole image model.
    ValueError
        If a file is not a picture, or the folder has none.
    """
    source = Path(source)
    if source.is_dir():
        paths = sorted(p for p in source.rglob("*") if p.suffix.lower() in PICTURES)
        if not paths:
            raise ValueError(f"{source} must hold pictures, however: there are none")
    else:
        paths = [source]
    found = ImageModel.load(model).top(paths)
    return [{"input": str(path), "top": top} for path, top in zip(paths, found, strict=True)]
