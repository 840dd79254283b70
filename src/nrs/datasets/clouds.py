"""Clouds from files and folders: meshes sampled, text and HDF5 read."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nrs.datasets.archives import open_stream
from nrs.datasets.errors import DatasetFileError
from nrs.datasets.readers.hdf5 import read_hdf5
from nrs.datasets.readers.mesh import MAX_MESH_BYTES, MESHES, read_mesh
from nrs.datasets.readers.rows import unreadable
from nrs.datasets.surface import sample_surface, to_float32

TEXTS = (".txt", ".xyz", ".csv", ".pts")
HDF5 = (".h5", ".hdf5")
Clouds = NDArray[np.float32]


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
    """

    X_train: Clouds
    y_train: NDArray[np.int64]
    X_test: Clouds
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]


def read_cloud(
    path: str | os.PathLike[str],
    n: int = 1024,
    *,
    normals: bool = False,
    seed: int = 0,
    whole: bool = False,
) -> Clouds:
    """Read one cloud: a mesh is sampled, the first n points of a list of points are taken.

    The first n cover the object in lists that are ordered for it, as ModelNet's texts are. Of a
    scan they may be one end: take it `whole`, and n of it with `nrs.points.clouds.spread_points`.
    A cloud farther from the origin than 1,000 times its extent, as in coordinates of a map, is
    moved to the origin, since float32 would lose its shape.

    Parameters
    ----------
    path : path
        An .off, .obj or .ply mesh; a .ply of points; a .txt, .xyz, .csv or .pts file of three or
        six numbers a line, apart by commas or blanks, maybe below a line of names or, in a .pts
        file, of their count; plain or compressed.
    n : int
        How many points; all of a list that has fewer.
    normals : bool
        Whether normals follow the coordinates; a list of points must have them then.
    seed : int
        Of the sampling of a mesh.
    whole : bool
        Whether all points of a list are given, however many.

    Returns
    -------
    points : array
        (n, 3), or (n, 6) with normals.

    Raises
    ------
    DatasetFileError
        If the file is damaged, empty, too large, or lacks normals.
    ValueError
        If its ending is none of these, or n is below 1.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.txt"
    ...     _ = path.write_text("0,0,0\\n1,2,3\\n")
    ...     read_cloud(path).tolist()
    [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]
    """
    _check_points(n)
    path = Path(path)
    kind = cloud_kind(path)
    if kind in MESHES:
        mesh = read_mesh(path, points_only=kind == ".ply")
        if len(mesh.faces):
            return sample_surface(mesh, n, normals=normals, seed=seed)
        cloud = mesh.vertices
        if normals and mesh.vertex_normals is not None:
            cloud = np.concatenate([cloud, mesh.vertex_normals], axis=1)
    else:
        cloud = _read_text(path, kind)
    channels = 6 if normals else 3
    if cloud.shape[1] < channels:
        raise unreadable(path, "cloud with normals", f"a point has {cloud.shape[1]} numbers")
    if not np.isfinite(cloud).all():
        raise unreadable(path, "cloud", "a number is NaN or infinite")
    return np.ascontiguousarray(to_float32(cloud)[: None if whole else n, :channels])


def _check_points(n: int) -> None:
    if n < 1:
        raise ValueError(f"n must be a number of points of at least 1, however: n={n}")


def cloud_kind(path: Path) -> str:
    """The ending that tells a cloud's format, without that of a compression."""
    kind = _endings(path)[0]
    if kind not in (*MESHES, *TEXTS):
        raise ValueError(
            f"a mesh or cloud must be a file {', '.join((*MESHES, *TEXTS))}, however: {path.name!r}"
        )
    return kind


def is_cloud(path: Path) -> bool:
    """Whether a file of a folder is one that `read_cloud` reads, by its name; not a hidden one.

    >>> [is_cloud(Path(name)) for name in ("a.off", "a.OFF.gz", "a.png", "._a.off")]
    [True, True, False, False]
    """
    return _endings(path)[0] in (*MESHES, *TEXTS) and not path.name.startswith(".")


def cloud_name(path: Path) -> str:
    """The name of a file without the endings of its format and compression.

    >>> cloud_name(Path("shapes/chair.v1.off.gz"))
    'chair.v1'
    """
    kind, packed = _endings(path)
    return path.name[: len(path.name) - len(kind + packed)]


def _endings(path: Path) -> tuple[str, str]:
    """The endings of a format and of a compression, in small letters; "" for none."""
    packed = path.suffix.lower() if path.suffix.lower() in (".gz", ".bz2", ".xz") else ""
    return Path(path.name[: len(path.name) - len(packed)]).suffix.lower(), packed


def read_cloud_folder(
    folder: str | os.PathLike[str],
    n: int = 1024,
    *,
    normals: bool = False,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> CloudFolder:
    """Read a folder of clouds in one of the forms in which ModelNet is published.

    - meshes or texts ``<class>/train/<file>`` and ``<class>/test/<file>``;
    - texts ``<class>/<name>.txt`` with lists ``…_train.txt`` and ``…_test.txt`` of names beside;
    - HDF5 files ``…train….h5`` and ``…test….h5`` with ``shape_names.txt`` beside.

    Parameters
    ----------
    folder : path
        Where the files are.
    n : int
        Points of each cloud; a list that has fewer gives some twice.
    normals : bool
        Whether normals follow the coordinates.
    seed : int
        Of the sampling of meshes, one a file.
    progress : callable (done, all), optional
        Called after each file.

    Raises
    ------
    DatasetFileError
        If the folder has none of these forms, or a file cannot be read.
    """
    _check_points(n)
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be a folder of clouds, however: it is not there")
    hdf5 = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in HDF5]
    if hdf5:
        return _hdf5_folder(folder, hdf5, n, normals)
    files = _listed_files(folder) or _sorted_files(folder)
    classes = tuple(sorted({name for part in files.values() for name, _ in part}))
    if not all(files.values()) or not classes:
        raise DatasetFileError(
            f"{folder} must hold <class>/train/ and <class>/test/ with meshes or texts, or texts "
            f"with lists of names, or HDF5 files, however: found "
            f"{len(files['train'])} training and {len(files['test'])} test files"
        )
    total, done = sum(map(len, files.values())), 0
    X: dict[str, Clouds] = {}
    y: dict[str, NDArray[np.int64]] = {}
    for part, entries in files.items():
        X[part] = np.empty((len(entries), n, 6 if normals else 3), np.float32)
        y[part] = np.array([classes.index(name) for name, _ in entries], np.int64)
        for place, (_, path) in enumerate(entries):
            cloud = read_cloud(path, n, normals=normals, seed=seed + done)
            X[part][place] = cloud[np.arange(n) % len(cloud)]
            done += 1
            if progress is not None:
                progress(done, total)
    return CloudFolder(X["train"], y["train"], X["test"], y["test"], classes)


_Files = dict[str, list[tuple[str, Path]]]


def _sorted_files(folder: Path) -> _Files:
    """Class and file of ``<class>/<part>/<file>``."""
    found: _Files = {"train": [], "test": []}
    for part, entries in found.items():
        for path in sorted(folder.glob(f"*/{part}/*")):
            if is_cloud(path):
                entries.append((path.parent.parent.name, path))
    return found


def _listed_files(folder: Path) -> _Files | None:
    """Class and file of names such as night_stand_0012 in ``…_train.txt`` and ``…_test.txt``."""
    found: _Files = {}
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
                    f"{lists[-1]} must list files of {folder}, however: {path} is not there"
                )
    return found


def _hdf5_folder(folder: Path, files: list[Path], n: int, normals: bool) -> CloudFolder:
    X: dict[str, Clouds] = {}
    y: dict[str, NDArray[np.int64]] = {}
    for part in ("train", "test"):
        mine = [path for path in files if part in path.name]
        if not mine:
            raise DatasetFileError(
                f"{folder} must hold HDF5 files with {part!r} in their names, however: "
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
            f"{names} must name every class, however: it has {len(classes)} names and the files "
            f"hold the label {n_classes - 1}; add the names, or remove the file"
        )
    return CloudFolder(X["train"], y["train"], X["test"], y["test"], classes)


def _read_text(path: Path, kind: str) -> NDArray[np.float64]:
    try:
        with open_stream(path, max_bytes=MAX_MESH_BYTES) as file:
            text = file.read().decode("utf-8-sig")
    except ValueError as error:  # damaged archives, bytes that are no text
        raise unreadable(path, "text cloud", error) from None
    text = _without_header(text.replace(",", " "), counts=kind == ".pts")
    if not text.strip():
        raise unreadable(path, "text cloud", "it is empty")
    try:
        cloud = np.loadtxt(io.StringIO(text), dtype=np.float64, ndmin=2)
    except ValueError as error:
        # What follows is advice for those who call numpy.
        raise unreadable(path, "text cloud", str(error).partition(";")[0]) from None
    if cloud.size == 0:
        raise unreadable(path, "text cloud", "it is empty")
    if cloud.shape[1] < 3:
        raise unreadable(path, "text cloud", f"a point has {cloud.shape[1]} numbers, not 3 or 6")
    return cloud


def _without_header(text: str, *, counts: bool) -> str:
    """Leave out a first line without any number, or with the number of points alone."""
    text = re.sub(r"\A(?:\s*#[^\n]*\n)*\s*", "", text)
    first, _, rest = text.partition("\n")
    words = first.split()
    is_count = counts and len(words) == 1 and words[0].isdigit()
    return text if any(map(_is_number, words)) and not is_count else rest


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
