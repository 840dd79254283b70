"""Where a model comes from: what its file notes of its training."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np

from nrs._util.lazy import torch
from nrs._version import __version__


def made_now(at: float | None = None, **facts: Any) -> dict[str, Any]:
    """Note where a model comes from: for `write_model`.

    Parameters
    ----------
    at : float, optional
        When it was trained, in seconds since 1970; now by default. The environment variable
        ``SOURCE_DATE_EPOCH`` counts more: with it equal fits give equal files.
    facts
        JSON values, such as ``seed``, ``rows`` (how many) and ``fingerprint``; None is left out.

    Returns
    -------
    dict
        Those facts, the time (UTC), versions and platform.

    Examples
    --------
    >>> sorted(made_now(seed=7, rows=None))
    ['nrs', 'numpy', 'platform', 'python', 'seed', 'time', 'torch']
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(given) if given.isdecimal() else time.time() if at is None else at
    when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = {name: value for name, value in facts.items() if value is not None}
    return {**versions(), "time": when, **known}


def fingerprint(*parts: Any) -> str:
    """A checksum of what a model was fitted to, given as JSON values: 64 hexadecimal digits.

    Examples
    --------
    >>> fingerprint(["age", "income"], "checksum of the rows")[:8]
    '3fb68863'
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """What runs here: versions, and the platform without the names of its host or user."""
    return {
        "nrs": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
