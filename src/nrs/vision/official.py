"""Picture sets as their owners publish them: birds, Aircraft, Cars, ImageNet, CIFAR.

Each reader gives the training and the test pictures, as :class:`nrs.vision.pictures.Pictures`.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nrs.datasets.archives import extract
from nrs.datasets.readers.cifar_pickle import read_cifar_names, read_cifar_pickle
from nrs.datasets.readers.rows import stack_rows
from nrs.vision.pictures import Pictures, is_picture, read_folder

Both = tuple[Pictures, Pictures]
_DEVKIT = "ILSVRC2012_devkit_t12"
_TRUTH, _META = "data/ILSVRC2012_validation_ground_truth.txt", "data/meta.mat"
# The devkit's tables and lists are small.
_DEVKIT_BYTES = 1 << 28


def read_cub(folder: str | os.PathLike[str]) -> Both:
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
            raise ValueError(
                f"{folder} has no {path.name}, one of the lists of CUB-200-2011; extract the "
                "official archive again"
            )
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
                f"{relative} is in images.txt of {folder}, but not in every other list; extract "
                "the official archive again"
            ) from None
        parts[test].append(folder / "images" / relative)
        labels[test].append(label)
    train, test_part = (Pictures(p, y, classes) for p, y in zip(parts, labels, strict=True))
    return train, test_part


def read_aircraft(folder: str | os.PathLike[str]) -> Both:
    """Read FGVC-Aircraft as its archive unpacks; training pictures are train and val together.

    ``data/variants.txt`` names the classes, ``data/images_variant_trainval.txt`` and ``…_test.txt``
    the pictures ``data/images/<number>.jpg``.

    Raises
    ------
    FileNotFoundError, ValueError
        If a list is missing, or names a class that is not in the list of classes.
    """
    places = ("data", "fgvc-aircraft-2013b/data")
    data = _first(folder, places, "FGVC-Aircraft", marker="variants.txt")
    classes = _lines(data / "variants.txt")
    place = {name: label for label, name in enumerate(classes)}
    parts = []
    for part in ("trainval", "test"):
        path = data / f"images_variant_{part}.txt"
        pairs = [line.split(" ", 1) for line in _lines(path)]
        stranger = next((pair for pair in pairs if len(pair) < 2 or pair[1] not in place), None)
        if stranger is not None:
            raise ValueError(f"{path} must name variants of variants.txt; got {stranger}")
        items = [data / "images" / f"{number}.jpg" for number, _ in pairs]
        parts.append(Pictures(items, [place[name] for _, name in pairs], classes))
    return parts[0], parts[1]


def read_cars(folder: str | os.PathLike[str]) -> Both:
    """Read Stanford Cars, in either of its two official forms.

    - ``cars_train/``, ``cars_test/``, ``devkit/`` and ``cars_test_annos_withlabels.mat``, which
      holds the labels of the test pictures (the devkit's own list of them has none);
    - ``car_ims/`` and ``cars_annos.mat``.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing, or has no labels.
    """
    root = Path(folder)
    if (root / "cars_annos.mat").is_file():
        table, names = _annotations(root / "cars_annos.mat", "relative_im_path", "test")
        parts = [
            Pictures(
                [root / str(row["relative_im_path"]) for row in table if bool(row["test"]) == test],
                [int(row["class"]) - 1 for row in table if bool(row["test"]) == test],
                names,
            )
            for test in (False, True)
        ]
        return parts[0], parts[1]
    devkit = _first(root, ("devkit",), "Stanford Cars")
    labelled = "cars_test_annos_withlabels.mat"
    annotations = (
        devkit / "cars_train_annos.mat",
        next((p for p in (root / labelled, devkit / labelled) if p.is_file()), root / labelled),
    )
    names = _class_names(_mat(devkit / "cars_meta.mat"), devkit / "cars_meta.mat")
    parts = []
    for part, path in zip(("train", "test"), annotations, strict=True):
        table, _ = _annotations(path, "fname")
        images = root / f"cars_{part}"
        # Some mirrors wrap the folder in another of its name.
        images = images / images.name if (images / images.name).is_dir() else images
        labels = [int(row["class"]) - 1 for row in table]
        parts.append(Pictures([images / str(row["fname"]) for row in table], labels, names))
    return parts[0], parts[1]


def read_imagenet(folder: str | os.PathLike[str]) -> Both:
    """Read ILSVRC 2012: ``train/<class>/…`` and ``val/``, sorted by class or as published.

    The published ``val/`` is one folder of 50,000 pictures. Their classes are in the development
    kit (``ILSVRC2012_devkit_t12.tar.gz``, packed or unpacked, beside ``val/``), or in
    ``LOC_val_solution.csv`` of the edition at Kaggle, whose folders are found too.

    Raises
    ------
    FileNotFoundError, ValueError
        If pictures or their classes are missing; the message says what to put where.
    """
    root = Path(folder)
    base = next(
        (root / place for place in ("", *_KAGGLE) if (root / place / "train").is_dir()), root
    )
    train = read_folder(base / "train")
    val = next((base / name for name in ("val", "test") if (base / name).is_dir()), base / "val")
    if not val.is_dir() or any(path.is_dir() for path in val.iterdir()):
        return train, read_folder(val, train.classes)
    files = sorted(path for path in val.iterdir() if is_picture(path))
    truth = _imagenet_truth(dict.fromkeys((root, base, val)), files)
    place = {name: label for label, name in enumerate(train.classes)}
    stranger = next((name for name in truth if name not in place), None)
    if stranger is not None:
        raise ValueError(
            f"{val} has pictures of {stranger}, and {base / 'train'} has no such class"
        )
    return train, Pictures(files, [place[name] for name in truth], train.classes)


_KAGGLE = ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC")


def read_cifar_folder(name: str, root: str | os.PathLike[str]) -> Both:
    """Read the python version of CIFAR-10 or CIFAR-100 from the folder it unpacks into.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    DatasetFileError
        If a file is not one of CIFAR's; nothing in it is run.
    """
    ten = name == "CIFAR-10"
    inside = "cifar-10-batches-py" if ten else "cifar-100-python"
    folder = _first(root, (inside, "."), name, marker="batches.meta" if ten else "meta")
    files = (
        ([f"data_batch_{number}" for number in range(1, 6)], ["test_batch"])
        if ten
        else (["train"], ["test"])
    )
    labels = "labels" if ten else "fine_labels"
    classes = (
        read_cifar_names(folder / "batches.meta", "label_names")
        if ten
        else read_cifar_names(folder / "meta", "fine_label_names")
    )
    train, test = (
        stack_rows([read_cifar_pickle(folder / file, labels=labels) for file in part])
        for part in files
    )
    return pictures_of_rows(train.X, train.y, classes), pictures_of_rows(test.X, test.y, classes)


def pictures_of_rows(X: np.ndarray, y: np.ndarray, classes: Sequence[str]) -> Pictures:
    """Rows of CIFAR (red, green, blue) as pictures, which have their colours last."""
    images = X.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype("uint8")
    return Pictures(list(images), [int(label) for label in y], classes)


def _imagenet_truth(folders: Iterable[Path], files: Sequence[Path]) -> list[str]:
    """The class of each validation picture, by WordNet's name for it."""
    for folder in folders:
        solution = folder / "LOC_val_solution.csv"
        if solution.is_file():
            with open(solution, encoding="utf-8", newline="") as file:
                found = {row["ImageId"]: row["PredictionString"] for row in csv.DictReader(file)}
            absent = next((path.stem for path in files if path.stem not in found), None)
            if absent is not None:
                raise ValueError(f"{solution} must name every picture; {absent} is missing")
            return [found[path.stem].split()[0] for path in files]
        for kit in _devkits(folder):
            names, numbers = _synsets(kit / _META), _lines(kit / _TRUTH)
            if len(numbers) != len(files):
                raise ValueError(
                    f"{kit / _TRUTH} has {len(numbers)} lines for {len(files)} pictures; the "
                    "official ones are 50,000 each"
                )
            return [names[int(number)] for number in numbers]
    raise FileNotFoundError(
        f"The classes of the pictures in {files[0].parent if files else 'val/'} are not here. Put "
        f"{_DEVKIT}.tar.gz from image-net.org beside that folder, or sort the pictures into a "
        "folder for each class."
    )


def _devkits(folder: Path) -> Iterator[Path]:
    """The development kit in a folder: unpacked, or for the moment."""
    for place in (folder / _DEVKIT, folder / "devkit", folder):
        if (place / _TRUTH).is_file() and (place / _META).is_file():
            yield place
    archive = folder / f"{_DEVKIT}.tar.gz"
    if archive.is_file():
        with tempfile.TemporaryDirectory(prefix="nrs-") as scratch:
            yield extract(
                archive, Path(scratch) / "kit", max_bytes=_DEVKIT_BYTES, members=[_TRUTH, _META]
            )


def _synsets(path: Path) -> dict[int, str]:
    """WordNet's name of each class by the number that the ground truth counts with."""
    table = _mat(path).get("synsets")
    if table is None or table.dtype.names is None:
        raise ValueError(f"{path} must hold the table 'synsets' of the development kit")
    return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in np.atleast_1d(table)}


def _mat(path: Path) -> dict[str, Any]:
    import scipy.io
    from scipy.io.matlab import MatReadError

    if not path.is_file():
        raise FileNotFoundError(f"File not found: {path}")
    try:
        found: dict[str, Any] = scipy.io.loadmat(path, squeeze_me=True)
    except (MatReadError, ValueError, TypeError, OSError) as error:
        raise ValueError(f"{path} must be a MATLAB file: {error}") from None
    return found


def _annotations(path: Path, *columns: str) -> tuple[np.ndarray, list[str]]:
    """The rows of a table of Stanford Cars, and the class names where it has them."""
    found = _mat(path)
    table = found.get("annotations")
    missing = {"class", *columns}.difference(getattr(table, "dtype", np.dtype(int)).names or ())
    if table is None or missing:
        raise ValueError(
            f"{path} must have annotations with {', '.join(sorted({'class', *columns}))}; it lacks "
            f"{', '.join(sorted(missing))}"
        )
    return np.atleast_1d(table), _class_names(found, path) if "class_names" in found else []


def _class_names(found: dict[str, Any], path: Path) -> list[str]:
    if "class_names" not in found:
        raise ValueError(f"{path} must hold class_names")
    return [str(name) for name in np.atleast_1d(found["class_names"])]


def _first(
    folder: str | os.PathLike[str], places: Iterable[str], name: str, marker: str = ""
) -> Path:
    """The first of some places in a folder that is there and holds the marker."""
    root = Path(folder)
    tried = [root / place for place in places]
    for place in tried:
        if place.is_dir() and (place / marker).exists():
            return place
    raise FileNotFoundError(f"{root} must hold {name}: {tried[0].name}/ is not in it")


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f"File not found: {path}")
    return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]


READERS: dict[str, Callable[[Any], Both]] = {
    "cub": read_cub,
    "aircraft": read_aircraft,
    "cars": read_cars,
    "imagenet": read_imagenet,
}
