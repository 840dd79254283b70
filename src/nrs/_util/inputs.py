"""Files that are read: ordinary ones, which nothing overwrites while they are inputs."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

# What a folder of table files is searched for; see nrs.datasets.parts.
PART_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")

_read: ContextVar[tuple[str, ...]] = ContextVar("read", default=())


@contextlib.contextmanager
def reading(*sources: str | os.PathLike[str]) -> Iterator[None]:
    """Within the block, let no writer of this package overwrite these inputs.

    Parameters
    ----------
    *sources : path, folder, pattern, or "-" for standard input
        What the block reads. A folder stands for the table files in it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, reading(folder + "/rows.csv"):
    ...     path = Path(folder) / "rows.csv"
    ...     path.touch()
    ...     refuse_input(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    shutil.SameFileError: ...rows.csv is an input and would be overwritten; choose another output
    """
    token = _read.set(_read.get() + tuple(os.fspath(source) for source in sources))
    try:
        yield
    finally:
        _read.reset(token)


def refuse_input(path: str | os.PathLike[str]) -> None:
    """Refuse an output that is an input of a surrounding `reading` block.

    Links, hard links and other spellings of an input's name are recognised.

    Raises
    ------
    shutil.SameFileError
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # A new file overwrites nothing.
        return
    if any(_is_same(path, found, source) for source in _read.get()):
        raise shutil.SameFileError(
            f"{os.fspath(path)} is an input and would be overwritten; choose another output"
        )


def _is_same(path: str | os.PathLike[str], found: os.stat_result, source: str) -> bool:
    if source == "-":
        # The shell may have opened a file as standard input.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return os.path.samestat(found, os.fstat(sys.stdin.fileno()))
        return False
    if os.path.isdir(source):
        inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source))
        return inside and os.path.realpath(path).lower().endswith(PART_SUFFIXES)
    if os.path.exists(source):
        return os.path.samestat(found, os.stat(source))
    pattern = os.path.expanduser(source.removeprefix("file://"))
    return any(os.path.samestat(found, os.stat(one)) for one in glob.glob(pattern))


def check_ordinary(path: str | os.PathLike[str]) -> None:
    """Refuse a device, a socket or a named pipe, which may never end; folders and files pass.

    A pipe that the shell opened for this process (``/dev/stdin``, ``<(command)``) passes too.

    Raises
    ------
    ValueError
    """
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):  # Whoever opens it says what is wrong.
        return
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    opened = name == "/dev/stdin" or name.startswith(("/dev/fd/", "/proc/self/fd/"))
    if opened and not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        return
    kind = next(word for test, word in _KINDS if test(mode))
    raise ValueError(f"{name} is {kind}, not a file; pass a file, or - to read from standard input")


_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: True, "a device"),
)
