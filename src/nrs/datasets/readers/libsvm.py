"""LIBSVM's sparse text: ``label index:value index:value …``, indices from 1."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from nrs.datasets.archives import open_stream
from nrs.datasets.dataset import Array
from nrs.datasets.errors import ArchiveError
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable


def read_libsvm(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Rows:
    """Read a LIBSVM file, plain or compressed, as dense arrays.

    Parameters
    ----------
    path : path
        The file; gzip, bzip2 and xz are unpacked on the way.
    n_features : int, optional
        Width of X; the largest index in the file if not given.
    n_labels : int, optional
        For a multi-label file: the number of labels, counted from 0; y is then (n, n_labels).

    Returns
    -------
    Rows
        X (n, n_features) float32; y (n,), whole numbers as int64.

    Raises
    ------
    DatasetFileError
        If the file is not LIBSVM text or has an index beyond ``n_features``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "two.txt"
    ...     _ = path.write_text("-1 2:0.5\\n+1 1:3\\n")
    ...     rows = read_libsvm(path, n_features=3)
    >>> rows.X.tolist(), rows.y.tolist()
    ([[0.0, 0.5, 0.0], [3.0, 0.0, 0.0]], [-1, 1])
    """
    X, y = _load(path, n_features, max_bytes, multilabel=n_labels is not None)
    if n_labels is None:
        return Rows(X, whole_numbers(np.asarray(y)))
    labels = np.zeros((len(X), n_labels), np.int64)
    for row, present in enumerate(y):
        for label in present:
            if not 0 <= label < n_labels:
                raise unreadable(path, "LIBSVM", f"row {row} has label {label:g} of {n_labels}")
            labels[row, int(label)] = 1
    return Rows(X, labels)


def _load(
    path: str | os.PathLike[str], n_features: int | None, max_bytes: int, *, multilabel: bool
) -> tuple[Array, Any]:
    try:
        with open_stream(path, max_bytes=max_bytes) as file:
            # It takes a tenth of a second to import, which no other reader needs.
            from sklearn.datasets import load_svmlight_file

            X, y = load_svmlight_file(
                file,
                n_features=n_features,
                dtype=np.float32,
                zero_based=False,
                multilabel=multilabel,
            )
    except ArchiveError:
        raise
    except ValueError as error:
        raise unreadable(path, "LIBSVM", error) from None
    return X.toarray(), y


def whole_numbers(y: Array) -> Array:
    """Turn floats that are all whole numbers of 64 bits into int64; leave others."""
    whole = np.array_equal(y, np.floor(y)) and bool((np.abs(y) < 2**63).all())
    return y.astype(np.int64) if whole else y
