"""CIFAR's binary files: label bytes, then 3 × 32 × 32 bytes of an image, row after row."""

from __future__ import annotations

import os

import numpy as np

from nrs.datasets.archives import open_stream
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable

_PIXELS = 3 * 32 * 32


def read_cifar(
    path: str | os.PathLike[str], *, n_labels: int = 1, max_bytes: int = MAX_BYTES
) -> Rows:
    """Read a binary file of CIFAR-10 or CIFAR-100.

    Parameters
    ----------
    path : path
        The file.
    n_labels : int, default=1
        Label bytes before an image: 1 for CIFAR-10, 2 for CIFAR-100, whose last is the fine one.

    Returns
    -------
    Rows
        X (n, 3072) uint8, red, then green, then blue; y (n,) int64.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "batch.bin"
    ...     _ = path.write_bytes(bytes([7]) + bytes(3072))
    ...     rows = read_cifar(path)
    >>> rows.X.shape, rows.y.tolist()
    ((1, 3072), [7])
    """
    with open_stream(path, max_bytes=max_bytes) as file:
        content = np.frombuffer(file.read(), np.uint8)
    if content.size == 0 or content.size % (n_labels + _PIXELS):
        raise unreadable(
            path, "CIFAR", f"{content.size} bytes are no whole number of {n_labels + _PIXELS}"
        )
    records = content.reshape(-1, n_labels + _PIXELS)
    return Rows(records[:, n_labels:], records[:, n_labels - 1].astype(np.int64))
