"""The body of a request as a table: rows in JSON, or an Arrow IPC stream.

A body comes from anyone: whatever it holds, it becomes a table of the model's columns or a
ValueError, and takes memory in proportion to its size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from nrs._util.optional import import_optional
from nrs.tabular.encode.columns import level_text
from nrs.tabular.predict_file import offset_column, row_columns

if TYPE_CHECKING:
    import pyarrow
    import pydantic
    import typing_extensions

    from nrs.datasets.reading import Plan
    from nrs.tabular.types import TableModel
else:
    pyarrow, pydantic, typing_extensions = (
        import_optional(module, "nrs serve", "serve")
        for module in ("pyarrow", "pydantic", "typing_extensions")
    )

# How a JSON cell of each kind is read, and the type of its Arrow column.
_WORD = str | bool | int | float | None
CELLS: dict[str, tuple[Any, Callable[[], pyarrow.DataType]]] = {
    "number": (float | None, lambda: pyarrow.float64()),
    "boolean": (bool | None, lambda: pyarrow.bool_()),
    "duration": (timedelta | None, lambda: pyarrow.duration("us")),
    "date": (datetime | None, lambda: pyarrow.timestamp("us")),
    "category": (_WORD, lambda: pyarrow.string()),
    "text": (_WORD, lambda: pyarrow.string()),
}


class TooManyRowsError(ValueError):
    """A request with more rows than are allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a request may have {limit:,} rows; send several")


class RequestRows:
    """Bodies of requests as tables with the columns that a model reads."""

    def __init__(self, model: TableModel, max_rows: int) -> None:
        encoder = model.encoder_
        self.kinds = row_columns(model)
        self.features = [name for name in self.kinds if name not in offset_column(model)]
        names = encoder.column_names
        self.plans = {names[k]: plan for k, plan in encoder.plans.items() if plan.reads_text}
        self.max_rows = max_rows
        cells = {name: self._cell(name, kind) for name, kind in self.kinds.items()}
        # Names of a TypedDict need not be identifiers.
        typed_dict: Any = typing_extensions.TypedDict
        row = typed_dict("Row", cells)
        length = pydantic.Field(min_length=1, max_length=max_rows)
        many: Any = Annotated[list[row], length, pydantic.FailFast()]  # type: ignore[valid-type]
        self._rows = pydantic.TypeAdapter(typed_dict("Rows", {"rows": many}))

    def _cell(self, name: str, kind: str) -> Any:
        plan = self.plans.get(name)
        if plan is None:
            return CELLS[kind][0]
        return {"number": float | str | None, "category": _WORD}.get(plan.kind, str | None)

    def schema(self) -> dict[str, Any]:
        """The JSON schema of a body."""
        schema = self._rows.json_schema()
        schema["properties"]["rows"]["items"] = schema.pop("$defs")["Row"]
        return schema

    def from_json(self, body: bytes) -> pyarrow.Table:
        """The rows of ``{"rows": [{"column": cell, …}, …]}``; columns unknown are left out.

        Raises
        ------
        ValueError
            Which names the row and the column.
        """
        try:
            rows = self._rows.validate_json(body)["rows"]
        except pydantic.ValidationError as error:
            wrong = error.errors(include_url=False, include_context=False, include_input=False)
            if wrong[0]["type"] == "too_long":
                raise TooManyRowsError(self.max_rows) from None
            place = ".".join(map(str, wrong[0]["loc"]))
            raise ValueError(f"{place or 'body'}: {wrong[0]['msg']}") from None
        columns = {}
        for name, kind in self.kinds.items():
            cells = [row[name] for row in rows]
            plan = self.plans.get(name)
            try:
                columns[name] = _column(cells, kind, plan)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"column {name!r}: {error}") from None
        return pyarrow.table(columns)

    def from_arrow(self, body: bytes) -> pyarrow.Table:
        """The rows of an Arrow IPC stream; columns unknown are left out.

        Raises
        ------
        ValueError
            If it is damaged, compressed, or lacks a column.
        """
        try:
            return self._from_arrow(pyarrow.py_buffer(body))
        except (pyarrow.ArrowException, OSError, struct.error) as error:
            raise ValueError(f"the body is no Arrow IPC stream: {str(error)[:200]}") from None

    def _from_arrow(self, body: pyarrow.Buffer) -> pyarrow.Table:
        for message in pyarrow.ipc.MessageReader.open_stream(body):
            if _is_compressed(message.metadata.to_pybytes()):
                # A few bytes could be gigabytes.
                raise ValueError("the Arrow stream is compressed; send it uncompressed")
        schema = pyarrow.ipc.open_stream(body).schema
        places = [schema.get_all_field_indices(name) for name in self.kinds]
        for name, found in zip(self.kinds, places, strict=True):
            if len(found) != 1:
                raise ValueError(f"the body must have one column {name!r}; it has {len(found)}")
            if not _is_plain(schema.field(found[0]).type):
                raise ValueError(
                    f"column {name!r} must hold numbers, texts, booleans, dates or durations; its "
                    f"type is {schema.field(found[0]).type}"
                )
        options = pyarrow.ipc.IpcReadOptions(included_fields=sorted(place for (place,) in places))
        batches, n_rows = [], 0
        for batch in pyarrow.ipc.open_stream(body, options=options):
            n_rows += batch.num_rows
            if n_rows > self.max_rows:
                raise TooManyRowsError(self.max_rows)
            batch.validate(full=True)
            batches.append(batch)
        if not n_rows:
            raise ValueError("the body has no rows")
        table = pyarrow.Table.from_batches(batches)
        # By arrays: metadata of fields say how a file was read.
        return pyarrow.table({name: table.column(name) for name in self.kinds})


def _column(cells: list[Any], kind: str, plan: Plan | None) -> pyarrow.Array:
    """JSON cells as an Arrow column."""
    types = set(map(type, cells)) - {type(None)}
    if plan is not None and plan.kind != "category":
        if types != {str, float}:
            return pyarrow.array(cells, None if types else pyarrow.float64())
        # Numbers among the texts are not written by anyone's convention.
        numbers = [plan.read([cell])[0] if isinstance(cell, str) else cell for cell in cells]
        return pyarrow.array(numbers, pyarrow.float64(), from_pandas=True)
    if kind in ("category", "text"):
        cells = [None if cell is None or cell != cell else level_text(cell) for cell in cells]
    elif kind == "date":
        cells = [
            cell.astimezone(UTC).replace(tzinfo=None) if cell is not None and cell.tzinfo else cell
            for cell in cells
        ]
    return pyarrow.array(cells, CELLS[kind][1]())


def _is_plain(dtype: pyarrow.DataType) -> bool:
    """Whether a column of this type takes no more memory read than sent."""
    types = pyarrow.types
    if types.is_dictionary(dtype):
        return _is_plain(dtype.value_type)
    plain = (
        types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal,
        types.is_string, types.is_large_string, types.is_date, types.is_timestamp,
        types.is_duration,
    )  # fmt: skip
    return any(check(dtype) for check in plain)


def _is_compressed(metadata: bytes) -> bool:
    """Whether the message that an Arrow flatbuffer describes has compressed buffers."""

    def field(table: int, number: int) -> int:
        """Where a field of a table is; 0 if it has none."""
        slots = table - struct.unpack_from("<i", metadata, table)[0]
        place = 4 + 2 * number
        if place >= struct.unpack_from("<H", metadata, slots)[0]:
            return 0
        offset: int = struct.unpack_from("<H", metadata, slots + place)[0]
        return table + offset if offset else 0

    def follow(place: int) -> int:
        return place + int(struct.unpack_from("<I", metadata, place)[0])

    message = follow(0)
    kind, header = field(message, 1), field(message, 2)
    if not kind or not header or metadata[kind] not in (2, 3):
        return False
    batch = follow(header)
    if metadata[kind] == 2:
        # A dictionary, whose values are a batch.
        values = field(batch, 1)
        if not values:
            return False
        batch = follow(values)
    return field(batch, 3) != 0
