"""The paper's tables as experiments: reported values, what to run, the runner, the statistics."""

import importlib
from typing import TYPE_CHECKING, Any

from nrs.paper.table import Cell, Measured, NotHereError, Printed, Search, Subject, Table

if TYPE_CHECKING:
    from nrs.paper.collect import entries
    from nrs.paper.printed import reported
    from nrs.paper.registry import find_table, tables
    from nrs.paper.results import Results
    from nrs.paper.runner import Event, Summary, run

__all__ = [
    "Cell", "Event", "Measured", "NotHereError", "Printed", "Results", "Search", "Subject",
    "Summary", "Table", "entries", "find_table", "reported", "run", "tables",
]  # fmt: skip

_HOMES = {
    "Event": "runner", "Results": "results", "Summary": "runner", "entries": "collect",
    "find_table": "registry", "reported": "printed", "run": "runner", "tables": "registry",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # A worker process needs few of these, and each takes time to import.
    if name in _HOMES:
        return getattr(importlib.import_module(f"nrs.paper.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'nrs.paper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
