"""A progress bar on a terminal (rich); silence elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def download_progress(title: str, total: int | None, done: int) -> Iterator[Callable[[int], None]]:
    """Give a function to call with the number of bytes that have come in since the last call."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda n: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
        from rich.progress import TransferSpeedColumn as SpeedColumn
    except ModuleNotFoundError:
        yield lambda n: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), SpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda n: bar.advance(task, n)
