"""Temporary folders that do not pile up when the processes that use them are killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nrs._util.lock import locked

_LOCK = ".lock"


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A temporary folder, removed after the block.

    A process killed within the block leaves its folder, which the next call with this prefix
    removes (not on Windows, where it cannot be told from one in use).

    Examples
    --------
    >>> with scratch("nrs-example-") as folder:
    ...     _ = (folder / "notes.txt").write_text("brief")
    >>> folder.exists()
    False
    """
    _remove_leftovers(prefix)
    while True:
        with tempfile.TemporaryDirectory(prefix=prefix) as name:
            lock = Path(name, _LOCK)
            with locked(lock) as ours:
                # Before it was locked, another process may have taken it for a leftover.
                if ours is None or (ours and lock.exists()):
                    yield Path(name)
                    return


def _remove_leftovers(prefix: str) -> None:
    """Remove folders of this user that nobody holds."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with contextlib.suppress(OSError):
                    _remove_leftover(entry)


def _remove_leftover(entry: os.DirEntry[str]) -> None:
    is_own = entry.is_dir(follow_symlinks=False) and (
        not hasattr(os, "getuid") or entry.stat(follow_symlinks=False).st_uid == os.getuid()
    )
    lock = Path(entry.path, _LOCK)
    # One without a lock has just been made.
    if is_own and lock.exists():
        with locked(lock) as ours:
            if ours:
                shutil.rmtree(entry.path, ignore_errors=True)
