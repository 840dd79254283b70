"""What happened in each epoch, as a small table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from nrs._util.optional import import_optional

# Wall time differs between two runs that are otherwise the same, bit for bit.
_NOT_COMPARED = "seconds"


class History:
    """A table with a row for each epoch: epoch, train_loss, metrics, lr, seconds.

    Two histories are equal if all but their ``seconds`` are.

    Parameters
    ----------
    rows : list of dict, optional
        The rows, first epoch first.
    best_epoch : int, optional
        The epoch (from 0) whose weights were kept; None if nothing was evaluated.
    stopped_early : bool
        Whether training ended before its last epoch.

    Examples
    --------
    >>> history = History()
    >>> history.append({"epoch": 0, "train_loss": 0.7, "score": 0.5, "lr": 0.1, "seconds": 1.0})
    >>> history.append({"epoch": 1, "train_loss": 0.4, "score": 0.8, "lr": 0.1, "seconds": 1.0})
    >>> len(history), history["train_loss"], history.columns[:3]
    (2, [0.7, 0.4], ['epoch', 'train_loss', 'score'])
    >>> History.from_json(history.to_json()) == history
    True
    """

    def __init__(
        self,
        rows: list[dict[str, float]] | None = None,
        best_epoch: int | None = None,
        stopped_early: bool = False,
    ) -> None:
        self.rows: list[dict[str, float]] = [] if rows is None else rows
        self.best_epoch = best_epoch
        self.stopped_early = stopped_early

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order in which they first appear."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def append(self, row: dict[str, float]) -> None:
        """Add the row of the next epoch.

        Parameters
        ----------
        row : dict of str to float
            The value of each column; columns may differ from row to row.
        """
        self.rows.append(row)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> list[float]:
        columns = self.columns
        if name not in columns:
            raise KeyError(f"No column {name!r}; the columns are {columns}")
        return [row.get(name, math.nan) for row in self.rows]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History):
            return NotImplemented
        return self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment]

    def _compared(self) -> tuple[Any, ...]:
        rows = [{k: v for k, v in row.items() if k != _NOT_COMPARED} for row in self.rows]
        # As JSON, because NaN differs from itself.
        return json.dumps(rows, sort_keys=True), self.best_epoch, self.stopped_early

    def __repr__(self) -> str:
        if not self.rows:
            return "History(no epochs)"
        names = self.columns
        shown = list(range(len(self)))
        if len(shown) > 10:
            shown = [*shown[:5], -1, *shown[-4:]]
        table = [names]
        for index in shown:
            row = self.rows[index]
            table.append(["…"] * len(names) if index == -1 else [_cell(row, n) for n in names])
        widths = [max(len(line[column]) for line in table) for column in range(len(names))]
        lines = [
            "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in table
        ]
        end = f"{len(self)} epoch{'s' if len(self) > 1 else ''}"
        if self.best_epoch is not None:
            end += f", best {self.best_epoch}"
        if self.stopped_early:
            end += ", stopped early"
        return "\n".join([*lines, end])

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values; NaN and infinities become strings."""
        return {
            "rows": [{name: _to_plain(value) for name, value in row.items()} for row in self.rows],
            "best_epoch": self.best_epoch,
            "stopped_early": self.stopped_early,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> History:
        """The inverse of `to_dict`.

        Parameters
        ----------
        content : dict
            What `to_dict` gave.
        """
        rows = [
            {name: float(value) if isinstance(value, str) else value for name, value in row.items()}
            for row in content["rows"]
        ]
        return cls(rows, content["best_epoch"], content["stopped_early"])

    def to_json(self) -> str:
        """The table as a JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> History:
        """The inverse of `to_json`.

        Parameters
        ----------
        text : str
            What `to_json` gave.
        """
        return cls.from_dict(json.loads(text))

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "History.to_pandas", "frames")
        return pandas.DataFrame(self.rows, columns=self.columns)


def _cell(row: dict[str, float], name: str) -> str:
    value = row.get(name, math.nan)
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _to_plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
