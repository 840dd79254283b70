"""LETOR's text for ranking: ``grade qid:query index:value … # comment``."""

from __future__ import annotations

import os

import numpy as np
from sklearn.datasets import load_svmlight_file

from nrs.datasets.archives import open_stream
from nrs.datasets.errors import ArchiveError
from nrs.datasets.readers.libsvm import whole_numbers
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable


def read_letor(
    path: str | os.PathLike[str], *, n_features: int | None = None, max_bytes: int = MAX_BYTES
) -> Rows:
    """Read a LETOR file, plain or compressed, as dense arrays.

    Parameters
    ----------
    path : path
        The file; gzip, bzip2 and xz are unpacked on the way.
    n_features : int, optional
        Width of X; the largest index in the file if not given.

    Returns
    -------
    Rows
        X (n, n_features) float32; y (n,) grades; qid (n,) the query of each row.

    Raises
    ------
    DatasetFileError
        If the file is not LETOR text, or a row has no query.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "train.txt"
    ...     _ = path.write_text("2 qid:7 1:0.5 2:1 # docid = a\\n0 qid:7 2:3\\n")
    ...     rows = read_letor(path)
    >>> rows.X.tolist(), rows.y.tolist(), rows.qid.tolist()
    ([[0.5, 1.0], [0.0, 3.0]], [2, 0], [7, 7])
    """
    try:
        with open_stream(path, max_bytes=max_bytes) as file:
            X, y, qid = load_svmlight_file(
                file, n_features=n_features, dtype=np.float32, zero_based=False, query_id=True
            )
    except ArchiveError:
        raise
    except ValueError as error:
        raise unreadable(path, "LETOR", error) from None
    if len(qid) != len(y):
        raise unreadable(path, "LETOR", f"{len(y)} rows have {len(qid)} queries (qid:…)")
    return Rows(X.toarray(), whole_numbers(y), np.asarray(qid, np.int64))
