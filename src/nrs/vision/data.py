"""Pictures as map-style datasets: what is read, how a picture is prepared, what is random.

Every reader gives ``(picture, label)`` pairs with a ``classes`` list; `prepared` turns them into
tensors, with the paper's augmentation for training and without for measuring.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nrs.datasets import get, load
from nrs.training.network import hold_out
from nrs.vision._torchvision import part

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROPS = ("random", "resized", "none")
PICTURES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".tif", ".tiff", ".webp")


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
                f"there must be a label a picture, however: {len(items)} pictures, "
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
        raise ValueError(f"{item} must be a whole picture, however: {error}") from None


def read_folder(folder: str | os.PathLike[str], classes: Sequence[str] | None = None) -> Pictures:
    """Read a folder with a folder a class, as torchvision's ``ImageFolder`` does.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or no picture in it.

    Examples
    --------
    >>> read_folder("nowhere")
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere must be a folder with a folder a class, however: it is not there
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} must be a folder with a folder a class, however: it is not there"
        )
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    known = list(classes) if classes is not None else names
    stranger = [name for name in names if name not in known]
    if stranger:
        raise ValueError(f"{folder} must have the classes of training, however: {stranger[0]!r}")
    items, labels = [], []
    for label, name in enumerate(known):
        for path in sorted((folder / name).rglob("*")):
            if path.suffix.lower() in PICTURES:
                items.append(path)
                labels.append(label)
    if not items:
        raise FileNotFoundError(f"{folder} must hold pictures, however: there are none")
    return Pictures(items, labels, known)


def read_cub(folder: str | os.PathLike[str]) -> tuple[Pictures, Pictures]:
    """Read CUB-200-2011 as its archive unpacks: training and test pictures.

    ``images.txt``, ``image_class_labels.txt``, ``classes.txt`` and ``train_test_split.txt`` say
    what belongs where.

    Raises
    ------
    ValueError
        If a list is missing or does not fit the others.
    """
    folder = Path(folder)
    lists = {}
    for name in ("images", "image_class_labels", "classes", "train_test_split"):
        path = folder / f"{name}.txt"
        if not path.exists():
            raise ValueError(f"{folder} must be CUB-200-2011, however: it has no {path.name}")
        lines = path.read_text(encoding="utf-8").split("\n")
        lists[name] = dict(line.strip().split(" ", 1) for line in lines if line.strip())
    numbers = list(lists["classes"])
    classes = [lists["classes"][number].partition(".")[2] or number for number in numbers]
    place = {number: label for label, number in enumerate(numbers)}
    parts: tuple[list[Any], list[Any]] = ([], [])
    labels: tuple[list[int], list[int]] = ([], [])
    for image, relative in lists["images"].items():
        try:
            test = lists["train_test_split"][image] == "0"
            label = place[lists["image_class_labels"][image]]
        except KeyError:
            raise ValueError(
                f"the lists of {folder} must name every picture, however: {relative} is missing"
            ) from None
        parts[test].append(folder / "images" / relative)
        labels[test].append(label)
    train, test_part = (Pictures(p, y, classes) for p, y in zip(parts, labels, strict=True))
    return train, test_part


def read_cifar(name: str, root: str | os.PathLike[str] | None = None) -> tuple[Pictures, Pictures]:
    """Read CIFAR-10 or CIFAR-100: training and test pictures.

    Parameters
    ----------
    name : {"CIFAR-10", "CIFAR-100"}
    root : path, optional
        A folder in torchvision's format; by default `nrs.datasets` finds the data.
    """
    if root is not None:
        kind = getattr(part("torchvision.datasets"), name.replace("-", ""))
        try:
            sets = [kind(os.fspath(root), train=train, download=False) for train in (True, False)]
        except RuntimeError as error:
            raise FileNotFoundError(f"{root} must hold {name}, however: {error}") from None
        return tuple(Pictures(s.data, [int(y) for y in s.targets], s.classes) for s in sets)  # type: ignore[return-value]
    data = load(name)
    classes = CIFAR_10 if name == "CIFAR-10" else [str(k) for k in range(100)]
    assert data.X_test is not None
    assert data.y_test is not None
    parts = ((data.X_train, data.y_train), (data.X_test, data.y_test))
    train, test = (
        # A row is red, green, blue; a picture has its colours last.
        Pictures(
            list(X.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype("uint8")),
            [int(label) for label in y],
            classes,
        )
        for X, y in parts
    )
    return train, test


CIFAR_10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


class _Read:
    """The pictures of a torchvision dataset that reads files itself."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index][0]


def _of_torchvision(name: str, root: str | os.PathLike[str], splits: Sequence[str]) -> Any:
    """Training and test pictures of a dataset class that has a ``split``."""
    kind = getattr(part("torchvision.datasets"), name)
    found = []
    for split in splits:
        try:
            dataset = kind(os.fspath(root), split=split, download=False)
        except RuntimeError as error:
            raise FileNotFoundError(f"{root} must hold {name}, however: {error}") from None
        # Labels without opening every picture.
        unread = copy.copy(dataset)
        unread.loader = lambda path: None
        labels = [int(unread[k][1]) for k in range(len(unread))]
        found.append(Pictures(_Read(dataset), labels, dataset.classes))  # type: ignore[arg-type]
    return tuple(found)


@dataclass(frozen=True)
class DataSettings:
    """Which pictures.

    Parameters
    ----------
    reader : {"folder", "cub", "cifar10", "cifar100", "aircraft", "cars"}
        ``"folder"`` has ``train/`` and ``test/`` (or ``val/``), a folder a class.
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
    "cub": read_cub,
    "cifar10": lambda root: read_cifar("CIFAR-10", root),
    "cifar100": lambda root: read_cifar("CIFAR-100", root),
    "aircraft": lambda root: _of_torchvision("FGVCAircraft", root, ("trainval", "test")),
    "cars": lambda root: _of_torchvision("StanfordCars", root, ("train", "test")),
}
