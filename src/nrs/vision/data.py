"""Pictures as map-style datasets: what is read, how a picture is prepared, what is random.

Every reader gives ``(picture, label)`` pairs with a ``classes`` list; `prepared` turns them into
tensors, with the paper's augmentation for training and without for measuring.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nrs.datasets import get, load
from nrs.training import fingerprint
from nrs.training.network import hold_out
from nrs.vision._torchvision import part
from nrs.vision.augment import Augmentation
from nrs.vision.measured import Measured, MeasuredByProducts
from nrs.vision.official import READERS as OFFICIAL
from nrs.vision.official import pictures_of_rows, read_cifar_folder, read_cub
from nrs.vision.pictures import PICTURES, Pictures, open_picture, read_folder

__all__ = [
    "CIFAR_10", "CROPS", "IMAGENET_MEAN", "IMAGENET_STD", "PICTURES", "READERS", "Augmentation",
    "DataSettings", "Parts", "Pictures", "Preparation", "open_picture", "read_cifar",
    "read_cub", "read_data", "read_folder",
]  # fmt: skip
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROPS = ("random", "resized", "none")
BALANCES = ("none", "sampling", "loss")


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

    def transform(
        self, *, train: bool, augmentation: Augmentation | None = None
    ) -> Callable[[Any], Tensor]:
        """The function from a picture (PIL) to a float tensor (3, size, size).

        Parameters
        ----------
        train : bool
            Whether it is random.
        augmentation : Augmentation, optional
            What is random besides crop and flip.
        """
        v2 = part("torchvision.transforms.v2")
        compose: Callable[[Any], Tensor]
        if not train:
            compose = v2.Compose([v2.ToImage(), self.measured()])
            return compose
        bicubic = v2.InterpolationMode.BICUBIC
        steps: list[Any] = [v2.ToImage()]
        if self.crop == "resized":
            steps.append(v2.RandomResizedCrop(self.size, interpolation=bicubic, antialias=True))
        else:
            # A picture that has the length already passes unchanged.
            side = self.resize or (self.size if self.crop == "none" else None)
            if side is not None:
                steps.append(v2.Resize(side, interpolation=bicubic, antialias=True))
            if self.crop == "random":
                padding = self.padding or None
                steps.append(v2.RandomCrop(self.size, padding=padding, pad_if_needed=True))
            else:
                steps.append(v2.CenterCrop(self.size))
        if self.flip:
            steps.append(v2.RandomHorizontalFlip())
        augmentation = Augmentation() if augmentation is None else augmentation
        steps += augmentation.of_pixels()
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(self.mean, self.std)]
        compose = v2.Compose([*steps, *augmentation.of_numbers()])
        return compose

    def measured(self, *, by_products: bool = False) -> Measured:
        """The preparation for measuring and predicting, as a module."""
        kind = MeasuredByProducts if by_products else Measured
        return kind(self.size, self.resize or self.size, self.mean, self.std)


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
        ``"folder"`` holds one folder of images per class, or ``train/`` and ``test/`` (or ``val/``)
        that do; the others read what the owners publish, see `nrs.vision.official`.
    name : str
        A dataset of `nrs.datasets` whose folder is found or fetched.
    root : str
        A folder instead of a name.
    held_out : float
        Part of the training pictures by which the epoch is chosen; 0 for none: the last is kept.
    limit : int or None
        At most so many training pictures, the same share of every class.
    test_share : float
        Share of the pictures of each class to measure on, where a folder has none for that. They
        are drawn by ``run.seed``.
    balance : {"none", "sampling", "loss"}
        How classes of few pictures come to count as much as others: their pictures are drawn more
        often, or their losses count more.
    """

    reader: str = "folder"
    name: str = ""
    root: str = ""
    held_out: float = 0.0
    limit: int | None = None
    test_share: float = 0.2
    balance: str = "none"

    def __post_init__(self) -> None:
        if self.reader not in READERS:
            raise ValueError(
                f"reader must be one of {', '.join(READERS)}, however: {self.reader!r}"
            )
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out must be at least 0 and below 1, however: {self.held_out}")
        if not 0 < self.test_share < 1:
            raise ValueError(f"test_share must be between 0 and 1; got {self.test_share}")
        if self.balance not in BALANCES:
            raise ValueError(f"balance must be one of {', '.join(BALANCES)}; got {self.balance!r}")


@dataclass(frozen=True)
class Parts:
    """Pictures to train on, to choose by (None if nothing is chosen), and to measure on.

    Where the pictures to measure on were drawn from one folder, `split` says how: ``share``,
    ``seed``, and a checksum of the ``pictures`` that were divided.
    """

    train: Pictures
    choose: Pictures | None
    test: Pictures
    split: dict[str, Any] | None = None

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in the order of their labels."""
        return self.train.classes


def read_data(
    settings: DataSettings,
    preparation: Preparation,
    seed: int = 0,
    augmentation: Augmentation | None = None,
) -> Parts:
    """Read the pictures of an experiment, prepared for it.

    Parameters
    ----------
    settings : DataSettings
    preparation : Preparation
    seed : int
        Decides which pictures are held out, left out, or measured on.
    augmentation : Augmentation, optional
        Of training pictures.

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
    split = None
    if test is None:
        assert root is not None
        split = {"share": settings.test_share, "seed": seed, "pictures": _names(train, root)}
        train, test = divide(train, settings.test_share, seed)
    if settings.limit is not None and settings.limit < len(train):
        _, kept = hold_out(train.labels, settings.limit / len(train), seed)
        train = train.some(kept)
    plain = preparation.transform(train=False)
    choose = None
    if settings.held_out:
        kept, held = hold_out(train.labels, settings.held_out, seed)
        choose = train.some(held).prepared(plain)
        train = train.some(kept)
    prepared = train.prepared(preparation.transform(train=True, augmentation=augmentation))
    return Parts(prepared, choose, test.prepared(plain), split)


def divide(pictures: Pictures, share: float, seed: int) -> tuple[Pictures, Pictures]:
    """Pictures to train on, and the same share of each class to measure on.

    Raises
    ------
    ValueError
        If a class has a single picture.
    """
    few = [name for k, name in enumerate(pictures.classes) if pictures.labels.count(k) < 2]
    if few:
        raise ValueError(
            f"every class must have at least 2 images, to train on and to measure on; "
            f"{few[0]!r} has 1. Add images, or make folders train and test."
        )
    kept, held = hold_out(pictures.labels, share, seed)
    return pictures.some(kept), pictures.some(held)


def measured_part(
    folder: str | os.PathLike[str], classes: Sequence[str], split: Mapping[str, Any] | None
) -> tuple[Pictures, str]:
    """The pictures of a folder that a model may be measured on, and what to say of them.

    Those in ``test/`` or ``val/`` where there is such a folder. Of the folder that the model was
    trained on, those that `split`, its `Parts.split`, left for measuring; else all.

    Raises
    ------
    FileNotFoundError
        If there are no pictures.
    """
    folder = Path(folder)
    part = _measured_folder(folder)
    if part is not None and (folder / "train").is_dir():
        return read_folder(part), f"the images in {part.name}/"
    pictures = read_folder(folder)
    if split is None or pictures.classes != list(classes):
        return pictures, ""
    if split.get("pictures") != _names(pictures, folder):
        return pictures, ""
    test = divide(pictures, split["share"], split["seed"])[1]
    share = f"{100 * split['share']:.3g} % of each class"
    return test, f"the {len(test):,} images that training left out, {share}"


def _names(pictures: Pictures, root: Path) -> str:
    """A checksum of which pictures a folder holds, wherever it is."""
    return fingerprint([path.relative_to(root).as_posix() for path in pictures.items])


def _measured_folder(root: Path) -> Path | None:
    return next((root / name for name in ("test", "val") if (root / name).is_dir()), None)


def _folders(root: Path) -> tuple[Pictures, Pictures | None]:
    if not (root / "train").is_dir():
        return read_folder(root), None
    train, measured = read_folder(root / "train"), _measured_folder(root)
    return train, None if measured is None else read_folder(measured, train.classes)


READERS: dict[str, Callable[[Any], tuple[Pictures, Pictures | None]]] = {
    "folder": _folders,
    "cifar10": lambda root: read_cifar("CIFAR-10", root),
    "cifar100": lambda root: read_cifar("CIFAR-100", root),
    **OFFICIAL,
}
