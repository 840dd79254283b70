"""Files that are whole or absent: a write that replaces a file in one step."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nrs._util.inputs import refuse_input
from nrs._util.lock import locked


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only once it is whole and on the disk.

    Whatever happens inside the block, ``path`` holds either what it held before or all of the
    new content, and no temporary file stays behind. A process killed in the middle leaves one,
    which the next write of ``path`` removes (not on Windows, where it cannot be told from one in
    use).

    Raises
    ------
    FileNotFoundError
        If the directory of ``path`` does not exist.
    shutil.SameFileError
        If ``path`` is an input of a surrounding `nrs._util.inputs.reading` block.
    OSError
        If writing fails, for instance on a full disk, or if ``path`` is a folder, a device or a
        named pipe. ``path`` is as it was before.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "notes.txt"
    ...     with atomic_write(path) as file:
    ...         _ = file.write(b"whole")
    ...     path.read_bytes()
    b'whole'
    """
    check_output(path)
    # A link stays a link: the file it points to is replaced.
    target = Path(os.path.realpath(path))
    _remove_leftovers(target)
    with _temporary(target) as temporary:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    _sync_directory(target.parent)


def check_output(path: str | os.PathLike[str]) -> None:
    """Refuse a path that `atomic_write` cannot or must not replace, before the work, not after it.

    Raises
    ------
    OSError
        As `atomic_write` does.
    """
    refuse_input(path)
    parent = Path(os.path.realpath(path)).parent
    if not parent.is_dir():
        raise FileNotFoundError(f"Directory not found: {parent}; create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"Cannot write to the folder {parent}; choose another")
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise OSError(f"{os.fspath(path)} is {kind} and cannot be replaced; choose another output")


def temporary_prefix(name: str) -> str:
    """How the temporary files of ``atomic_write`` for a file called ``name`` begin."""
    return f".{name}.tmp-"


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A new file next to ``target``, which is locked within the block and gone after it."""
    while True:
        path = target.parent / f"{temporary_prefix(target.name)}{secrets.token_hex(8)}"
        try:
            with locked(path) as ours:
                # Before it was locked, another process may have taken it for a leftover.
                if ours is None or (ours and path.exists()):
                    yield path
                    return
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files that nobody holds: their writers were killed."""
    prefix = temporary_prefix(target.name)
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError), locked(entry.path) as ours:
                    if ours:
                        os.unlink(entry.path)


def _sync_directory(directory: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open a directory.
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
