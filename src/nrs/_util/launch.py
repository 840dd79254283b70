"""Python processes of our own: how they start, and how they end with their parent."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PACKAGES = str(Path(__file__).resolve().parents[2])


def launch(
    code: str, *arguments: Any, stdout: int = subprocess.DEVNULL, stderr: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a Python process that imports what this one would.

    Unlike those of multiprocessing, it does not import the user's script, which therefore needs no
    ``if __name__ == "__main__"``. Its standard input is a pipe that closes when this process ends.

    Parameters
    ----------
    code, *arguments : what it runs, and what it finds in ``sys.argv[1:]``, as texts.
    stderr : the file of its standard error; this process's own by default.
    environment : variables to set in addition to those of this process.

    Examples
    --------
    >>> launch("import nrs, sys; print(sys.argv[1])", 3, stdout=subprocess.PIPE).communicate()[0]
    b'3\\n'
    """
    paths = [path or os.getcwd() for path in sys.path]
    if _PACKAGES not in paths:
        paths.insert(0, _PACKAGES)
    variables = {"PYTHONPATH": os.pathsep.join(paths)} | dict(environment or {})
    with contextlib.nullcontext() if stderr is None else stderr.open("wb") as file:
        return subprocess.Popen(
            # -P: the working directory is searched only if this process searches it.
            [sys.executable, "-P", "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=stdout, stderr=file, env=os.environ | variables,
        )  # fmt: skip


# So many threads or processes are always allowed, and so many for each core.
FEW, PER_CORE = 16, 4


def check_count(count: int, name: str) -> None:
    """Refuse many more threads or processes than cores: they only cost memory, and can crash.

    Raises
    ------
    ValueError
        If there are more than 16, and more than 4 per core.
    """
    cores = os.cpu_count() or 1
    most = max(FEW, PER_CORE * cores)
    if count > most:
        raise ValueError(
            f"{name}={count:,} is far above the {cores} cores of this machine; use at most {most}."
        )


def end(child: subprocess.Popen[bytes], grace: float = 0.0) -> None:
    """Close the standard input of a child, and kill it if it is still there after some seconds."""
    with contextlib.suppress(OSError):
        child.stdin.close()  # type: ignore[union-attr]
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@functools.cache
def end_with_parent(parent: int | None = None) -> None:
    """End this process once its parent has: one that was killed cannot end its children.

    `parent` is the parent's process id; without it standard input, the pipe from `launch`, is read
    until it closes. Where `parent` is this process itself, nothing is done.
    """

    def watch() -> None:
        if parent is None:
            sys.stdin.read()
        else:
            while os.getppid() == parent:
                time.sleep(0.3)
        os._exit(1)

    if parent != os.getpid():
        threading.Thread(target=watch, daemon=True).start()
