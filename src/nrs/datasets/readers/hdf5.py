"""HDF5, the form in which ModelNet40's sampled clouds are published; needs h5py."""

from __future__ import annotations

import os

import numpy as np

from nrs._util.optional import import_optional
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable


def read_hdf5(
    path: str | os.PathLike[str],
    *,
    x: str = "data",
    y: str = "label",
    max_bytes: int = MAX_BYTES,
) -> Rows:
    """Read inputs and labels from an HDF5 file.

    Parameters
    ----------
    path : path
        The file.
    x, y : str
        Names of the two arrays; a y of shape (n, 1) becomes (n,).

    Raises
    ------
    ModuleNotFoundError
        If h5py is not installed.
    DatasetFileError
        If the file is not HDF5, lacks an array or is larger than allowed.
    """
    h5py = import_optional("h5py", "reading HDF5 files", "points")
    try:
        with h5py.File(path, "r") as file:
            missing = [name for name in (x, y) if not isinstance(file.get(name), h5py.Dataset)]
            if missing:
                raise unreadable(path, "HDF5", f"it lacks {missing} and holds {list(file)}")
            if file[x].nbytes + file[y].nbytes > max_bytes:
                raise unreadable(path, "HDF5", f"its arrays take more than {max_bytes:,} bytes")
            inputs, labels = np.asarray(file[x]), np.asarray(file[y])
    except OSError as error:
        raise unreadable(path, "HDF5", error) from None
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if len(inputs) != len(labels):
        raise unreadable(path, "HDF5", f"{len(inputs)} inputs have {len(labels)} labels")
    return Rows(inputs, labels)
