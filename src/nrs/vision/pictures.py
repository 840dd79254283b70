"""Labelled pictures as a map-style dataset, and the plain folder of folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nrs.training import SampleError

PICTURES = (
    ".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".gif", ".tif", ".tiff", ".webp",
)  # fmt: skip


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
    """A picture as PIL has it: upright, three channels of 8 bits, of an animation the first frame.

    Numbers of more than 8 bits are scaled; transparency is left out.

    Parameters
    ----------
    item : path, PIL picture or array (H, W, 3) of bytes

    Raises
    ------
    SampleError
        If the file is no picture, a damaged one, or one of more than 179 million pixels.
    """
    from PIL import Image

    if isinstance(item, Image.Image):
        return _three_channels(item)
    if not isinstance(item, (str, os.PathLike)):
        return Image.fromarray(item)
    path = Path(item)
    if not path.exists():
        raise FileNotFoundError(f"File not found: {item}")
    try:
        if not path.is_file():
            raise ValueError("it is no regular file")
        if path.stat().st_size == 0:
            raise ValueError("the file is empty")
        with Image.open(path) as picture:
            return _three_channels(_upright(picture))
    except Image.UnidentifiedImageError:
        raise SampleError(f"{item} cannot be read as an image: its content is none") from None
    except Exception as error:  # Decoders raise whatever damaged bytes lead them to.
        raise SampleError(f"{item} cannot be read as an image: {error}") from None


def _upright(picture: Any) -> Any:
    """Turned as its camera noted; the pixels of most pictures need no turn."""
    from PIL import ExifTags, ImageOps

    try:
        turned = picture.getexif().get(ExifTags.Base.Orientation, 1) != 1
    except Exception:  # A damaged note says nothing; the pixels may be whole.
        return picture
    return ImageOps.exif_transpose(picture) if turned else picture


def _three_channels(picture: Any) -> Any:
    from PIL import Image

    if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
        # PIL would cut numbers above 255.
        numbers = np.nan_to_num(np.asarray(picture, dtype=np.float64), posinf=0, neginf=0)
        top = 1.0 if picture.mode == "F" and numbers.max() <= 1 else 255.0
        if picture.mode != "F" and (picture.mode != "I" or numbers.max() > top):
            top = 65535.0
        picture = Image.fromarray((numbers * (255 / top)).clip(0, 255).round().astype(np.uint8))
    elif picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")
    return picture.convert("RGB")


def read_folder(folder: str | os.PathLike[str], classes: Sequence[str] | None = None) -> Pictures:
    """Read one folder of images per class, as torchvision's ``ImageFolder`` does.

    Hidden files and folders, and folders without an image, are left out.

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
    found = {
        path.name: files
        for path in sorted(folder.iterdir())
        if path.is_dir() and not path.name.startswith(".") and (files := list_pictures(path))
    }
    known = list(classes) if classes is not None else list(found)
    stranger = [name for name in found if name not in known]
    if stranger:
        raise ValueError(
            f"{folder} has a folder {stranger[0]!r}, which is not one of the {len(known)} classes; "
            "rename or remove it"
        )
    if not found:
        raise FileNotFoundError(
            f"No images found in the class folders of {folder}; file names must end with "
            f"{', '.join(PICTURES)}"
        )
    items, labels = [], []
    for label, name in enumerate(known):
        items += found.get(name, [])
        labels += [label] * len(found.get(name, []))
    return Pictures(items, labels, known)


def list_pictures(folder: Path) -> list[Path]:
    """Pictures in a folder and the folders within, by name; hidden ones are left out."""
    found = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        # A pipe that is called a picture would be waited for.
        if not hidden and is_picture(path) and path.is_file():
            found.append(path)
    return found
