"""CIFAR's "python version": pickles of a dictionary, read without running what a pickle may call.

A pickle can name any function to be called while it is read. Here the three names that NumPy's
arrays need stand for small classes of this file, and every other name is refused.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from typing import Any

import numpy as np

from nrs.datasets.archives import open_stream
from nrs.datasets.errors import DatasetFileError
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


# What Python 2 writes for dictionaries, lists, texts, numbers and arrays.
_OPCODES = frozenset(
    [
        "PROTO",
        "STOP",
        "MARK",
        "EMPTY_DICT",
        "EMPTY_LIST",
        "EMPTY_TUPLE",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "SETITEM",
        "SETITEMS",
        "APPEND",
        "APPENDS",
        "BININT",
        "BININT1",
        "BININT2",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "SHORT_BINSTRING",
        "BINSTRING",
        "GLOBAL",
        "REDUCE",
        "BUILD",
        "BINPUT",
        "LONG_BINPUT",
        "BINGET",
        "LONG_BINGET",
    ]
)


class _Reader(pickle.Unpickler):
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
    found = _dictionary(path, max_bytes)
    try:
        data, numbers = found.get(b"data"), found.get(labels.encode())
        if not isinstance(data, _Array) or not isinstance(numbers, list):
            raise ValueError(f"it lacks 'data' or {labels!r}")
        X = data.pixels()
        y = np.array([int(number) for number in numbers], np.int64)
        if len(X) != len(y):
            raise ValueError(f"it has {len(X)} images and {len(y)} labels")
    except (TypeError, ValueError) as error:
        raise _other(path, error) from None
    return Rows(X, y)


def read_cifar_names(path: str | os.PathLike[str], key: str) -> list[str]:
    """Read the class names of ``batches.meta`` ("label_names") or ``meta`` ("fine_label_names").

    Raises
    ------
    DatasetFileError
        If it is not such a pickle.
    """
    names = _dictionary(path, MAX_BYTES).get(key.encode())
    if not isinstance(names, list) or not all(isinstance(name, bytes) for name in names):
        raise _other(path, ValueError(f"it lacks {key!r}"))
    return [name.decode("utf-8", "replace") for name in names]


def _dictionary(path: str | os.PathLike[str], max_bytes: int) -> dict[Any, Any]:
    with open_stream(path, max_bytes=max_bytes) as file:
        content = io.BytesIO(file.read())
    try:
        _check_opcodes(content.getvalue())
        found = _Reader(content, encoding="bytes").load()
    except Exception as error:  # a damaged pickle fails in many ways
        raise _other(path, error) from None
    if not isinstance(found, dict):
        raise _other(path, ValueError("it holds no dictionary"))
    return found


def _check_opcodes(content: bytes) -> None:
    """Refuse what CIFAR's files do not do, and room for more objects than the file has bytes."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in _OPCODES:
            raise ValueError(f"it has the operation {opcode.name}, which no file of CIFAR has")
        if opcode.name == "LONG_BINPUT" and int(argument or 0) > len(content):
            raise ValueError("it asks for more memory than its objects need")


def _other(path: str | os.PathLike[str], error: Exception) -> DatasetFileError:
    reason = f"{error or type(error).__name__}. The binary version is read as well"
    return unreadable(path, "CIFAR python-version", reason)
