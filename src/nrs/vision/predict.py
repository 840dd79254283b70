"""Predictions of a saved image model for pictures, for ``nrs predict`` and for programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nrs.training import SampleError, load_network, loading, read_model
from nrs.training.loop import several
from nrs.training.schema import (
    anything,
    check_header,
    check_outputs,
    choice,
    field_defaults,
    flag,
    integer,
    list_of,
    mapping,
    number,
    optional,
    plain,
    record,
    text,
)
from nrs.vision.data import CROPS, PICTURES, Preparation, open_picture
from nrs.vision.models import EXCITES, HEADS, ModelSettings, build_model
from nrs.vision.pictures import list_pictures

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
_SPLIT = record(
    {"share": number(0, 1), "seed": integer(-(1 << 63), (1 << 64) - 1), "pictures": text(64)}
)
HEADER = record(
    {
        "model": _MODEL,
        "picture": _PICTURE,
        "classes": list_of(text(), 1),
        "split": optional(_SPLIT),
    },
    defaults={"split": None},
    others=anything,
)
# What `nrs info` shows, of any file.
_SHOWN = {
    "model": mapping(plain),
    "picture": mapping(plain),
    "classes": list_of(text()),
    "metrics": mapping(number()),
    "config": mapping(mapping(plain)),
    "split": optional(_SPLIT),
}
SHOWN = record(_SHOWN, absent=_SHOWN, others=anything)


class ImageModel:
    """A trained image classifier: pictures in, probabilities of classes out.

    Parameters
    ----------
    network : nn.Module
    classes : list of str
    preparation : Preparation
        How a picture becomes what the network reads.
    header : dict
        Of the model file: what it says of the training.
    """

    def __init__(
        self,
        network: nn.Module,
        classes: list[str],
        preparation: Preparation,
        header: dict[str, Any] | None = None,
    ) -> None:
        self.network, self.classes, self.preparation = network.eval(), classes, preparation
        self.transform = preparation.transform(train=False)
        self.header = header or {}

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
            preparation = Preparation(**header["picture"])
            # The weights are in the file: nothing is fetched.
            network = load_network(
                lambda: build_model(settings, len(classes), seed=0, fetch=False), file.tensors
            )
        return cls(network, classes, preparation, header)

    def prepared(self, pictures: Iterable[Any]) -> Iterator[tuple[list[Any], Tensor]]:
        """Batches of pictures as the network reads them, next to what each was made from.

        Parameters
        ----------
        pictures : iterable of paths, PIL pictures or arrays (H, W, 3)

        Raises
        ------
        SampleError
            If a file is not a picture.
        """
        for some in several(pictures, BATCH):
            yield some, torch.stack([self.transform(open_picture(item)) for item in some])

    def probabilities(self, pictures: Iterable[Any]) -> Tensor:
        """Probabilities (n, classes) of pictures: paths, PIL pictures or arrays (H, W, 3).

        Raises
        ------
        ValueError
            If a file is not a picture, or the network's outputs are beyond float32.
        """
        return torch.cat([self._answers(x) for _, x in self.prepared(pictures)])

    @torch.inference_mode()
    def _answers(self, x: Tensor) -> Tensor:
        outputs = self.network(x).float()
        check_outputs(outputs)
        return outputs.softmax(1)

    def readable(self, paths: Iterable[Path]) -> tuple[list[Path], Tensor, list[tuple[Path, str]]]:
        """Answers for those files that can be read.

        Returns
        -------
        paths : list of Path
            Of the files that can be read.
        probabilities : Tensor (n, classes)
        skipped : list of (Path, str)
            Other files, and why they cannot be read.
        """
        read: list[Path] = []
        skipped: list[tuple[Path, str]] = []

        def opened() -> Iterator[Any]:
            for path in paths:
                try:
                    picture = open_picture(path)
                except SampleError as error:
                    skipped.append((path, str(error)))
                    continue
                read.append(path)
                yield picture

        rows = [self._answers(x) for _, x in self.prepared(opened())]
        return read, torch.cat(rows) if rows else torch.empty(0, len(self.classes)), skipped

    def top(self, pictures: list[Any], k: int = 5) -> list[list[dict[str, Any]]]:
        """The k most probable classes of each picture: ``label`` and ``probability``."""
        return self.listed(self.probabilities(pictures), k)

    def listed(self, probabilities: Tensor, k: int = 5) -> list[list[dict[str, Any]]]:
        """The k most probable classes of each row: ``label`` and ``probability``."""
        found = probabilities.topk(min(k, len(self.classes)), dim=1)
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
        ``input``, the path; ``top``, a list of ``label`` and ``probability``. Files that cannot be
        read come last: ``input`` and ``error``.

    Raises
    ------
    ModelFileError
        If the model file is not a whole image model.
    ValueError
        If no file can be read, or the folder has no pictures.
    """
    source = Path(source)
    paths = list_pictures(source) if source.is_dir() else [source]
    if not paths:
        raise ValueError(f"{source} must hold images; it has no file {', '.join(PICTURES)}")
    loaded = ImageModel.load(model)
    read, probabilities, skipped = loaded.readable(paths)
    if not read:
        more = f" (and {len(skipped) - 1} more files)" if len(skipped) > 1 else ""
        raise ValueError(skipped[0][1] + more)
    rows: list[dict[str, Any]] = [
        {"input": str(path), "top": top}
        for path, top in zip(read, loaded.listed(probabilities), strict=True)
    ]
    return rows + [{"input": str(path), "error": why} for path, why in skipped]


def describe(header: dict[str, Any]) -> dict[str, Any]:
    """What a model file says of itself, for ``nrs info``.

    Raises
    ------
    ModelFileError
        If a fact is of another type than it should be.
    """
    shown = check_header(header, SHOWN)
    model, picture = shown.get("model", {}), shown.get("picture", {})
    facts: dict[str, Any] = {
        "network": model.get("name"),
        "head": model.get("head"),
        "image": f"{picture['size']} pixels" if "size" in picture else None,
        "classes": shown.get("classes"),
        "scores": shown.get("metrics"),
        "settings": {
            f"{section}.{key}": value
            for section, values in shown.get("config", {}).items()
            for key, value in values.items()
        },
    }
    if shown.get("split"):
        split = shown["split"]
        facts["measured on"] = f"{100 * split['share']:.3g} % of each class, seed {split['seed']}"
    return {name: value for name, value in facts.items() if value}
