"""A lock on a file, which ends with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[bool | None]:
    """Hold the lock of a file, which is created if need be, within the block; never waits for it.

    Gives True if this process holds it, False if another one does, and None where there are no such
    locks (Windows, some network filesystems).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(f"{folder}/lock") as first:
    ...     with locked(f"{folder}/lock") as second:
    ...         first, second
    (True, False)
    """
    if fcntl is None:
        yield None
        return
    with open(path, "ab") as file:
        ours: bool | None = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            ours = False if isinstance(error, BlockingIOError) else None
        yield ours
