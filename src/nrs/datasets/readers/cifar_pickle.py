"""CIFAR's "python version": pickles of a dictionary, read without running what a pickle may call.

A pickle can name any function to be called while it is read. Here the three names that NumPy's
arrays need stand for small classes of this file, and every other name is refused.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import numpy as np

from nrs.datasets.archives import open_stream
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable

_PIXELS = 3 * 32 * 32
_BYTES = ("u1", "|u1", "uint8")


class _Type:
    """Stands for ``numpy.dtype``: its name, and the state that it is given."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        self.name = name.decode("ascii", "replace") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which bytes do not have."""


class _Array:
    """Stands for ``numpy.ndarray``: keeps shape and bytes as they are written."""

    shape: Any = ()
    content: Any = b""
    kind: Any = None

    def __init__(self, *_: Any) -> None:
        """What ``_reconstruct`` is called with is filled in later."""

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.kind, _, self.content = state

    def pixels(self) -> np.ndarray:
        """The array (n, 3072); raises ValueError if it is another."""
        if not isinstance(self.kind, _Type) or self.kind.name not in _BYTES:
            raise ValueError("its data are not bytes")
        if not isinstance(self.content, bytes) or len(self.shape) != 2:
            raise ValueError("its data are no table of bytes")
        found = np.frombuffer(self.content, np.uint8)
        if self.shape[1] != _PIXELS or found.size != self.shape[0] * _PIXELS:
            raise ValueError(f"its data have the shape {self.shape}, not (n, {_PIXELS})")
        return found.reshape(-1, _PIXELS)


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


# The one written in C makes room for as many objects as a few bytes of a file ask for.
class _Reader(pickle._Unpickler):  # type: ignore[name-defined, misc]
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise ValueError(f"it names {module}.{name}, which no file of CIFAR does") from None


def read_cifar_pickle(
    path: str | os.PathLike[str], *, labels: str = "labels", max_bytes: int = MAX_BYTES
) -> Rows:
    """Read a batch of CIFAR-10's or CIFAR-100's python version.

    Parameters
    ----------
    path : path
        ``data_batch_1`` … ``test_batch``, or ``train`` and ``test`` of CIFAR-100.
    labels : {"labels", "fine_labels", "coarse_labels"}
        Which labels: the first of CIFAR-10, the others of CIFAR-100.

    Returns
    -------
    Rows
        X (n, 3072) uint8, red, then green, then blue; y (n,) int64.

    Raises
    ------
    DatasetFileError
        If it is not such a pickle, or names anything but NumPy's array.
    """
    with open_stream(path, max_bytes=max_bytes) as file:
        content = io.BytesIO(file.read())
    try:
        found = _Reader(content, encoding="bytes").load()
        if not isinstance(found, dict):
            raise ValueError("it holds no dictionary")
        data, numbers = found.get(b"data"), found.get(labels.encode())
        if not isinstance(data, _Array) or not isinstance(numbers, list):
            raise ValueError(f"it lacks 'data' or {labels!r}")
        X = data.pixels()
        y = np.array([int(number) for number in numbers], np.int64)
        if len(X) != len(y):
            raise ValueError(f"it has {len(X)} images and {len(y)} labels")
    except Exception as error:  # a damaged pickle fails in many ways
        reason = f"{error or type(error).__name__}. The binary version is read as well"
        raise unreadable(path, "CIFAR python-version", reason) from None
    return Rows(X, y)
