"""Folders of clouds: which files are of which class, and which are for training."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nrs.datasets.clouds import Clouds, check_points, is_cloud, read_cloud
from nrs.datasets.errors import DatasetFileError
from nrs.datasets.readers.hdf5 import read_hdf5

HDF5 = (".h5", ".hdf5")
# Folders of clouds to measure on, the first that is there.
MEASURED = ("test", "val", "valid", "validation")
TEST_SHARE = 0.2
# The class and the file of each cloud.
Entries = list[tuple[str, Path]]


@dataclass(frozen=True, eq=False)
class CloudFolder:
    """Clouds of a folder with their classes.

    Attributes
    ----------
    X_train, X_test : array (n, points, 3 or 6), float32
        Coordinates, and normals where they were asked for.
    y_train, y_test : array (n,), int64
        Places in `classes`.
    classes : tuple of str
        Their names, sorted.
    skipped : sequence of (Path, str)
        Files that could not be read, and why.
    split : dict or None
        How test clouds were drawn where the folder has no part for them: ``share``, ``seed``, and
        a checksum of the ``files`` that were divided.
    """

    X_train: Clouds
    y_train: NDArray[np.int64]
    X_test: Clouds
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]
    skipped: Sequence[tuple[Path, str]] = ()
    split: dict[str, Any] | None = None


@dataclass(frozen=True)
class CloudFiles:
    """The files of a folder; see `find_clouds`.

    Attributes
    ----------
    train, measured : list of (str, Path)
        Class and file of each cloud to train on, and to measure on; `measured` is None where the
        folder has no part for that.
    part : str
        The name of that part.
    ordered : bool
        Whether the first points of a list cover its object.
    """

    train: Entries
    measured: Entries | None
    part: str = ""
    ordered: bool = False


def read_cloud_folder(
    folder: str | os.PathLike[str],
    n: int = 1024,
    *,
    normals: bool = False,
    seed: int = 0,
    test_share: float = TEST_SHARE,
    progress: Callable[[int, int], None] | None = None,
) -> CloudFolder:
    """Read a folder of clouds, each in a file of a class, or in one of ModelNet's other forms.

    - files ``<class>/<file>``, of which a share is drawn to measure on;
    - files ``train/<class>/<file>``, and the same in ``test`` (or ``val``), if there is such;
    - files ``<class>/train/<file>`` and ``<class>/test/<file>``, as ModelNet's meshes are;
    - texts ``<class>/<name>.txt`` with lists ``…_train.txt`` and ``…_test.txt`` of names;
    - HDF5 files ``…train….h5`` and ``…test….h5`` with ``shape_names.txt``.

    Hidden and empty folders, and files of other kinds, are passed over. A file that cannot be
    read is skipped: see `CloudFolder.skipped`.

    Parameters
    ----------
    folder : path
        Where the files are.
    n : int
        Points of each cloud. Of a longer list some are drawn, the first of ModelNet's texts; a
        shorter one gives some twice.
    normals : bool
        Whether normals follow the coordinates.
    seed : int
        Of the sampling of meshes and lists, one per file, and of the drawing of test clouds.
    test_share : float
        Share of the clouds of each class to measure on where the folder has no part for that.
    progress : callable (done, all), optional
        Called after each file.

    Raises
    ------
    DatasetFileError
        If the folder has none of these forms, or a class has no cloud that can be read.
    """
    check_points(n)
    folder = Path(folder)
    if hdf5 := hdf5_files(folder):
        return _hdf5_folder(folder, hdf5, n, normals)
    files = find_clouds(folder)
    train, measured, split = files.train, files.measured, None
    if measured is None:
        split = {"share": test_share, "seed": seed, "files": checksum(train, folder)}
        train, measured = divide(train, test_share, seed)
    classes = tuple(sorted({name for name, _ in train}))
    if unknown := sorted({name for name, _ in measured} - set(classes)):
        raise DatasetFileError(
            f"{folder} must have training clouds of every class; {unknown[0]!r} has none. Add "
            "some, or remove its test clouds."
        )
    done, total = 0, len(train) + len(measured)
    parts: list[tuple[Clouds, NDArray[np.int64]]] = []
    skipped: list[tuple[Path, str]] = []
    for entries in (train, measured):
        clouds = np.empty((len(entries), n, 6 if normals else 3), np.float32)
        labels: list[int] = []
        for name, path in entries:
            try:
                whole = read_cloud(path, n, normals=normals, seed=seed + done, whole=True)
                clouds[len(labels)] = _some(whole, n, seed + done, ordered=files.ordered)
                labels.append(classes.index(name))
            except (ValueError, OSError) as error:
                skipped.append((path, str(error)))
            done += 1
            if progress is not None:
                progress(done, total)
        parts.append((clouds[: len(labels)], np.array(labels, np.int64)))
    (X_train, y_train), (X_test, y_test) = parts
    absent = [name for place, name in enumerate(classes) if place not in y_train]
    if absent or not len(y_test):
        what = f"a training cloud of {absent[0]!r}" if absent else "a test cloud"
        why = f" {skipped[0][1]}" if skipped else ""
        raise DatasetFileError(f"{folder} must hold {what} that can be read; it has none.{why}")
    return CloudFolder(X_train, y_train, X_test, y_test, classes, skipped, split)


def find_clouds(folder: str | os.PathLike[str]) -> CloudFiles:
    """Which files of a folder are for training, and which to measure on; see `read_cloud_folder`.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    DatasetFileError
        If it has no form that is known.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"Folder of clouds not found: {folder}")
    if (listed := _listed_files(folder)) is not None:
        return CloudFiles(listed["train"], listed["test"], "test", ordered=True)
    for pattern, level in (("{}/*/*", 0), ("*/{}/*", 1)):
        of_part = {
            part: [
                (path.parents[level].name, path)
                for path in visible_clouds(folder, pattern.format(part))
            ]
            for part in ("train", *MEASURED)
        }
        part = next((part for part in MEASURED if of_part[part]), "")
        if of_part["train"] or part:
            return CloudFiles(of_part["train"], of_part[part] if part else None, part)
    plain = [(path.parent.name, path) for path in visible_clouds(folder, "*/*")]
    if not plain:
        raise DatasetFileError(
            f"{folder} must hold clouds in folders <class>/, train/<class>/ and test/<class>/, or "
            "<class>/train/ and <class>/test/, or texts with lists of names, or HDF5 files; no "
            "such files were found."
        )
    return CloudFiles(plain, None)


def measured_clouds(
    folder: str | os.PathLike[str], split: Mapping[str, Any] | None = None
) -> tuple[Entries, str]:
    """The clouds of a folder that a model may be measured on, and what to say of them.

    Those of the part for it where there is one. Of the folder that was divided as `split` says (see
    `CloudFolder.split`), those that were left out of training; else all.
    """
    files = find_clouds(folder)
    if files.measured is not None:
        return files.measured, f"the clouds in {files.part}/"
    if split is None or split["files"] != checksum(files.train, Path(folder)):
        return files.train, ""
    held = divide(files.train, split["share"], split["seed"])[1]
    share = f"{100 * split['share']:.3g} % of each class"
    return held, f"the {len(held):,} clouds that training left out, {share}"


def divide(entries: Entries, share: float, seed: int) -> tuple[Entries, Entries]:
    """Files to train on, and the same share of each class to measure on, drawn by the seed.

    Raises
    ------
    DatasetFileError
        If a class has a single file.

    Examples
    --------
    >>> kept, held = divide([("box", Path(f"{i}.off")) for i in range(10)], 0.2, seed=0)
    >>> len(kept), len(held)
    (8, 2)
    """
    if not 0 < share < 1:
        raise ValueError(f"test_share must be between 0 and 1; got {share}")
    held: set[tuple[str, Path]] = set()
    for number, name in enumerate(sorted({name for name, _ in entries})):
        mine = sorted(entry for entry in entries if entry[0] == name)
        if len(mine) < 2:
            raise DatasetFileError(
                f"every class must have at least 2 clouds, to train on and to measure on; {name!r} "
                "has 1. Add clouds, or make folders train and test."
            )
        order = np.random.default_rng([seed, number]).permutation(len(mine))
        n_held = min(len(mine) - 1, max(1, round(share * len(mine))))
        held |= {mine[place] for place in order[:n_held]}
    return [one for one in entries if one not in held], sorted(held)


def checksum(entries: Entries, folder: Path) -> str:
    """Which files these are, wherever the folder is."""
    names = sorted(path.relative_to(folder).as_posix() for _, path in entries)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def visible_clouds(folder: Path, pattern: str) -> list[Path]:
    """Files of clouds, sorted, that are not hidden nor in a hidden folder."""
    found = [path for path in sorted(folder.glob(pattern)) if is_cloud(path)]
    return [one for one in found if not any(p[0] == "." for p in one.relative_to(folder).parts)]


def _some(whole: Clouds, n: int, seed: int, *, ordered: bool) -> Clouds:
    """n points of a list, the first where these cover its object, else drawn."""
    if len(whole) > n and not ordered:
        return whole[np.random.default_rng(seed).choice(len(whole), n, replace=False)]
    return whole[np.arange(n) % len(whole)]


def _listed_files(folder: Path) -> dict[str, Entries] | None:
    """Class and file of names such as night_stand_0012 in ``…_train.txt`` and ``…_test.txt``."""
    found: dict[str, Entries] = {}
    for part in ("train", "test"):
        # modelnet40_train.txt lies beside modelnet10_train.txt: the larger list is the whole.
        lists = sorted(folder.glob(f"*_{part}.txt"), key=lambda path: path.stat().st_size)
        if not lists:
            return None
        names = lists[-1].read_text("utf-8").split()
        places = [(name.rpartition("_")[0], name) for name in names]
        found[part] = [(kind, folder / kind / f"{name}.txt") for kind, name in places]
        for _, path in found[part][:1]:
            if not path.is_file():
                raise DatasetFileError(
                    f"{lists[-1]} must list files of {folder}; {path} is not there"
                )
    return found


def hdf5_files(folder: Path) -> list[Path]:
    """The HDF5 files of a folder, sorted.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"Folder of clouds not found: {folder}")
    return [path for path in sorted(folder.iterdir()) if path.suffix.lower() in HDF5]


def _hdf5_folder(folder: Path, files: list[Path], n: int, normals: bool) -> CloudFolder:
    X: dict[str, Clouds] = {}
    y: dict[str, NDArray[np.int64]] = {}
    for part in ("train", "test"):
        mine = [path for path in files if part in path.name]
        if not mine:
            raise DatasetFileError(
                f"{folder} must hold HDF5 files with {part!r} in their names; got "
                f"{', '.join(path.name for path in files)}"
            )
        rows = [read_hdf5(path) for path in mine]
        clouds = np.concatenate([row.X for row in rows])
        if normals:
            # Stored apart from the coordinates, under their own name.
            directions = [read_hdf5(path, x="normal").X for path in mine]
            clouds = np.concatenate([clouds, np.concatenate(directions)], axis=2)
        X[part] = clouds[:, np.arange(n) % clouds.shape[1]].astype(np.float32)
        y[part] = np.concatenate([row.y for row in rows]).astype(np.int64)
    n_classes = int(max(map(np.max, y.values()))) + 1
    names = folder / "shape_names.txt"
    if names.is_file():
        classes = tuple(names.read_text("utf-8").split())
    else:
        classes = tuple(map(str, range(n_classes)))
    if n_classes > len(classes):
        raise DatasetFileError(
            f"{names} must name every class; it has {len(classes)} names and the files "
            f"hold the label {n_classes - 1}; add the names, or remove the file"
        )
    return CloudFolder(X["train"], y["train"], X["test"], y["test"], classes)
