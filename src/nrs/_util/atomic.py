"""Files that are whole or absent: a write that replaces a file in one step."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only once it is whole and on the disk.

    Whatever happens inside the block, ``path`` holds either what it held before or all of the
    new content, and no temporary file stays behind (but for a process killed in the middle).

    Raises
    ------
    FileNotFoundError
        If the directory of ``path`` does not exist.
    OSError
        If writing fails, for instance on a full disk. ``path`` is as it was before.

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
    # A link stays a link: the file it points to is replaced.
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Directory not found: {target.parent}; create it first")
    temporary = target.parent / f"{temporary_prefix(target.name)}{secrets.token_hex(8)}"
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def temporary_prefix(name: str) -> str:
    """How the temporary files of ``atomic_write`` for a file called ``name`` begin."""
    return f".{name}.tmp-"


def _sync_directory(directory: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open a directory.
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
