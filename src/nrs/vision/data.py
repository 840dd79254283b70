"""Pictures as map-style datasets: what is read, how a picture is prepared, what is random.

Every reader gives ``(picture, label)`` pairs with a ``classes`` list; `prepared` turns them into
tensors, with the paper's augmentation for training and without for measuring.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nrs.datasets import get, load
from nrs.training.network import hold_out
from nrs.vision._torchvision import part
from nrs.vision.official import READERS as OFFICIAL
from nrs.vision.official import pictures_of_rows, read_cifar_folder, read_cub
from nrs.vision.pictures import PICTURES, Pictures, open_picture, read_folder

__all__ = [
    "CIFAR_10", "CROPS", "IMAGENET_MEAN", "IMAGENET_STD", "PICTURES", "READERS", "DataSettings",
    "Parts", "Pictures", "Preparation", "open_picture", "read_cifar", "read_cub", "read_data",
    "read_folder",
]  # fmt: skip
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROPS = ("random", "resized", "none")


@dataclass(frozen=True)
class Preparation:
    """How a picture becomes a tensor.

    Parameters
    ----------
    size : int
        Side of the crop that the network sees.
    resize : int or None
        Length of the shorter side before cropping. None leaves training pictures as they are, and
        in measuring and predicting those whose shorter side is `size`; others are made so small
        or large that it is, since the middle of a photograph would say little about it.
    crop : {"random", "resized", "none"}
        Of training pictures: a window of the resized picture; a window of random area and shape;
        or the middle, as in measuring.
    padding : int
        Pixels added on each side before a random crop (CIFAR).
    flip : bool
        Whether half of the training pictures are mirrored.
    mean, std : three floats
        Subtracted and divided by, of pixels from 0 to 1.

    Examples
    --------
    >>> Preparation(size=224, resize=256).crop
    'random'
    """

    size: int = 224
    resize: int | None = 256
    crop: str = "random"
    padding: int = 0
    flip: bool = True
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __post_init__(self) -> None:
        if self.crop not in CROPS:
            raise ValueError(f"crop must be random, resized or none, however: {self.crop!r}")
        if self.size < 1 or (self.resize is not None and self.resize < self.size):
            raise ValueError(
                f"resize must be at least size, however: resize={self.resize}, size={self.size}"
            )
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError(
                f"mean and std must have three values, std positive, however: mean={self.mean}, "
                f"std={self.std}"
            )

    def transform(self, *, train: bool) -> Callable[[Any], Tensor]:
        """The function from a picture (PIL) to a float tensor (3, size, size)."""
        v2 = part("torchvision.transforms.v2")
        bicubic = v2.InterpolationMode.BICUBIC
        steps: list[Any] = [v2.ToImage()]
        random = train and self.crop != "none"
        if random and self.crop == "resized":
            steps.append(v2.RandomResizedCrop(self.size, interpolation=bicubic, antialias=True))
        else:
            # A picture that has the length already passes unchanged.
            side = self.resize if self.resize is not None or random else self.size
            if side is not None:
                steps.append(v2.Resize(side, interpolation=bicubic, antialias=True))
            if random:
                padding = self.padding or None
                steps.append(v2.RandomCrop(self.size, padding=padding, pad_if_needed=True))
            else:
                steps.append(v2.CenterCrop(self.size))
        if train and self.flip:
            steps.append(v2.RandomHorizontalFlip())
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(self.mean, self.std)]
        compose: Callable[[Any], Tensor] = v2.Compose(steps)
        return compose


def read_cifar(name: str, root: str | os.PathLike[str] | None = None) -> tuple[Pictures, Pictures]:
    """Read CIFAR-10 or CIFAR-100: training and test pictures.

    Parameters
    ----------
    name : {"CIFAR-10", "CIFAR-100"}
    root : path, optional
        The folder into which the python version unpacks; by default `nrs.datasets` finds the data
        in any of its forms.
    """
    if root is not None:
        return read_cifar_folder(name, root)
    data = load(name)
    classes = CIFAR_10 if name == "CIFAR-10" else [str(k) for k in range(100)]
    assert data.X_test is not None
    assert data.y_test is not None
    return (
        pictures_of_rows(data.X_train, data.y_train, classes),
        pictures_of_rows(data.X_test, data.y_test, classes),
    )


CIFAR_10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@dataclass(frozen=True)
class DataSettings:
    """Which pictures.

    Parameters
    ----------
    reader : {"folder", "cub", "cifar10", "cifar100", "aircraft", "cars", "imagenet"}
        ``"folder"`` has ``train/`` and ``test/`` (or ``val/``), a folder a class; the others read
        what the owners publish, see `nrs.vision.official`.
    name : str
        A dataset of `nrs.datasets` whose folder is found or fetched.
    root : str
        A folder instead of a name.
    held_out : float
        Part of the training pictures by which the epoch is chosen; 0 for none: the last is kept.
    limit : int or None
        At most so many training pictures, the same share of every class.
    """

    reader: str = "folder"
    name: str = ""
    root: str = ""
    held_out: float = 0.0
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.reader not in READERS:
            raise ValueError(
                f"reader must be one of {', '.join(READERS)}, however: {self.reader!r}"
            )
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out must be at least 0 and below 1, however: {self.held_out}")


@dataclass(frozen=True)
class Parts:
    """Pictures to train on, to choose by (None if nothing is chosen), and to measure on."""

    train: Pictures
    choose: Pictures | None
    test: Pictures

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in the order of their labels."""
        return self.train.classes


def read_data(settings: DataSettings, preparation: Preparation, seed: int = 0) -> Parts:
    """Read the pictures of an experiment, prepared for it.

    Raises
    ------
    FileNotFoundError, ValueError
        If they are not there or not what they should be; the message says what is missing.
    """
    root: Path | None = Path(settings.root) if settings.root else None
    if root is None and settings.reader not in ("cifar10", "cifar100"):
        if not settings.name:
            raise ValueError("data.root or data.name must say where the pictures are")
        root = get(settings.name)
    train, test = READERS[settings.reader](root)
    if settings.limit is not None and settings.limit < len(train):
        _, kept = hold_out(train.labels, settings.limit / len(train), seed)
        train = train.some(kept)
    plain = preparation.transform(train=False)
    choose = None
    if settings.held_out:
        kept, held = hold_out(train.labels, settings.held_out, seed)
        choose = train.some(held).prepared(plain)
        train = train.some(kept)
    return Parts(train.prepared(preparation.transform(train=True)), choose, test.prepared(plain))


def _folders(root: Any) -> tuple[Pictures, Pictures]:
    train = read_folder(root / "train")
    test = next((root / name for name in ("test", "val") if (root / name).is_dir()), root / "test")
    return train, read_folder(test, train.classes)


READERS: dict[str, Callable[[Any], tuple[Pictures, Pictures]]] = {
    "folder": _folders,
    "cifar10": lambda root: read_cifar("CIFAR-10", root),
    "cifar100": lambda root: read_cifar("CIFAR-100", root),
    **OFFICIAL,
}
