"""Made-up pictures in the official form of each set, so that a smoke run reads them as a real one.

A few pictures of a colour each; every class has training and test pictures.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = 3
_TRAIN, _TEST = 4, 2
_SIDE = 36


def write_pictures(reader: str, folder: Path) -> Path:
    """Write the made-up set that a reader of `nrs.vision.data` reads; gives its root.

    Examples
    --------
    >>> import tempfile
    >>> from nrs.vision.official import read_aircraft
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     train, test = read_aircraft(write_pictures("aircraft", Path(scratch)))
    >>> len(train), len(test), len(train.classes)
    (12, 6, 3)
    """
    folder.mkdir(parents=True, exist_ok=True)
    _WRITERS[reader](folder)
    return folder


def _colours() -> Iterator[tuple[str, int, int, np.ndarray]]:
    """Part, class, number and pixels of every picture."""
    generator = np.random.default_rng(0)
    for part, count in (("train", _TRAIN), ("test", _TEST)):
        for label in range(CLASSES):
            for number in range(count):
                noise = generator.integers(0, 60, (_SIDE, _SIDE, 3))
                noise[:, :, label % 3] += 150
                yield part, label, number, noise.astype("uint8")


def _save(pixels: np.ndarray, path: Path) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def _folder(root: Path) -> None:
    for part, label, number, pixels in _colours():
        _save(pixels, root / part / f"class-{label}" / f"{number}.png")


def _cub(root: Path) -> None:
    lists: dict[str, list[str]] = {"images": [], "image_class_labels": [], "train_test_split": []}
    for place, (part, label, number, pixels) in enumerate(_colours(), start=1):
        name = f"{label + 1:03}.Bird_{label}/{part}_{number}.jpg"
        _save(pixels, root / "images" / name)
        lists["images"].append(f"{place} {name}")
        lists["image_class_labels"].append(f"{place} {label + 1}")
        lists["train_test_split"].append(f"{place} {int(part == 'train')}")
    lists["classes"] = [f"{k + 1} {k + 1:03}.Bird_{k}" for k in range(CLASSES)]
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("\n".join(lines) + "\n")


def _aircraft(root: Path) -> None:
    lines: dict[str, list[str]] = {"train": [], "test": []}
    for place, (part, label, _, pixels) in enumerate(_colours()):
        _save(pixels, root / "data" / "images" / f"{place:07}.jpg")
        lines[part].append(f"{place:07} Variant {label}")
    for part, name in (("train", "trainval"), ("test", "test")):
        (root / "data" / f"images_variant_{name}.txt").write_text("\n".join(lines[part]) + "\n")
    variants = "".join(f"Variant {label}\n" for label in range(CLASSES))
    (root / "data" / "variants.txt").write_text(variants)


def _cars(root: Path) -> None:
    import scipy.io

    rows: dict[str, list[tuple[int, str]]] = {"train": [], "test": []}
    for part, label, _, pixels in _colours():
        name = f"{len(rows[part]) + 1:05}.jpg"
        _save(pixels, root / f"cars_{part}" / name)
        rows[part].append((label + 1, name))
    (root / "devkit").mkdir()
    names = np.array([[f"Car {label}" for label in range(CLASSES)]], dtype=object)
    scipy.io.savemat(root / "devkit" / "cars_meta.mat", {"class_names": names})
    for part, file in (
        ("train", "devkit/cars_train_annos.mat"),
        ("test", "cars_test_annos_withlabels.mat"),
    ):
        table = np.array([rows[part]], dtype=[("class", object), ("fname", object)])
        scipy.io.savemat(root / file, {"annotations": table})


def _imagenet(root: Path) -> None:
    """A flat val/, as published, with the development kit's tables."""
    import scipy.io

    truth = []
    for part, label, number, pixels in _colours():
        if part == "train":
            _save(pixels, root / "train" / f"n{label:08}" / f"n{label:08}_{number}.JPEG")
        else:
            truth.append(label + 1)
            _save(pixels, root / "val" / f"ILSVRC2012_val_{len(truth):08}.JPEG")
    kit = root / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    synsets = np.array(
        [[(label + 1, f"n{label:08}")] for label in range(CLASSES)],
        dtype=[("ILSVRC2012_ID", object), ("WNID", object)],
    )
    scipy.io.savemat(kit / "meta.mat", {"synsets": synsets})
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("\n".join(map(str, truth)) + "\n")


def _rows(part: str) -> tuple[bytes, list[int]]:
    """Pictures of a part as CIFAR has them: 32 × 32, red, then green, then blue."""
    found = [(label, pixels) for p, label, _, pixels in _colours() if p == part]
    images = [pixels[:32, :32].transpose(2, 0, 1).tobytes() for _, pixels in found]
    return b"".join(images), [label for label, _ in found]


def _cifar10(root: Path) -> None:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for file in [f"data_batch_{number}" for number in range(1, 6)]:
        (folder / file).write_bytes(_batch(*_rows("train"), b"labels"))
    (folder / "test_batch").write_bytes(_batch(*_rows("test"), b"labels"))
    (folder / "batches.meta").write_bytes(_names(b"label_names"))


def _cifar100(root: Path) -> None:
    folder = root / "cifar-100-python"
    folder.mkdir()
    for part in ("train", "test"):
        (folder / part).write_bytes(_batch(*_rows(part), b"fine_labels"))
    (folder / "meta").write_bytes(_names(b"fine_label_names"))


def _batch(pixels: bytes, labels: list[int], key: bytes) -> bytes:
    """A batch as Python 2 pickled it: its texts are bytes, which Python 3 writes otherwise."""
    n = len(labels)
    kind = b"cnumpy\ndtype\n" + _text(b"u1") + b"K\x00K\x01\x87R(K\x03" + _text(b"|")
    kind += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + _text(b"b")
    array += b"\x87R(K\x01" + _number(n) + _number(3072) + b"\x86" + kind + b"\x89"
    array += _text(pixels) + b"tb"
    numbers = b"](" + b"".join(map(_number, labels)) + b"e"
    return b"\x80\x02}(" + _text(b"data") + array + _text(key) + numbers + b"u."


def _names(key: bytes) -> bytes:
    names = b"](" + b"".join(_text(b"class %d" % label) for label in range(CLASSES)) + b"e"
    return b"\x80\x02}(" + _text(key) + names + b"u."


def _text(content: bytes) -> bytes:
    if len(content) < 256:
        return pickle.SHORT_BINSTRING + bytes([len(content)]) + content
    return pickle.BINSTRING + len(content).to_bytes(4, "little") + content


def _number(value: int) -> bytes:
    return pickle.BININT + value.to_bytes(4, "little")


_WRITERS: dict[str, Callable[[Path], Any]] = {
    "folder": _folder,
    "cub": _cub,
    "aircraft": _aircraft,
    "cars": _cars,
    "imagenet": _imagenet,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
}
