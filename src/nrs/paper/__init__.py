"""The paper's tables as experiments: reported values, what to run, the runner, the statistics."""

from nrs.paper.collect import collect, entries
from nrs.paper.registry import find_table, tables
from nrs.paper.reported import reported
from nrs.paper.results import Results
from nrs.paper.runner import Event, Summary, run
from nrs.paper.table import Cell, Measured, NotHereError, Printed, Search, Subject, Table

__all__ = [
    "Cell",
    "Event",
    "Measured",
    "NotHereError",
    "Printed",
    "Results",
    "Search",
    "Subject",
    "Summary",
    "Table",
    "collect",
    "entries",
    "find_table",
    "reported",
    "run",
    "tables",
]
