"""Training and test clouds by name or place: the catalog, a folder, or an array file."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

from nrs.datasets import (
    CloudFolder,
    DatasetFileError,
    cache_folder,
    get,
    info,
    load,
    names,
    read_cloud_folder,
    read_npz,
    save_npz,
)
from nrs.datasets.cloud_folders import TEST_SHARE

logger = logging.getLogger("nrs.points")
MODELNET10 = (
    "bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table",
    "toilet",
)  # fmt: skip
MODELNET40 = (
    "airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair", "cone",
    "cup", "curtain", "desk", "door", "dresser", "flower_pot", "glass_box", "guitar", "keyboard",
    "lamp", "laptop", "mantel", "monitor", "night_stand", "person", "piano", "plant", "radio",
    "range_hood", "sink", "sofa", "stairs", "stool", "table", "tent", "toilet", "tv_stand",
    "vase", "wardrobe", "xbox",
)  # fmt: skip
# Clouds are published as arrays with numbers for classes; both count in alphabetical order.
_CLASSES = {"ModelNet40": MODELNET40, "ModelNet10-points": MODELNET10}


def load_clouds(
    source: str | os.PathLike[str],
    *,
    stored: int = 2048,
    normals: bool = False,
    seed: int = 0,
    test_share: float = TEST_SHARE,
) -> CloudFolder:
    """Load training and test clouds with their classes.

    Files of a folder that cannot be read are logged and skipped.

    Parameters
    ----------
    source : str or path
        A name of the catalog (``"ModelNet40"``, ``"ModelNet40-meshes"``, ``"ModelNet10"``,
        ``"ModelNet10-points"``), a folder (see `nrs.datasets.read_cloud_folder`), or an ``.npz``
        file with ``X_train, y_train, X_test, y_test`` and maybe ``classes``.
    stored : int
        Points drawn from each mesh; training draws its own from them in every epoch.
    normals : bool
        Whether normals follow the coordinates.
    seed : int
        Of the sampling of a folder's meshes, and of the drawing of its test clouds.
    test_share : float
        Share of each class to measure on where a folder has no part for that.

    Returns
    -------
    CloudFolder
        Arrays (n, points, 3 or 6) and labels.

    Raises
    ------
    DatasetNotFoundError
        If the catalog's data is not on this machine and cannot be fetched.
    DatasetFileError
        If a file or folder does not hold clouds.
    """
    path = Path(source)
    if path.suffix == ".npz" and path.is_file():
        return _of_arrays(path)
    if path.is_dir():
        return _of_folder(path, stored, normals=normals, seed=seed, test_share=test_share)
    known = {name.lower(): name for name in names()}
    name = known.get(str(source).lower())
    if name is None or info(name).kind != "points":
        clouds = [entry for entry in names() if info(entry).kind == "points"]
        raise ValueError(
            f"source must be one of {', '.join(clouds)}, a folder or an .npz file; got "
            f"{os.fspath(source)!r}"
        )
    if info(name).layout == "files":
        return _of_meshes(name, stored, normals)
    data = load(name)
    assert data.X_test is not None
    assert data.y_test is not None
    labels = data.y_train.astype(np.int64), data.y_test.astype(np.int64)
    return CloudFolder(data.X_train, labels[0], data.X_test, labels[1], _CLASSES[name])


def _of_folder(path: Path, stored: int, **arguments: Any) -> CloudFolder:
    found = read_cloud_folder(path, stored, **arguments)
    for _, why in found.skipped:
        logger.warning("skipped %s", why)
    return found


def _of_meshes(name: str, stored: int, normals: bool) -> CloudFolder:
    """Sample the meshes of a catalog entry once, and keep the points."""
    ending = "-normals" if normals else ""
    kept = cache_folder() / "clouds" / f"{info(name).file}-{stored}{ending}.npz"
    if kept.is_file():
        return _of_arrays(kept)
    found = _of_folder(get(name), stored, normals=normals)
    kept.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: vars(found)[name] for name in ("X_train", "y_train", "X_test", "y_test")}
    save_npz(kept, {**arrays, "classes": np.array(found.classes)})
    return found


def _of_arrays(path: Path) -> CloudFolder:
    arrays = read_npz(path)
    missing = [n for n in ("X_train", "y_train", "X_test", "y_test") if n not in arrays]
    if missing:
        raise DatasetFileError(
            f"{path} must hold X_train, y_train, X_test, y_test; it lacks {', '.join(missing)}"
        )
    # Labels of any kind become places in the list of classes.
    values, train = np.unique(arrays["y_train"], return_inverse=True)
    test = np.searchsorted(values, arrays["y_test"])
    if not np.array_equal(values[np.minimum(test, len(values) - 1)], arrays["y_test"]):
        raise DatasetFileError(f"{path} must have no test class without training clouds")
    named = arrays.get("classes")
    numbers = np.issubdtype(values.dtype, np.integer)
    if named is not None and numbers and values.min() >= 0 and values.max() < len(named):
        classes = tuple(str(named[value]) for value in values)
    else:
        classes = tuple(map(str, values.tolist()))
    return CloudFolder(arrays["X_train"], train, arrays["X_test"], test, classes)
