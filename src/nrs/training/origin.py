"""Where a model comes from: what its file notes of its training."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from nrs._version import __version__


def made_now(**facts: Any) -> dict[str, Any]:
    """Note where a model comes from, at the end of its training: for `write_model`.

    Parameters
    ----------
    facts
        JSON values, such as ``seed``, ``rows`` (how many) and ``fingerprint``; None is left out.

    Returns
    -------
    dict
        Those facts, versions and platform, and the time (UTC): that of the clock, or of the
        environment variable ``SOURCE_DATE_EPOCH``, with which equal fits give equal files.

    Examples
    --------
    >>> sorted(made_now(seed=7, rows=None))
    ['nrs', 'numpy', 'platform', 'python', 'seed', 'time', 'torch']
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(given), UTC) if given.isdecimal() else datetime.now(UTC)
    known = {name: value for name, value in facts.items() if value is not None}
    return {**versions(), "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"), **known}


def fingerprint(columns: Sequence[tuple[str, str]], *arrays: np.ndarray) -> str:
    """A checksum of the data of a fit: names and kinds of its columns, and its rows.

    Parameters
    ----------
    columns : sequence of (name, kind)
        Of each column, in order.
    arrays : ndarray
        Rows, labels, weights: numbers, booleans or texts.

    Returns
    -------
    str
        64 hexadecimal digits (SHA-256).

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0]])
    >>> fingerprint([("a", "number"), ("b", "number")], rows)[:8]
    '193cd764'
    """
    digest = hashlib.sha256(json.dumps([list(column) for column in columns]).encode())
    for array in arrays:
        if array.dtype.hasobject:
            raise TypeError("A fingerprint is of numbers or texts; got an array of objects.")
        digest.update(json.dumps([array.dtype.str, list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """What runs here: versions, and the platform without the names of its host or user."""
    return {
        "nrs": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
