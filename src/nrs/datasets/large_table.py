"""Tables larger than memory: Parquet and Arrow files that are read piece by piece."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nrs.datasets.parts import Part, find_parts, read_group
from nrs.datasets.table_file_errors import TableFileError, import_pyarrow, missing_columns

# Cells of a chunk, and its most rows: 32 MB of float64.
CHUNK_CELLS, CHUNK_ROWS = 1 << 22, 1 << 16


@dataclass(frozen=True)
class Group:
    """A row group: the unit that is read, shuffled, and divided among processes.

    Attributes
    ----------
    part, number : int
        The number of its file, and its own in there.
    first : int
        Its first row in the file.
    rows : int
    """

    part: int
    number: int
    first: int
    rows: int


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file in their order: a record batch, and where it begins."""

    part: int
    first: int
    batch: Any


class Table:
    """A table in one or many Parquet or Arrow files, which need not fit in memory.

    All parts are checked when it is made: one that is empty, truncated or of another schema is
    refused by its name, before any time is spent. Rows are read when they are used.

    Parameters
    ----------
    source : path, pattern, folder, URI, or a list of these
        ``"rows/*.parquet"``, ``"rows/"``, ``"s3://bucket/rows/*.parquet"``, …
    target : str or list of str, optional
        The column to predict, or several; needed to fit.
    columns : list of str, optional
        The columns to predict from; by default all but the target.
    filesystem : Arrow or fsspec filesystem, optional
        Where the paths are; else they are local, or the URI tells.

    Attributes
    ----------
    parts : list of :class:`nrs.datasets.parts.Part`
    groups : list of Group
    columns, targets : list of str
    kinds : dict of str to str
        What each column and the target hold: "number", "boolean", "duration", "date", "category".
    n_rows : int

    Raises
    ------
    nrs.datasets.table_file_errors.TableFileError
        If a part cannot be used, or a column is missing.
    FileNotFoundError
        If there are no such files.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> from pyarrow import parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in range(2):
    ...         rows = pyarrow.table({"rooms": [k, k + 1], "price": [100.0, 200.0]})
    ...         parquet.write_table(rows, f"{folder}/part-{k}.parquet")
    ...     table = Table(f"{folder}/*.parquet", target="price")
    ...     table, table.columns, table.head(1).to_pylist()
    (Table(2 files, 4 rows, 1 columns, target='price'), ['rooms'], [{'rooms': 0, 'price': 100.0}])
    """

    def __init__(
        self,
        source: Any,
        target: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        filesystem: Any = None,
    ) -> None:
        import_pyarrow()
        # Where another process finds the same table; None if only a filesystem in memory tells.
        self.source = None if filesystem is not None else source
        self.filesystem, self.parts = find_parts(source, filesystem)
        self.targets = _target_names(target)
        known = self.parts[0].schema.names
        if columns is None:
            self.columns = [name for name in known if name not in self.targets]
        else:
            self.columns = [name for name in columns if name not in self.targets]
        self.kinds = self._check_schemas(strictly=columns is None)
        self.groups = [
            Group(place, number, int(first), rows)
            for place, part in enumerate(self.parts)
            for number, (first, rows) in enumerate(
                zip(np.cumsum((0, *part.rows)), part.rows, strict=False)
            )
            if rows
        ]
        self.n_rows = sum(group.rows for group in self.groups)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"Table({len(self.parts)} files, {self.n_rows} rows, {len(self.columns)} columns, "
            f"target={self.target!r})"
        )

    @property
    def target(self) -> str | list[str] | None:
        """The column to predict, the names of several, or None."""
        return self.targets if len(self.targets) > 1 else next(iter(self.targets), None)

    @property
    def wanted(self) -> list[str]:
        """The columns and the targets, if there are any."""
        return [*self.columns, *self.targets]

    def select(self, columns: Sequence[str]) -> Table:
        """The same files and target, read for other columns.

        Parameters
        ----------
        columns : sequence of str
            The columns to predict from; the target may be among them and is left out.

        Raises
        ------
        TableFileError
            If a part does not have them, or none is named.
        """
        other = copy.copy(self)
        other.columns = [name for name in columns if name not in self.targets]
        other.kinds = other._check_schemas(strictly=False)
        return other

    def with_target(self, target: str | Sequence[str]) -> Table:
        """The same files, with one or some of the columns as the target.

        Parameters
        ----------
        target : str or list of str
            The column to predict, or several; one that was the target before is dropped.

        Raises
        ------
        TableFileError
            If a part does not have it, or no other column is left.
        """
        other = copy.copy(self)
        other.targets = _target_names(target)
        return other.select(self.columns)

    def drop(self, columns: Sequence[str]) -> Table:
        """The same table without some of its columns.

        Parameters
        ----------
        columns : sequence of str
            The columns to leave out; the target is none of them.

        Raises
        ------
        TableFileError
            If it does not have them, or none is left.
        """
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise missing_columns(self.parts[0].path, missing, self.columns)
        return self.select([name for name in self.columns if name not in columns])

    def chunks(
        self,
        groups: Sequence[Group] | None = None,
        columns: Sequence[str] | None = None,
        *,
        rows: int | None = None,
        at_once: int = 1,
    ) -> Iterator[Chunk]:
        """Read row groups, all of them by default, in chunks of bounded size.

        Parameters
        ----------
        groups : sequence of Group, optional
            Which, and in which order.
        columns : sequence of str, optional
            Of the columns and the target.
        rows : int, optional
            Most rows of a chunk; by default what a chunk's cells allow.
        at_once : int
            How many groups are read side by side, a chunk of each in turn.

        Yields
        ------
        Chunk
            Of at least one row.
        """
        names = self.wanted if columns is None else list(columns)
        most = chunk_rows(len(names)) if rows is None else rows
        waiting = iter(self.groups if groups is None else groups)
        reading: list[Iterator[Chunk]] = []
        while True:
            while len(reading) < at_once and (group := next(waiting, None)) is not None:
                reading.append(self._read(group, names, most))
            if not reading:
                return
            one = reading.pop(0)
            chunk = next(one, None)
            if chunk is not None:
                reading.append(one)
                yield chunk

    def _read(self, group: Group, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        first = group.first
        part = self.parts[group.part]
        for batch in read_group(self.filesystem, part, group.number, columns, rows):
            yield Chunk(group.part, first, self._alike(batch))
            first += batch.num_rows

    def _alike(self, batch: Any) -> Any:
        """The batch with the types that all parts can have, where theirs differ."""
        for place, name in enumerate(batch.schema.names):
            if name in self._types and batch.schema.field(place).type != self._types[name]:
                batch = batch.set_column(place, name, batch.column(place).cast(self._types[name]))
        return batch

    @contextlib.contextmanager
    def naming(self, chunk: Chunk) -> Iterator[None]:
        """Within the block an error about values says which file they are from.

        Parameters
        ----------
        chunk : Chunk
            The rows that the block works on, as :meth:`chunks` gives them.
        """
        try:
            yield
        except TableFileError:
            raise
        except (ValueError, TypeError) as error:
            where = f"{self.parts[chunk.part].path}, rows from {chunk.first:,} on"
            raise TableFileError(f"{where}: {error}") from error

    def head(self, n: int = 5) -> Any:
        """The first rows, as a ``pyarrow.Table`` in memory.

        Parameters
        ----------
        n : int, default=5
            How many; all if the table has fewer.
        """
        pyarrow = import_pyarrow()
        read: list[Any] = []
        for chunk in self.chunks(rows=max(1, min(n, CHUNK_ROWS))):
            read.append(chunk.batch)
            if sum(batch.num_rows for batch in read) >= n:
                break
        return pyarrow.Table.from_batches(read).slice(0, n)

    def identity(self) -> dict[str, Any]:
        """What tells this table from others without reading it, as JSON values."""
        return {
            "target": self.target,
            "columns": {name: self.kinds[name] for name in self.columns},
            "parts": [
                [os.path.basename(part.path), part.size, list(part.rows)] for part in self.parts
            ],
        }

    def _check_schemas(self, *, strictly: bool) -> dict[str, str]:
        """The kind of each column, equal in all parts; refuses the first part that differs."""
        kinds: dict[str, str | None] = {}
        first = self.parts[0]
        if not self.columns:
            raise TableFileError(
                f"{first.path} must have columns beside the target, however: none is left; name "
                "other columns, or drop fewer"
            )
        for part in self.parts:
            names = part.schema.names
            missing = [name for name in self.wanted if name not in names]
            if missing and part is first:
                raise missing_columns(part.path, missing, names)
            extra = sorted(set(names) - set(self.wanted)) if strictly else []
            if missing or extra:
                raise _other_schema(
                    part, first, f"it lacks {missing}" if missing else f"it also has {extra}"
                )
            for name in self.wanted:
                kind = column_kind(part.schema.field(name).type, f"{part.path}: column {name!r}")
                before = kinds.get(name)
                if before is not None and kind is not None and kind != before:
                    found = f"column {name!r} holds a {kind} ({part.schema.field(name).type})"
                    raise _other_schema(part, first, f"{found} in place of a {before}")
                kinds[name] = before or kind
        self._types = self._unify_types()
        # A column without a value anywhere is read as numbers that are missing.
        return {name: kind or "number" for name, kind in kinds.items()}

    def _unify_types(self) -> dict[str, Any]:
        """A type for each column whose type is not the same in all parts."""
        pyarrow = import_pyarrow()
        types: dict[str, Any] = {}
        first = self.parts[0]
        for part in self.parts[1:]:
            for name in self.wanted:
                known, here = (one.schema.field(name).type for one in (first, part))
                if here == known:
                    continue
                pair = [
                    pyarrow.schema([(name, plain_type(kind))])
                    for kind in (types.get(name, known), here)
                ]
                try:
                    both = pyarrow.unify_schemas(pair, promote_options="permissive")
                except pyarrow.ArrowException:
                    found = f"column {name!r} is {here} in place of {known}"
                    raise _other_schema(part, first, found) from None
                types[name] = both.field(name).type
        return types


def _target_names(target: str | Sequence[str] | None) -> list[str]:
    names = [target] if isinstance(target, str) else list(target or ())
    if not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise ValueError(
            "target must be the name of a column, or a list of different names; got "
            f"target={target!r}"
        )
    return names


def plain_type(kind: Any) -> Any:
    """The type of the values of a dictionary; any other type as it is."""
    return kind.value_type if import_pyarrow().types.is_dictionary(kind) else kind


def chunk_rows(n_columns: int) -> int:
    """Rows of a chunk of a table of so many columns.

    Examples
    --------
    >>> chunk_rows(30), chunk_rows(1000)
    (65536, 4194)
    """
    return max(256, min(CHUNK_ROWS, CHUNK_CELLS // max(1, n_columns)))


def column_kind(kind: Any, label: str) -> str | None:
    """What a column of an Arrow type holds; None if its cells are all missing.

    Raises
    ------
    TableFileError
        If its cells are lists or objects.

    Examples
    --------
    >>> import pyarrow
    >>> [column_kind(t, "x") for t in (pyarrow.int8(), pyarrow.string(), pyarrow.date32())]
    ['number', 'category', 'date']
    """
    types = import_pyarrow().types
    if types.is_null(kind):
        return None
    if types.is_nested(kind):
        raise TableFileError(f"{label} must hold plain values, however: {kind}; flatten it first")
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_duration(kind):
        return "duration"
    return "date" if types.is_timestamp(kind) or types.is_date(kind) else "category"


def _other_schema(part: Part, first: Part, found: str) -> TableFileError:
    return TableFileError(
        f"{part.path} must have the columns of {os.path.basename(first.path)}, however: {found}; "
        "write that part again, leave it out, or name the columns to read"
    )
