"""Where a fit runs: device, threads, seeds, checksum of its data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from nrs.training.processes import ALONE, Processes, find_device


def pick_device(device: str | torch.device, group: Processes = ALONE) -> torch.device:
    """``"auto"`` is the GPU where there is one; anything else is torch's own name for a device.

    One of several processes on GPUs takes the one that is its own.
    """
    if group.device.type == "cuda" and str(device) in ("auto", "cuda"):
        return group.device
    return find_device(device)


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let torch use `n_jobs` threads in this block: None is one, -1 all cores.

    One thread is the default because several fits side by side, each with a thread a core, slow
    each other to a crawl.
    """
    before = torch.get_num_threads()
    wanted = effective_n_jobs(n_jobs)
    if wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def draw_seed(random_state: Any) -> int:
    """A seed from an int, None or a NumPy random state, as scikit-learn understands them."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def checksum(*arrays: Any) -> str:
    """A short checksum of arrays and sparse matrices, to tell one data set from another."""
    digest = hashlib.sha256()
    for array in arrays:
        parts = [array] if isinstance(array, np.ndarray) else _parts(array)
        for part in parts:
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:32]


def _parts(array: Any) -> list[np.ndarray]:
    return [] if array is None else [array.data, array.indices, array.indptr]
