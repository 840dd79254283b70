"""The progress of a run: a bar on a terminal, else one line per cell."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from nrs.paper import Event


@contextlib.contextmanager
def progress() -> Iterator[Callable[[Event], None]]:
    """Yield the function to call after each item."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), Elapsed(), Remaining())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as bar:
        task = bar.add_task("starting", total=None)

        def show(event: Event) -> None:
            bar.update(task, total=event.total, completed=event.done, description=_name(event))
            if event.outcome.error:
                console.print(_text(event), style="yellow", markup=False, highlight=False)

        yield show


def _line(event: Event) -> None:
    typer.echo(f"{event.done}/{event.total} {_text(event)}", err=True)


def _text(event: Event) -> str:
    error = (event.outcome.error or "").partition("\n")[0]
    return f"{_name(event)}: {event.outcome.status}" + (f" ({error})" if error else "")


def _name(event: Event) -> str:
    return event.item.path.removesuffix(".json")
