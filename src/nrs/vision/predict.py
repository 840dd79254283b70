"""Predictions of a saved image model for pictures, for ``nrs predict`` and for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nrs.training import load_network, loading, read_model
from nrs.training.schema import (
    anything,
    check_header,
    check_outputs,
    choice,
    field_defaults,
    flag,
    integer,
    list_of,
    number,
    optional,
    record,
    text,
)
from nrs.vision.data import CROPS, PICTURES, Preparation, open_picture
from nrs.vision.models import EXCITES, HEADS, ModelSettings, build_model

BATCH = 16
_MODEL = record(
    {
        "name": text(100),
        "head": choice(*HEADS),
        "n_mul": optional(integer(1, 1 << 16)),
        "n_per": optional(integer(1, 1 << 16)),
        "reduce": optional(integer(1, 1 << 16)),
        "sketch": integer(1, 1 << 20),
        "excite": choice(*EXCITES),
        "pretrained": flag,
        "release": text(100),
        "weights": text(),
        "drop": number(0, 1),
    },
    defaults=field_defaults(ModelSettings),
)
_PICTURE = record(
    {
        "size": integer(1, 1 << 12),
        "resize": optional(integer(1, 1 << 13)),
        "crop": choice(*CROPS),
        "padding": integer(0, 1 << 12),
        "flip": flag,
        "mean": list_of(number(), 3, 3),
        "std": list_of(number(1e-12), 3, 3),
    },
    defaults=field_defaults(Preparation),
)
HEADER = record(
    {"model": _MODEL, "picture": _PICTURE, "classes": list_of(text(), 1)}, others=anything
)


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
        with loading(path):
            header = check_header(file.header, HEADER)
            settings, classes = ModelSettings(**header["model"]), header["classes"]
            transform = Preparation(**header["picture"]).transform(train=False)
            # The weights are in the file: nothing is fetched.
            network = load_network(
                lambda: build_model(settings, len(classes), seed=0, fetch=False), file.tensors
            )
        return cls(network, classes, transform)

    def probabilities(self, pictures: list[Any]) -> Tensor:
        """Probabilities (n, classes) of pictures: paths, PIL pictures or arrays (H, W, 3).

        Raises
        ------
        ValueError
            If a file is not a picture, or the network's outputs are beyond float32.
        """
        rows = []
        with torch.inference_mode():
            for start in range(0, len(pictures), BATCH):
                some = pictures[start : start + BATCH]
                x = torch.stack([self.transform(open_picture(item)) for item in some])
                outputs = self.network(x).float()
                check_outputs(outputs)
                rows.append(outputs.softmax(1))
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
    model: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    skipped: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Give the five most probable classes of a picture, or of every picture in a folder.

    Parameters
    ----------
    model : path
    source : path
    skipped : list of str, optional
        Gets what is wrong with pictures that cannot be read; without it the first one is raised.

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
            raise ValueError(f"No pictures in {source}; name a picture, or a folder of some")
    else:
        paths = [source]
    network, found = ImageModel.load(model), []
    for start in range(0, len(paths), BATCH):
        good, pictures = [], []
        for path in paths[start : start + BATCH]:
            try:
                pictures.append(open_picture(path))
                good.append(path)
            except (ValueError, OSError) as error:
                if skipped is None:
                    raise
                skipped.append(str(error))
        tops = network.top(pictures) if pictures else []
        found += [{"input": str(path), "top": top} for path, top in zip(good, tops, strict=True)]
    if not found and skipped:
        raise ValueError(skipped[0])
    return found
