"""Run the cases of one fuzzer under its bounds, and count what happened."""

from __future__ import annotations

import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from benchmarks.measure import provenance

# One case draws its input, checks the laws, and says what it did.
Case = Callable[[np.random.Generator], Counter[str]]
# A case that takes longer hangs.
MAX_SECONDS = 120
# Memory that a case may take beyond what the process had at its peak before the run.
MAX_MEMORY = 1 << 30
# Nothing that is read may start a process, open a connection or unpickle.
FORBIDDEN = (
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.system",
    "pickle.find_class",
)


class BrokenLawError(AssertionError):
    """A law does not hold for this input."""


@dataclass
class Report:
    """What a run of a fuzzer found; `failures` holds the number of each case and its error."""

    fuzzer: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    peak_memory_mb: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for the folder of results, with what is needed to run it again."""
        origin = provenance()
        # Those of a measurement of speed; a fuzzer runs as it is started.
        del origin["settings"], origin["environment"]
        return origin | asdict(self) | {"counts": dict(sorted(self.counts.items()))}


def run(name: str, case: Case, numbers: range, seed: int, minutes: float = np.inf) -> Report:
    """Run the cases of these numbers, for at most so many minutes."""
    report = Report(name, seed)
    begin, before = time.monotonic(), peak_memory()
    for number in numbers:
        if time.monotonic() - begin > 60 * minutes:
            break
        try:
            with _bounded():
                report.counts += case(np.random.default_rng([seed, number]))
            if peak_memory() > before + MAX_MEMORY:
                raise BrokenLawError(f"took {(peak_memory() - before) >> 20} MB of memory")
        except Exception as error:
            report.failures.append((number, f"{type(error).__name__}: {error}"[:500]))
            before = max(before, peak_memory())
            traceback.print_exc()
            print(
                f"again: python -m benchmarks.fuzz {name} --seed {seed} --first {number} --cases 1"
            )
        report.cases += 1
    report.seconds = round(time.monotonic() - begin, 1)
    report.peak_memory_mb = peak_memory() >> 20
    return report


def peak_memory() -> int:
    """Most bytes of memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise within the block when it takes too long."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise BrokenLawError(f"took more than {MAX_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Watch:
    """Refuses connections, processes, unpickling, and files outside some folders, while active."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed is None:
            return
        if event in FORBIDDEN:
            self.seen.append(event)
        if event == "open" and isinstance(arguments[0], str):
            path = arguments[0]
            # Modules are imported when they are first needed.
            if not path.startswith(self.allowed) and not path.endswith((".py", ".pyc")):
                self.seen.append(f"open {path}")

    @contextmanager
    def within(self, *folders: str) -> Iterator[None]:
        """Raise after the block if it reached for anything but files in these folders."""
        self.seen.clear()
        self.allowed = (*folders, sys.prefix, sys.base_prefix, "/proc/", "/sys/", "/dev/null")
        try:
            yield
        finally:
            self.allowed = None
        if self.seen:
            raise BrokenLawError(f"reached for {self.seen[:5]}")
