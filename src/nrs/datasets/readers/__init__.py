"""Readers of the formats that datasets come in; each gives the same three arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nrs.datasets.readers.arff import read_arff
from nrs.datasets.readers.cifar import read_cifar
from nrs.datasets.readers.cifar_pickle import read_cifar_pickle
from nrs.datasets.readers.hdf5 import read_hdf5
from nrs.datasets.readers.letor import iter_letor, read_letor, write_letor
from nrs.datasets.readers.libsvm import read_libsvm
from nrs.datasets.readers.matlab import read_matlab
from nrs.datasets.readers.rows import Rows
from nrs.datasets.readers.table import read_table

READERS: dict[str, Callable[..., Rows]] = {
    "arff": read_arff,
    "cifar": read_cifar,
    "cifar-pickle": read_cifar_pickle,
    "hdf5": read_hdf5,
    "letor": read_letor,
    "libsvm": read_libsvm,
    "matlab": read_matlab,
    "table": read_table,
}
# These formats leave out zeros, so the file alone does not say how wide it is.
SPARSE = ("libsvm", "letor")


def read(path: Path, format: str, *, max_bytes: int, **options: Any) -> Rows:
    """Read a file with the reader of its format.

    Raises
    ------
    ValueError
        If the format has no reader, or the file is not of the format.
    """
    if format not in READERS:
        raise ValueError(f"format must be one of {', '.join(READERS)}, however: format={format!r}")
    return READERS[format](path, max_bytes=max_bytes, **options)


__all__ = [
    "READERS",
    "SPARSE",
    "Rows",
    "iter_letor",
    "read",
    "read_arff",
    "read_cifar",
    "read_cifar_pickle",
    "read_hdf5",
    "read_letor",
    "read_libsvm",
    "read_matlab",
    "read_table",
    "write_letor",
]
