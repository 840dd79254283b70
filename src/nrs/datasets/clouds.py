"""One cloud from a file: meshes sampled, lists of points in texts and arrays read."""

from __future__ import annotations

import io
import os
import re
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nrs.datasets.archives import open_stream
from nrs.datasets.readers.mesh import MAX_MESH_BYTES, MESHES, read_mesh
from nrs.datasets.readers.rows import unreadable
from nrs.datasets.surface import sample_surface, to_float32

TEXTS = (".txt", ".xyz", ".csv", ".pts")
ARRAYS = (".npy", ".npz")
KINDS = (*MESHES, *TEXTS, *ARRAYS)
Clouds = NDArray[np.float32]
# How arrays of points and of their normals are called in an .npz file.
_POINTS = ("points", "xyz", "pos", "coords", "coordinates", "vertices", "cloud", "data", "x")
_NORMALS = ("normals", "normal")
_XYZ, _DIRECTIONS = ("x", "y", "z"), ("nx", "ny", "nz")
# How far from 1 the length of a normal may be; texts and float16 round.
_ROUNDED = 0.02


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
        A mesh (.off, .obj, .ply, .stl, .glb), or a list of points: a mesh file without faces; a
        .txt, .xyz, .csv or .pts file with the numbers of a point on each line, separated by commas
        or blanks, maybe below a line of names or, in a .pts file, of their count; an array (points,
        3 or more) in a .npy or .npz file. Plain or compressed.
    n : int
        How many points; all of a list that has fewer.
    normals : bool
        Whether normals follow the coordinates; a list of points must have them then. They are
        columns named nx, ny, nz, an array named normals, or the fourth to sixth column if these
        have no names and are of length 1, which colours are not.
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
    check_points(n)
    path = Path(path)
    kind = cloud_kind(path)
    directions: NDArray[np.float64] | None
    if kind in MESHES:
        mesh = read_mesh(path, points_only=True)
        if len(mesh.faces):
            return sample_surface(mesh, n, normals=normals, seed=seed)
        cloud, directions = mesh.vertices, mesh.vertex_normals
    elif kind in TEXTS:
        cloud, directions = _divided(*_read_text(path, kind))
    else:
        cloud, directions = _read_array(path, kind)
    if normals:
        if directions is None:
            why = "it has no normals: no columns nx, ny, nz, and no columns 4 to 6 of length 1"
            raise unreadable(path, "cloud with normals", why)
        cloud = np.concatenate([cloud, directions], axis=1)
    if not np.isfinite(cloud).all():
        raise unreadable(path, "cloud", "a number is NaN or infinite")
    return np.ascontiguousarray(to_float32(cloud)[: None if whole else n])


def check_points(n: int) -> None:
    """Refuse a number of points below 1."""
    if n < 1:
        raise ValueError(f"n must be a number of points of at least 1; got {n}")


def cloud_kind(path: Path) -> str:
    """The ending that names a cloud's format, without that of a compression."""
    kind = _endings(path)[0]
    if kind not in KINDS:
        raise ValueError(f"a mesh or cloud must be a file {', '.join(KINDS)}; got {path.name!r}")
    return kind


def is_cloud(path: Path) -> bool:
    """Whether a file of a folder is one that `read_cloud` reads, by its name; not a hidden one.

    >>> [is_cloud(Path(name)) for name in ("a.off", "a.OFF.gz", "a.png", "._a.off")]
    [True, True, False, False]
    """
    return _endings(path)[0] in KINDS and not path.name.startswith(".")


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


def _read_text(path: Path, kind: str) -> tuple[NDArray[np.float64], list[str]]:
    """The numbers of a text, and the names of its columns if it has them."""
    try:
        with open_stream(path, max_bytes=MAX_MESH_BYTES) as file:
            text = file.read().decode("utf-8-sig")
    except ValueError as error:  # damaged archives, bytes that are no text
        raise unreadable(path, "text cloud", error) from None
    names, text = _without_header(text.replace(",", " "), counts=kind == ".pts")
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
    return cloud, names


def _without_header(text: str, *, counts: bool) -> tuple[list[str], str]:
    """Take off a first line without any number, or with the number of points alone."""
    text = re.sub(r"\A(?:\s*#[^\n]*\n)*\s*", "", text)
    first, _, rest = text.partition("\n")
    words = first.split()
    if counts and len(words) == 1 and words[0].isdigit():
        return [], rest
    return ([], text) if any(map(_is_number, words)) else (words, rest)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _divided(
    table: NDArray[np.float64], names: list[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Coordinates and normals of a table, by the names of its columns or by their places."""
    known = [re.sub(r"\W", "", name).lower() for name in names]
    if len(known) == table.shape[1] and set(_XYZ) <= set(known):
        cloud = table[:, [known.index(name) for name in _XYZ]]
        if not set(_DIRECTIONS) <= set(known):
            return cloud, None
        return cloud, table[:, [known.index(name) for name in _DIRECTIONS]]
    directions = table[:, 3:6]
    return table[:, :3], directions if _are_normals(directions) else None


def _are_normals(directions: NDArray[np.float64]) -> bool:
    """Whether three columns are of length 1, or 0 where a normal is not known."""
    if directions.shape[1] < 3:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(directions, axis=1)
    unit = np.abs(lengths - 1) < _ROUNDED
    return bool(unit.any() and (unit | (lengths == 0)).all())


def _read_array(path: Path, kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Coordinates and normals of an array file, in which nothing is executed."""
    what = f"cloud ({kind})"
    try:
        with open_stream(path, max_bytes=MAX_MESH_BYTES) as file:
            content = io.BytesIO(file.read())
        if kind == ".npz":
            with zipfile.ZipFile(content) as archive:
                size = sum(entry.file_size for entry in archive.infolist())
            if size > MAX_MESH_BYTES:
                raise ValueError(f"it unpacks to more than {MAX_MESH_BYTES:,} bytes")
            content.seek(0)
        with np.errstate(all="ignore"):
            loaded = np.load(content, allow_pickle=False)
            arrays = {name.lower(): loaded[name] for name in loaded} if kind == ".npz" else None
    except Exception as error:  # numpy raises whatever its parsers happen to
        raise unreadable(path, what, str(error).partition("\n")[0] or "it is empty") from None
    if arrays is None:
        return _divided(_points_of(loaded, path, what), [])
    names = [name for name in _POINTS if name in arrays]
    if not names and len(arrays) == 1:
        names = list(arrays)
    if not names:
        found = ", ".join(arrays) or "nothing"
        raise unreadable(path, what, f"no array is named points or xyz; it holds {found}")
    cloud, directions = _divided(_points_of(arrays[names[0]], path, what), [])
    for name in _NORMALS:
        if name in arrays:
            directions = _points_of(arrays[name], path, what)[:, :3]
            if len(directions) != len(cloud):
                why = f"{len(cloud)} points have {len(directions)} normals"
                raise unreadable(path, what, why)
    return cloud, directions


def _points_of(array: NDArray[np.generic], path: Path, what: str) -> NDArray[np.float64]:
    if array.ndim != 2 or array.shape[1] < 3 or len(array) == 0 or array.dtype.kind not in "fiu":
        why = f"an array must be numbers (points, 3 or more); got {array.dtype} {array.shape}"
        raise unreadable(path, what, why)
    return array.astype(np.float64)
