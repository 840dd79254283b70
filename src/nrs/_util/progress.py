"""How far a task is: a bar on a terminal, log lines or silence elsewhere."""

from __future__ import annotations

import sys
from typing import Any, Self

from nrs._util.text import printable


class Bar:
    """A progress bar on stderr, drawn by rich; where it is not `shown` its methods do nothing.

    Parameters
    ----------
    total, done : float
        The whole task, and how much of it is done. A total of None is not known yet.
    kind : {"part", "bytes", "items"}
        What is counted. A bar of items stays when it has ended.
    verbose : int
        0 for silence; 1 for a bar on a terminal; 2 for log lines where there is no terminal. The
        caller should log if `logs`, which holds on a terminal without rich too.
    """

    def __init__(
        self, text: str = "", total: float | None = 1.0, done: float = 0.0, *,
        kind: str = "part", verbose: int = 1,
    ) -> None:  # fmt: skip
        terminal = sys.stderr is not None and sys.stderr.isatty()
        bar: Any = _rich_bar(kind) if terminal and verbose >= 1 else None
        self.shown = bar is not None
        self.logs = bar is None and verbose >= (1 if terminal else 2)
        if bar is not None:
            self._bar, self._task = bar, bar.add_task(printable(text), total=total, completed=done)

    def start(self) -> Self:
        if self.shown:
            self._bar.start()
        return self

    def stop(self, *error: object) -> None:
        if self.shown:
            self._bar.stop()

    __enter__, __exit__ = start, stop

    def update(self, **changes: Any) -> None:
        """Change `completed`, `total` or `description`, or `advance` by so much."""
        if "description" in changes:
            changes["description"] = printable(changes["description"])
        if self.shown:
            self._bar.update(self._task, **changes)

    def write(self, text: str) -> None:
        """Write a line above the bar."""
        if self.shown:
            self._bar.console.print(printable(text), style="yellow", markup=False, highlight=False)


def _rich_bar(kind: str) -> Any:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    text, bar = progress.TextColumn("{task.description}", markup=False), progress.BarColumn()
    left = progress.TimeRemainingColumn()
    columns = {
        "part": (bar, progress.TextColumn("{task.percentage:>3.0f}%"), left, text),
        "bytes": (text, bar, progress.DownloadColumn(), progress.TransferSpeedColumn()),
        "items": (bar, progress.MofNCompleteColumn(), progress.TimeElapsedColumn(), left, text),
    }[kind]
    return progress.Progress(*columns, console=Console(stderr=True), transient=kind != "items")
