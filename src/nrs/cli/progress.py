"""How far a run is: a bar on a terminal, one line per cell elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nrs._util.progress import Bar
from nrs.cli.terminal import echo

if TYPE_CHECKING:
    from nrs.paper import Event


@contextlib.contextmanager
def progress() -> Iterator[Callable[[Event], None]]:
    """Give the function to call after each item."""
    with Bar("starting", total=None, kind="items") as bar:

        def show(event: Event) -> None:
            if not bar.shown:
                echo(f"{event.done}/{event.total} {_text(event)}", err=True)
                return
            bar.update(total=event.total, completed=event.done, description=_name(event))
            if event.outcome.error:
                bar.write(_text(event))

        yield show


def _text(event: Event) -> str:
    error = (event.outcome.error or "").partition("\n")[0]
    return f"{_name(event)}: {event.outcome.status}" + (f" ({error})" if error else "")


def _name(event: Event) -> str:
    return event.item.path.removesuffix(".json")
