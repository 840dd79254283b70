"""What measurements share: their data, device and clock, and the record of a search."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from typing import Any

from nrs.datasets import Dataset, DatasetNotFoundError, load

# How a run passes its device on to its processes.
DEVICE = "NRS_PAPER_DEVICE"


def device() -> str:
    """Where networks are trained: what ``nrs paper run --device`` was given, else ``"auto"``."""
    return os.environ.get(DEVICE, "auto")


@functools.lru_cache(maxsize=4)
def load_or_reason(dataset: str, fold: int = 1) -> Dataset | str:
    """Load a dataset of the catalog, or give the reason why it is not here."""
    # The reason is remembered too: another attempt to reach the network costs seconds a cell.
    try:
        return load(dataset, fold=fold)
    except (DatasetNotFoundError, ModuleNotFoundError) as error:
        return str(error)


def best_of(tried: list[dict[str, Any]], score: Sequence[str], **facts: object) -> dict[str, Any]:
    """The record of a search: the settings of the highest score, and everything that was tried.

    >>> tried = [{"settings": {"lr": lr}, "score": [80 + lr]} for lr in (1, 2)]
    >>> best_of(tried, ["accuracy"])["chosen"]
    {'lr': 2}
    """
    best = max(tried, key=lambda entry: tuple(entry["score"]))
    return {"chosen": best["settings"], "tried": tried, "score": list(score), **facts}


class Clock:
    """Adds the CPU and wall seconds of a block to ``<name>_cpu_s`` and ``<name>_wall_s``.

    >>> times = {}
    >>> with Clock("fit", times):
    ...     pass
    >>> list(times)
    ['fit_cpu_s', 'fit_wall_s']
    """

    def __init__(self, name: str, times: dict[str, float]) -> None:
        self.name, self.times = name, times

    def __enter__(self) -> None:
        self.begin = time.process_time(), time.perf_counter()

    def __exit__(self, *error: object) -> None:
        ends = time.process_time(), time.perf_counter()
        for kind, begin, end in zip(("cpu", "wall"), self.begin, ends, strict=True):
            key = f"{self.name}_{kind}_s"
            self.times[key] = self.times.get(key, 0.0) + end - begin
