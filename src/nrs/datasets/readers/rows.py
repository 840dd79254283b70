"""What every reader gives back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nrs.datasets.dataset import Array
from nrs.datasets.errors import DatasetFileError

# Readers refuse a file that unpacks to more than this unless told otherwise.
MAX_BYTES = 1 << 36


class Rows(NamedTuple):
    """What a reader found in a file.

    Attributes
    ----------
    X : array (n, …)
        Inputs.
    y : array (n,) or (n, outputs)
        Labels, targets or relevance grades.
    qid : array (n,) or None
        The query of each row, for ranking.
    """

    X: Array
    y: Array
    qid: Array | None = None


def stack_rows(parts: Sequence[Rows]) -> Rows:
    """Put the rows of several files one after the other."""
    if len(parts) == 1:
        return parts[0]
    qids = [part.qid for part in parts if part.qid is not None]
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(qids) if qids else None,
    )


def unreadable(path: str | os.PathLike[str], format: str, what: object) -> DatasetFileError:
    """Say that a file is not of its format."""
    return DatasetFileError(
        f"{os.fspath(path)} must be a {format} file; {what}. "
        "Remove it or put a good copy in its place."
    )
