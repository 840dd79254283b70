"""How to measure honestly: fresh processes, one thread, CPU time, interleaved, medians.

A measurement is a function of a benchmark module that takes and returns plain JSON values. It runs
in fresh processes whose allocator keeps large blocks: otherwise each call pays for pages that the
last one gave back, and whoever allocates most looks slower than it is. Candidates take turns
within a process, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

# What names a cell, the function that measures it, and the arguments of that.
Planned = tuple[dict[str, Any], Callable[..., dict[str, Any]], dict[str, Any]]

# Seconds of a turn. A turn begins with the caches as the candidate before left them: in short turns
# a small candidate that follows a large one is measured cold, in long ones (0.03) warm.
TURN = 0.002

ROOT = Path(__file__).resolve().parent.parent

PLAIN = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ENVIRONMENT = {
    **PLAIN,
    # Blocks come from the heap, and the heap never shrinks.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 26),
}


class ChildError(RuntimeError):
    """A measurement failed in its process; `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def in_plain_process(function: Callable[..., Any], **arguments: Any) -> Any:
    """As :func:`in_fresh_process`, but with the allocator as users have it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    return _in_process(function, kept | PLAIN, arguments)


def measure_cells(
    path: Path | None,
    plan: Iterable[Planned],
    call: Callable[..., dict[str, Any]] | None = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Measure each cell, and write the file after each.

    Cells that the file has already are not measured again: a run that was stopped resumes.

    Parameters
    ----------
    path : the JSON file; None to write none.
    call : calls a function with its arguments; by default in a plain process.
    settings : what :func:`provenance` is to say of the run.
    """
    cells = json.loads(path.read_text())["cells"] if path and path.exists() else []
    for name, function, arguments in plan:
        if any(name.items() <= cell.items() for cell in cells):
            continue
        cells.append(name | (call or in_plain_process)(function, **arguments))
        if path:
            write_json(path, provenance(**settings) | {"cells": cells})
    return cells


def here(function: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Call a function in this process: where starting one takes longer than what is measured."""
    import torch

    torch.set_num_threads(1)
    return function(**arguments)


def in_fresh_process(function: Callable[..., Any], **arguments: Any) -> Any:
    """Call a module-level function in a process of its own and return its result.

    Parameters
    ----------
    function : takes and returns what JSON can say.
    arguments : its keyword arguments.

    Raises
    ------
    ChildError
        If the process fails; the message ends with what it wrote.
    """
    return _in_process(function, os.environ | ENVIRONMENT, arguments)


def _in_process(
    function: Callable[..., Any], environment: Mapping[str, str], arguments: dict[str, Any]
) -> Any:
    module = function.__module__
    if module == "__main__":  # started as python -m benchmarks.<file>
        module = sys.modules["__main__"].__spec__.name  # type: ignore[union-attr]
    command = [sys.executable, "-m", "benchmarks.measure", f"{module}:{function.__name__}"]
    done = subprocess.run(
        [*command, json.dumps(arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        message = f"{function.__name__} failed in its process:\n{done.stderr}"
        raise ChildError(message, done.returncode)
    return json.loads(done.stdout.splitlines()[-1])


def interleaved(
    candidates: Mapping[str, Callable[[], object]],
    *,
    seconds: float,
    at_least: int = 3,
    turn: float = TURN,
) -> dict[str, float]:
    """Median CPU seconds of a call of each candidate; they take turns.

    Every turn begins with an untimed call, for all candidates alike, and another one begins each
    round: where a candidate's memory comes to lie hangs on who was before it.

    Parameters
    ----------
    candidates : what to call.
    seconds : roughly how long to measure altogether.
    at_least : number of turns even if that takes longer.
    turn : seconds of a turn; a quick candidate is called several times in one.

    Examples
    --------
    >>> times = interleaved({"sum": lambda: sum(range(100))}, seconds=0.01)
    >>> times["sum"] > 0
    True
    """
    calls = {}
    cost = 0.0
    for name, candidate in candidates.items():
        started = time.process_time()
        candidate()  # also warms up
        once = max(time.process_time() - started, 1e-7)
        calls[name] = max(1, round(turn / once))
        cost += once * calls[name]
    turns = max(at_least, min(200, int(seconds / cost)))
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates.items())
    for _ in range(turns):
        order.append(order.pop(0))
        for name, candidate in order:
            candidate()  # untimed: nobody pays for what the one before left in the caches
            started = time.process_time()
            for _ in range(calls[name]):
                candidate()
            times[name].append((time.process_time() - started) / calls[name])
    return {name: statistics.median(values) for name, values in times.items()}


def median_over(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Median of each entry over the processes.

    Examples
    --------
    >>> median_over([{"a": 1.0}, {"a": 5.0}, {"a": 2.0}])
    {'a': 2.0}
    """
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def median_ratio(runs: Sequence[dict[str, float]], slow: str, fast: str) -> float:
    """Median over processes of the ratio within each process.

    Examples
    --------
    >>> median_ratio([{"a": 4.0, "b": 2.0}, {"a": 9.0, "b": 3.0}, {"a": 3.0, "b": 3.0}], "a", "b")
    2.0
    """
    return statistics.median(run[slow] / run[fast] for run in runs)


def provenance(**settings: Any) -> dict[str, Any]:
    """What a reader needs to repeat the run: command, settings, versions, commit, machine."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = sys.argv[0] if spec is None else f"python -m {spec.name.removesuffix('.__main__')}"
    return {
        "command": shlex.join([*shlex.split(program), *sys.argv[1:]]),
        "settings": settings,
        "environment": ENVIRONMENT,
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "neural-random-subspace": version("neural-random-subspace"),
        },
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "src", "benchmarks")),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
    }


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table whose columns line up on a terminal; None is an empty cell.

    Examples
    --------
    >>> print(table(["layer", "ratio"], [["letter", 7.25], ["MNIST", None]]))
    | layer  | ratio |
    |:-------|------:|
    | letter |  7.25 |
    | MNIST  |       |
    """
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [
        all(not isinstance(row[k], str) for row in rows) if k else False
        for k in range(len(columns))
    ]
    widths = [max(len(r[k]) for r in [list(columns), *cells]) for k in range(len(columns))]

    def line(values: Sequence[str]) -> str:
        padded = (
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, numeric, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    rule = "|".join(
        "-" * (width + 1) + ":" if right else ":" + "-" * (width + 1)
        for width, right in zip(widths, numeric, strict=True)
    )
    return "\n".join([line(columns), f"|{rule}|", *map(line, cells)])


def write_json(path: str | Path, report: dict[str, Any]) -> None:
    """Write a report, its folder made if need be."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return str(value)


def _git(*arguments: str) -> str | None:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _child() -> None:
    import torch

    torch.set_num_threads(1)
    module, function = sys.argv[1].split(":")
    result = getattr(importlib.import_module(module), function)(**json.loads(sys.argv[2]))
    print(json.dumps(result))


if __name__ == "__main__":
    _child()
