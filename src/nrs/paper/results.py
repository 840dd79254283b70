"""One JSON file per result, whole or absent, and claims so that two runs share the work.

A claim is a lock, so a killed run leaves nothing to clean up. Whoever gets it looks once more
whether the result is there before measuring; so no finished cell is measured twice. Where there are
no locks (Windows), two runs may measure the same cell, and the later result replaces the earlier.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nrs._util.atomic import atomic_write, temporary_prefix
from nrs._util.lock import locked
from nrs.paper.table import Cell, Search

_log = logging.getLogger(__name__)

FORMAT = 1
STATUSES = ("ok", "failed", "timeout", "not run")
Item = Cell | Search


class Results:
    """The folder of results.

    They are in ``<folder>/paper/<table>/<dataset>/<method>/seed-<n>.json`` and
    ``<folder>/paper/searches/…``; results of several machines merge by copying files.

    Examples
    --------
    >>> import tempfile
    >>> from nrs.paper.table import Subject
    >>> cell = Cell(Subject("accuracy", "letter", "RF"), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Results(folder)
    ...     results.write(cell, {"status": "ok", "metrics": {"accuracy": 96.1}})
    ...     results.read(cell)["metrics"]
    {'accuracy': 96.1}
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.root = self.folder / "paper"

    def path(self, item: Item) -> Path:
        """The file of a result."""
        return self.root / item.path

    def read(self, item: Item) -> dict[str, Any] | None:
        """Give a result; None if there is none."""
        path = self.path(item)
        try:
            record = json.loads(path.read_bytes())
            if not isinstance(record, dict) or record.get("status") not in STATUSES:
                raise ValueError("it has no status")
        except FileNotFoundError:
            return None
        except ValueError as error:
            _log.warning("%s is not a result file and will be measured anew (%s)", path, error)
            return None
        return record

    def write(self, item: Item, record: Mapping[str, Any]) -> None:
        """Keep a result, in one step."""
        path = self.path(item)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, **item.identity(), **_json_values(record)}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        with atomic_write(path) as file:
            file.write(text.encode() + b"\n")

    def status(self, item: Item) -> str | None:
        """``"ok"``, ``"failed"``, ``"timeout"`` or ``"not run"``; None if there is no result."""
        record = self.read(item)
        return None if record is None else str(record["status"])

    @contextlib.contextmanager
    def claim(self, item: Item) -> Iterator[bool]:
        """Hold an item for this process; gives False if another process holds it."""
        path = self.path(item)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.claim")
        with locked(lock) as ours:
            if ours:
                # What a writer killed in the middle left behind.
                for leftover in path.parent.glob(f"{temporary_prefix(path.name)}*"):
                    leftover.unlink(missing_ok=True)
            yield ours is not False
            # Only now that the result is there: a run that gets hold of the old file or makes a
            # new one finds the result in either case.
            if ours and path.exists():
                lock.unlink(missing_ok=True)


def _json_values(value: Any) -> Any:
    """NumPy's numbers as Python's, tuples as lists, and what is not finite as None."""
    if isinstance(value, Mapping):
        return {str(key): _json_values(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_values(entry) for entry in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)
