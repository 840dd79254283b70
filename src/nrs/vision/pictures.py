"""Labelled pictures as a map-style dataset, and the plain folder of folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

PICTURES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".tif", ".tiff", ".webp")


def is_picture(path: Path) -> bool:
    """Whether a file is a picture, by its name; not a hidden one."""
    return path.suffix.lower() in PICTURES and not path.name.startswith(".")


class Pictures:
    """Pictures with labels, by path or as arrays, as a map-style dataset.

    Parameters
    ----------
    items : sequence
        Paths of pictures, or arrays (H, W, 3) of bytes.
    labels : sequence of int
    classes : sequence of str
    transform : callable, optional
        From a PIL picture to what the network reads.
    """

    def __init__(
        self,
        items: Sequence[Any],
        labels: Sequence[int],
        classes: Sequence[str],
        transform: Callable[[Any], Tensor] | None = None,
    ) -> None:
        if len(items) != len(labels):
            raise ValueError(
                f"items and labels must have the same length; got {len(items)} images and "
                f"{len(labels)} labels"
            )
        self.items, self.labels, self.classes = items, list(labels), list(classes)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        picture = open_picture(self.items[index])
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, self.labels[index]

    def prepared(self, transform: Callable[[Any], Tensor]) -> Pictures:
        """The same pictures, prepared in another way."""
        return Pictures(self.items, self.labels, self.classes, transform)

    def some(self, indices: Sequence[int]) -> Pictures:
        """A part of the pictures."""
        items = [self.items[i] for i in indices]
        return Pictures(items, [self.labels[i] for i in indices], self.classes, self.transform)


def open_picture(item: Any) -> Any:
    """A picture as PIL has it, three channels, from a path or an array (H, W, 3) of bytes.

    Raises
    ------
    ValueError
        If the file is not a picture, or a damaged one.
    """
    from PIL import Image, UnidentifiedImageError

    if isinstance(item, Image.Image):
        return item.convert("RGB")
    if not isinstance(item, (str, os.PathLike)):
        return Image.fromarray(item)
    try:
        with Image.open(item) as picture:
            return picture.convert("RGB")
    except FileNotFoundError:
        raise
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise ValueError(f"{item} cannot be read as an image: {error}") from None


def read_folder(folder: str | os.PathLike[str], classes: Sequence[str] | None = None) -> Pictures:
    """Read one folder of images per class, as torchvision's ``ImageFolder`` does.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or no picture in it.

    Examples
    --------
    >>> read_folder("nowhere")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Folder not found: nowhere (it should hold one folder of images per class)
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"Folder not found: {folder} (it should hold one folder of images per class)"
        )
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    known = list(classes) if classes is not None else names
    stranger = [name for name in names if name not in known]
    if stranger:
        raise ValueError(
            f"{folder} has a folder {stranger[0]!r}, which is not one of the {len(known)} classes; "
            "rename or remove it"
        )
    items, labels = [], []
    for label, name in enumerate(known):
        for path in sorted((folder / name).rglob("*")):
            if path.suffix.lower() in PICTURES:
                items.append(path)
                labels.append(label)
    if not items:
        raise FileNotFoundError(
            f"No images found in the class folders of {folder}; file names must end with "
            f"{', '.join(PICTURES)}"
        )
    return Pictures(items, labels, known)
