"""Processes forked from a server that has imported everything once: importing takes seconds.

Each runs a function as a program of its own: with its arguments, streams and folder, in a session
of its own, and with the interpreter's real end.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.measure import ROOT

# What commands import when they are first needed, and torch in an optimizer's first step.
MODULES = (
    "nrs.cli.app", "nrs.cli.main", "nrs.cli.progress", "nrs.cli.show", "nrs.datasets.load",
    "nrs.files.evaluate", "nrs.files.fit", "nrs.files.load", "nrs.tabular.predict_file",
    "nrs.tabular.tune.search", "nrs.tabular.export.onnx_file", "nrs.ranking", "nrs.vision.train",
    "nrs.vision.predict", "nrs.points.train", "nrs.points.predict", "nrs.points.picture",
    "nrs.baselines.compare", "nrs.pages.fit_report", "nrs.paper.runner", "nrs.paper.report",
    "sklearn.datasets", "sklearn.ensemble", "pandas", "pyarrow.csv", "pyarrow.json",
    "pyarrow.parquet", "pyarrow.dataset", "optuna", "onnx", "lightgbm", "xgboost",
    "matplotlib.pyplot", "PIL.Image", "rich.console", "rich.progress", "rich.table",
    "typer.rich_utils", "torch._dynamo",
)  # fmt: skip
# Streams that are no files; a broken one is a pipe that nobody reads.
CLOSED, BROKEN = "closed", "broken"


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, negative for a signal, and what it took."""

    code: int
    seconds: float
    memory: int


class Server:
    """Forks processes, one at a time."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from benchmarks.fuzz.forks import serve; serve()", *modules],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._pid = 0
        self.memory = int(self._line(300))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and a process of it that is still there."""
        self.stop()
        with contextlib.suppress(OSError):
            self._process.communicate(timeout=60)

    def start(
        self,
        function: str,
        arguments: Sequence[str] = (),
        *,
        folder: Path,
        streams: Sequence[str] = (os.devnull, os.devnull, os.devnull),
        environment: Mapping[str, str] | None = None,
        mortal: bool = False,
    ) -> int:
        """Start a process; returns its id.

        Parameters
        ----------
        function : ``module:name`` of what it calls.
        arguments : its ``sys.argv[1:]``.
        folder : its working directory.
        streams : files of standard input, output and error, or `CLOSED` or `BROKEN`.
        environment : variables to set.
        mortal : without the superuser's right to read and write everything.
        """
        asked = {
            "function": function, "arguments": list(arguments), "folder": str(folder),
            "streams": list(streams), "environment": dict(environment or {}), "mortal": mortal,
        }  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        self._pid = int(self._line(60))
        return self._pid

    def wait(self, seconds: float) -> Ended | None:
        """Wait for the process to end; None if it takes longer."""
        line = self._line(seconds)
        if not line:
            return None
        self._pid = 0
        return Ended(**json.loads(line))

    def stop(self) -> None:
        """Kill a process that is still there, and those that it started."""
        if self._pid:
            self.kill_all()
            self.wait(60)

    def kill(self) -> None:
        """Kill the process alone, not those that it started."""
        os.kill(self._pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill the process and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)

    def _line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return b""
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server has ended")
        return line


def serve() -> None:
    """Import, then fork a process for each line of standard input and say how it ends."""
    for name in sys.argv[1:]:
        # What is not installed is not needed.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    asked = _fork()
    if asked is not None:
        _become(asked)


def _fork() -> dict[str, Any] | None:
    """In each process what it was asked for; in the server None, at the end."""
    lines, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    _set_streams([os.devnull, os.devnull, ""])
    print(_resident(), file=answers)
    with lines, answers:
        for line in lines:
            begin = time.monotonic()
            pid = os.fork()
            if not pid:
                asked: dict[str, Any] = json.loads(line)
                return asked
            print(pid, file=answers)
            _, status, usage = os.wait4(pid, 0)
            ended = Ended(
                os.waitstatus_to_exitcode(status),
                round(time.monotonic() - begin, 3),
                usage.ru_maxrss << 10,
            )
            print(json.dumps(vars(ended)), file=answers)
    return None


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _become(asked: dict[str, Any]) -> None:
    """Be the process that was asked for."""
    os.setsid()
    os.chdir(asked["folder"])
    _set_streams(asked["streams"])
    os.environ.update(asked["environment"])
    sys.argv = ["nrs", *asked["arguments"]]
    module, name = asked["function"].split(":")
    function = getattr(importlib.import_module(module), name)
    if asked["mortal"] and os.getuid() == 0:
        _drop_capabilities()
    function()


def _set_streams(names: Sequence[str]) -> None:
    """Open the standard streams as the interpreter would find them; an empty name changes none."""
    for number, name in enumerate(names):
        if name == CLOSED:
            os.close(number)
        elif name:
            opened = _open(name, os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY)
            os.dup2(opened, number)
            os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = [  # type: ignore[assignment]
        None if name == CLOSED else _stream(number) for number, name in enumerate(names)
    ]


def _open(name: str, flags: int) -> int:
    if name != BROKEN:
        return os.open(name, flags | os.O_NOCTTY)
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def _stream(number: int) -> io.TextIOWrapper:
    errors = "backslashreplace" if number == 2 else "strict"
    opened = open(  # noqa: SIM115
        number, "w" if number else "r", encoding="utf-8", errors=errors, closefd=False
    )
    opened.reconfigure(line_buffering=number == 2 or os.isatty(number))
    return opened


def _drop_capabilities() -> None:
    """Let the permissions of files hold for the superuser too."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, nothing):
        raise OSError(ctypes.get_errno(), "capset")
