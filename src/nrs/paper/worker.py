"""A process that measures one item after another, with one thread, until its parent ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from nrs._util.launch import end_with_parent
from nrs.paper.results import Item, Results
from nrs.paper.table import Cell, NotHereError, Search, Subject, Table


@dataclass(frozen=True)
class Task:
    """An item to measure, where its table is found, and whether a former failure is tried again."""

    table: str
    item: Item
    redo: bool = False

    def to_line(self) -> bytes:
        """The task as one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: str) -> Task:
        """The task of such a line."""
        facts = json.loads(line)
        item = facts.pop("item")
        if "plan" in item:
            return cls(item=Search(**item), **facts)
        subject = item["subject"] | {"setting": tuple(map(tuple, item["subject"]["setting"]))}
        return cls(item=Cell(Subject(**subject), item["seed"]), **facts)


@dataclass(frozen=True)
class Outcome:
    """How a task ended: a status, or ``"busy"`` if another process is at it."""

    status: str
    fresh: bool
    error: str | None = None


def is_finished(status: str | None, *, redo: bool = False) -> bool:
    """Whether a result need not be measured: absent data may have come since, so it is tried."""
    return status == "ok" or (status in ("failed", "timeout") and not redo)


def serve() -> None:
    """Perform the tasks that come in on standard input, one per line, until it closes."""
    # An interrupt of the terminal goes to the parent, which ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    results = Results(sys.argv[1])
    end_with_parent(int(sys.argv[2]))
    # What a measurement prints goes to standard error, and it reads nothing: these lines are ours.
    with os.fdopen(os.dup(0)) as tasks, os.fdopen(os.dup(1), "w") as answers:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        outcome = Outcome("ready", fresh=False)
        while True:
            answers.write(json.dumps(asdict(outcome)) + "\n")
            answers.flush()
            line = tasks.readline()
            if not line:
                return
            outcome = perform(Task.from_line(line), results)


def perform(task: Task, results: Results) -> Outcome:
    """Measure an item and keep the result, unless it is there or another process is at it."""
    with results.claim(task.item) as ours:
        if not ours:
            return Outcome("busy", fresh=False)
        before = results.status(task.item)
        if is_finished(before, redo=task.redo):
            assert before is not None
            return Outcome(before, fresh=False)
        record = _measure(task, results)
        results.write(task.item, record)
        return Outcome(record["status"], fresh=True, error=record["error"])


def ended(status: str, error: str | None, seconds: float) -> dict[str, Any]:
    """The part of a record that every result has."""
    from nrs.paper.environment import environment

    return {
        "status": status,
        "error": error,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        **environment(),
    }


def _measure(task: Task, results: Results) -> dict[str, Any]:
    from nrs.paper.registry import find_table

    begin = time.monotonic()
    content: dict[str, Any] = {}
    try:
        table = find_table(home_of(task))
        if isinstance(task.item, Search):
            content = table.search(task.item)
        else:
            content = vars(table.measure(task.item, _found(table, task.item, results)))
        status, error = "ok", None
    except NotHereError as reason:
        status, error = "not run", str(reason)
    except Exception as failure:
        status, error = "failed", f"{type(failure).__name__}: {failure}"
        content = {"traceback": traceback.format_exc()}
    return {**ended(status, error, time.monotonic() - begin), **content}


def home_of(task: Task) -> str:
    """Where the table is found that measures an item: a figure may read the cells of another."""
    from nrs.paper.registry import find_table

    if isinstance(task.item, Search) or find_table(task.table).name == task.item.subject.table:
        return task.table
    return task.item.subject.table


def _found(table: Table, cell: Cell, results: Results) -> dict[Search, dict[str, Any]]:
    found = {}
    for search in table.searches(cell.subject):
        record = results.read(search)
        if record is None or record["status"] == "not run":
            raise NotHereError("its settings were not searched" if not record else record["error"])
        if record["status"] != "ok":
            raise RuntimeError(
                f"the search of its settings ended with {record['status']} ({record['error']}); "
                f"see {results.path(search)}"
            )
        found[search] = record
    return found
