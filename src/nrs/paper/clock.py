"""The seconds of a block, by CPU and by wall."""

from __future__ import annotations

import time


class Clock:
    """Adds the CPU and wall seconds of a block to ``<name>_cpu_s`` and ``<name>_wall_s``.

    Examples
    --------
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
