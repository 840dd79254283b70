"""MATLAB files (version 5): SARCOS, one matrix of inputs and targets; SVHN, images and digits."""

from __future__ import annotations

import os
import zlib

import numpy as np

from nrs.datasets.errors import DatasetFileError
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable


def read_matlab(
    path: str | os.PathLike[str],
    *,
    x: str,
    y: str | None = None,
    n_features: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Rows:
    """Read inputs and targets from a MATLAB file.

    Parameters
    ----------
    path : path
        The file.
    x : str
        The variable of the inputs, (n, columns), or (height, width, channels, n) for images,
        which become rows of channels × height × width.
    y : str, optional
        The variable of the labels; if not given, the columns of x after the first ``n_features``.
    n_features : int, optional
        How many columns of x are inputs.

    Raises
    ------
    DatasetFileError
        If the file is not of this format, lacks a variable or is larger than allowed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import scipy.io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "arm.mat"
    ...     scipy.io.savemat(path, {"arm": np.array([[1.0, 2.0, 3.0]])})
    ...     rows = read_matlab(path, x="arm", n_features=2)
    >>> rows.X.tolist(), rows.y.tolist()
    ([[1.0, 2.0]], [[3.0]])
    """
    wanted = [name for name in (x, y) if name is not None]
    import scipy.io
    from scipy.io.matlab import MatReadError

    try:
        sizes = {name: shape for name, shape, _ in scipy.io.whosmat(path)}
        missing = [name for name in wanted if name not in sizes]
        if missing:
            raise unreadable(path, "MATLAB", f"it lacks {missing} and holds {list(sizes)}")
        if sum(int(np.prod(sizes[name])) for name in wanted) > max_bytes:
            raise unreadable(path, "MATLAB", f"its arrays take more than {max_bytes:,} bytes")
        content = scipy.io.loadmat(path, variable_names=wanted)
    except DatasetFileError:
        raise
    except (MatReadError, OSError, TypeError, ValueError, NotImplementedError, zlib.error) as error:
        raise unreadable(path, "MATLAB", error) from None
    X = np.asarray(content[x])
    if X.ndim == 4:
        X = X.transpose(3, 2, 0, 1).reshape(X.shape[3], -1)
    if y is None:
        if n_features is None or X.ndim != 2 or X.shape[1] <= n_features:
            raise unreadable(path, "MATLAB", f"{x} has shape {X.shape}, {n_features} inputs")
        return Rows(X[:, :n_features], X[:, n_features:])
    return Rows(X, np.asarray(content[y]).reshape(-1))
