"""A saved image model on a labelled folder, for ``nrs evaluate``."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from nrs.files.folder import Drawing, EvaluatedFolder, score_files
from nrs.vision.data import measured_part, open_picture
from nrs.vision.predict import ImageModel, describe
from nrs.vision.saliency import as_png, feature_maps, grad_cam, overlay


def evaluate_folder(
    model: str | os.PathLike[str], folder: str | os.PathLike[str]
) -> EvaluatedFolder:
    """Score an image model on a folder with one folder of images per class.

    Of a folder with ``train/`` and ``test/`` (or ``val/``) the latter; of the one folder that the
    model was trained on, the images that training left out for this.

    Raises
    ------
    ModelFileError
        If the model file is not a whole image model.
    FileNotFoundError, ValueError
        If the folder has no images, or none that can be read, or none of a class of the model.
    """
    loaded = ImageModel.load(model)
    pictures, note = measured_part(folder, loaded.classes, loaded.header.get("split"))
    if not set(pictures.classes) & set(loaded.classes):
        raise ValueError(
            f"{folder} must hold a folder for a class of the model, such as "
            f"{loaded.classes[0]!r}; its folders are {', '.join(pictures.classes[:5])}"
        )
    labels = dict(zip(pictures.items, pictures.labels, strict=True))
    read, probabilities, skipped = loaded.readable(pictures.items)
    if not read:
        raise ValueError(f"none of the images in {folder} can be read: {skipped[0][1]}")
    truth = [pictures.classes[labels[path]] for path in read]

    def draw(place: int) -> list[Drawing]:
        return explain_picture(loaded, read[place], int(probabilities[place].argmax()))

    facts = describe(loaded.header)
    return EvaluatedFolder(
        score_files(str(folder), truth, probabilities.double().numpy(), loaded.classes),
        read,
        skipped,
        draw,
        note,
        {name: str(facts[name]) for name in ("network", "head", "image") if name in facts},
    )


def explain_picture(model: ImageModel, path: Path, label: int) -> list[Drawing]:
    """A picture as the network reads it, and what in it speaks for a class."""
    x = model.transform(open_picture(path)).unsqueeze(0)
    measured = model.preparation.measured()
    pixels = (x[0] * measured.std + measured.mean).clamp(0, 1) * 255
    shown = pixels.round().to(torch.uint8).permute(1, 2, 0).numpy()
    drawings: list[Drawing] = [("as the network reads it", as_png(shown))]
    names = feature_maps(model.network, x)
    words = ("Grad-CAM of the head", "Grad-CAM of the backbone")
    if names:
        for caption, heat in zip(words, grad_cam(model.network, x, label, names), strict=False):
            drawings.append((caption, as_png(overlay(shown, heat))))
    return drawings
