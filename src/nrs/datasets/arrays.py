"""The local form of a dataset: one ``.npz`` file of plain arrays, written whole or not at all."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import ArrayLike

from nrs._util.atomic import atomic_write
from nrs.datasets.dataset import Array
from nrs.datasets.errors import DatasetFileError


def save_npz(path: str | os.PathLike[str], arrays: Mapping[str, ArrayLike]) -> None:
    """Write arrays as a compressed ``.npz`` file, atomically.

    Parameters
    ----------
    path : path
        Where to write; an existing file is replaced.
    arrays : mapping of str to array
        ``X_train, y_train[, X_val, y_val], X_test, y_test`` or ``X, y``, with ``qid…`` for ranking.

    Raises
    ------
    TypeError
        If an array holds Python objects, which would need pickle.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "tiny.npz"
    ...     save_npz(path, {"X": [[1.0, 2.0]], "y": [1]})
    ...     read_npz(path)["X"]
    array([[1., 2.]])
    """
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.hasobject:
            raise TypeError(
                f"arrays must hold numbers or strings, however: {name} has dtype {array.dtype}; "
                "convert it, for instance with astype"
            )
    # An entry an array, as numpy.savez_compressed does, but with any name.
    with (
        atomic_write(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, array in plain.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def names_npz(path: str | os.PathLike[str]) -> list[str]:
    """Name the arrays of a ``.npz`` file without reading them.

    Raises
    ------
    DatasetFileError
        If the file is not a whole ``.npz`` file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile:
        raise _damaged(path, "it is truncated or not an .npz file") from None


def read_npz(
    path: str | os.PathLike[str], names: Collection[str] | None = None
) -> dict[str, Array]:
    """Read the arrays of a ``.npz`` file; nothing in it is executed.

    Parameters
    ----------
    path : path
        The file.
    names : collection of str, optional
        Which arrays; all of them if not given.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DatasetFileError
        If the file is truncated, not an ``.npz`` file, holds pickled objects or lacks a name.
    """
    available = names_npz(path)
    wanted = available if names is None else list(names)
    missing = [name for name in wanted if name not in available]
    if missing:
        raise DatasetFileError(
            f"{os.fspath(path)} must hold the arrays {', '.join(wanted)}, however: it lacks "
            f"{', '.join(missing)} and holds {', '.join(available) or 'nothing'}"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in wanted}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise _damaged(path, "it holds pickled Python objects, which are never read") from None
        raise _damaged(path, f"an array cannot be read ({error})") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise _damaged(path, f"an array cannot be read ({error})") from None
    # NumPy gives the bytes of what is no array.
    others = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if others:
        raise _damaged(path, f"{', '.join(others)} is no array")
    return arrays


def _damaged(path: str | os.PathLike[str], what: str) -> DatasetFileError:
    return DatasetFileError(
        f"{os.fspath(path)} must be a whole .npz file of plain arrays, however: {what}; "
        "remove it or put a good copy in its place"
    )
