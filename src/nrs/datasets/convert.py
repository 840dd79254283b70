"""The columns of a text file, read as text, turned into numbers, dates and categories.

Arrow's own parsers read what they can: plain numbers, booleans, ISO dates. What is left is decided
by :mod:`nrs.datasets.reading`. How a column was read is kept in the metadata of its Arrow field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nrs.datasets.reading import (
    MAX_DIGITS,
    METADATA,
    NOTHING,
    ORDERS,
    Decision,
    Hint,
    Plan,
    decide,
    decision_of,
    find_sentinels,
    hint_of,
    is_code_name,
)
from nrs.datasets.table_file_errors import TableFileError, import_pyarrow, missing_columns

TYPES = ("number", "date", "time", "category", "text")
# Numbers whose points may all be those of thousands.
_GROUPED = r"^-?[1-9]\d{0,2}(\.\d{3})+$|^-?\d{1,3}$"
_DAYS = r"^(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_BOOLEANS = {"true", "false"}
NOTES = b"nrs.notes"
# Rows below which the last may be the sum of the others by chance.
MIN_ROWS_OF_TOTAL = 10


@dataclass(frozen=True)
class Overrides:
    """What the user says of a file, in place of what its cells say.

    Attributes
    ----------
    decimal : "", "." or ","
        The decimal sign of all numbers.
    dates : "", "dmy", "mdy" or "ymd"
        The order of all dates.
    na : tuple of str
        Cells that stand for no value, in every column.
    types : mapping of column to "number", "date", "time", "category" or "text"

    Raises
    ------
    ValueError
        If one of them is something else.
    """

    decimal: str = ""
    dates: str = ""
    na: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != Overrides()

    def __post_init__(self) -> None:
        if self.decimal not in ("", ".", ","):
            raise ValueError(f"decimal must be '.' or ','; got {self.decimal!r}")
        if self.dates and self.dates not in ORDERS:
            raise ValueError(f"dates must be one of {', '.join(ORDERS)}; got {self.dates!r}")
        for name, kind in self.types.items():
            if kind not in TYPES:
                raise ValueError(
                    f"type must be column=kind with a kind of {', '.join(TYPES)}; got {name}={kind}"
                )


@dataclass
class _Column:
    """A column of texts on its way."""

    name: str
    texts: Any  # the Arrow array of trimmed texts, null where there is no value
    raw: Any
    bare: Any = None  # the texts without those that say that there is nothing
    blank: bool = False  # whether some cells are nothing but blanks
    typed: Any = None  # what Arrow read
    decision: Decision | None = None
    distinct: list[str] = field(default_factory=list)
    codes: np.ndarray | None = None
    counts: np.ndarray | None = None

    def split(self) -> None:
        """Find the distinct texts, once."""
        if self.codes is None:
            encoded = self.texts.combine_chunks().dictionary_encode()
            self.distinct = encoded.dictionary.to_pylist()
            codes = encoded.indices.fill_null(len(self.distinct))
            self.codes = codes.to_numpy(zero_copy_only=False)
            self.counts = np.bincount(self.codes, minlength=len(self.distinct) + 1)[:-1]

    def decide(self, hint: Hint) -> None:
        self.split()
        self.decision = decide(self.distinct, self.counts, name=self.name, hint=hint)

    def read(self, plan: Plan) -> Any:
        """The cells by a plan, as an Arrow array."""
        pyarrow = import_pyarrow()
        self.split()
        values = plan.read(self.distinct)
        nothing = np.datetime64("NaT") if plan.kind == "date" else np.nan
        found = np.append(values, np.array([nothing], dtype=values.dtype))[self.codes]
        if plan.kind == "date":
            return pyarrow.array(found, from_pandas=True)
        if plan.kind == "duration":
            micros = np.where(np.isnan(found), 0, found * 1e6).astype("timedelta64[us]")
            return pyarrow.array(micros, mask=np.isnan(found))
        return pyarrow.array(found, mask=np.isnan(found))


def convert_texts(table: Any, overrides: Overrides, as_text: Sequence[str] = ()) -> Any:
    """Turn a table of texts into one of numbers, dates, booleans and texts.

    Parameters
    ----------
    table : pyarrow.Table
        Every column of strings; null where the file's cell was empty.
    overrides : Overrides
    as_text : sequence of str
        Columns that stay texts.

    Returns
    -------
    pyarrow.Table
        Of the same columns. :func:`decisions` says how each was read.

    Raises
    ------
    TableFileError
        If a column that is to be read as numbers or dates holds none.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"kg": ["1,5", "2,25"], "seen": ["25/12/2024", None]})
    >>> read = convert_texts(table, Overrides())
    >>> read["kg"].to_pylist(), str(read["seen"][0]), decisions(read)["kg"].plan.decimal
    ([1.5, 2.25], '2024-12-25 00:00:00', ',')
    """
    unknown = [name for name in overrides.types if name not in table.column_names]
    if unknown:
        raise missing_columns("The table", unknown, table.column_names)
    kept = {name for name, kind in overrides.types.items() if kind in ("category", "text")}
    kept |= set(as_text)
    columns = [
        _opened(name, column, overrides)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    open_ones = [one for one in columns if one.name not in kept]
    for one in open_ones:
        _read_plainly(one)
    _decide_together([one for one in open_ones if one.typed is None], open_ones, overrides)
    _drop_sentinels(open_ones, overrides)
    fields, arrays = [], []
    for one in columns:
        found, note = _finished(one, overrides)
        metadata = {METADATA: json.dumps(note.to_dict()).encode()} if note is not None else None
        fields.append(import_pyarrow().field(one.name, found.type, metadata=metadata))
        arrays.append(found)
    return import_pyarrow().table(arrays, schema=import_pyarrow().schema(fields))


def decisions(table: Any) -> dict[str, Decision]:
    """How the columns of a table were read, by name; those that Arrow read are left out."""
    return {
        one.name: decision_of(one.metadata[METADATA])
        for one in table.schema
        if one.metadata and METADATA in one.metadata
    }


def with_notes(table: Any, notes: Sequence[str]) -> Any:
    """A table that carries what a user should know of its file; see :func:`notes_of`."""
    if not notes:
        return table
    return table.replace_schema_metadata({NOTES: json.dumps(list(notes)).encode()})


def notes_of(table: Any) -> list[str]:
    """What was left out of a file, and what its columns are called, in a sentence each."""
    found: list[str] = json.loads((table.schema.metadata or {}).get(NOTES, b"[]"))
    return found


def without_headers(table: Any) -> Any:
    """A table of texts without rows that repeat its header, of files that were joined.

    Examples
    --------
    >>> import pyarrow
    >>> without_headers(pyarrow.table({"a": ["1", "a", "2"], "b": ["x", "b", "y"]})).num_rows
    2
    """
    compute = _compute()
    same: Any = None
    for name, column in zip(table.column_names, table.columns, strict=True):
        equal = compute.fill_null(compute.equal(compute.utf8_trim_whitespace(column), name), False)
        same = equal if same is None else compute.and_(same, equal)
        if not compute.any(same).as_py():
            return table
    return table.filter(compute.invert(same))


def is_total(table: Any) -> bool:
    """Whether the last row adds up the others.

    Examples
    --------
    >>> import pyarrow
    >>> is_total(pyarrow.table({"a": [*range(1, 20), 190], "b": ["x"] * 19 + ["Total"]}))
    True
    """
    pyarrow, n = import_pyarrow(), table.num_rows
    if n < MIN_ROWS_OF_TOTAL:
        return False
    tried = added = 0
    for column in table.columns:
        if pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type):
            last = column[n - 1].as_py()
            if last is None:
                continue
            others = column.slice(0, n - 1).to_numpy()
            others = others[~np.isnan(others)]
            tried += 1
            # More than any other, so that it is not the only cell that is not zero.
            added += (
                len(others) > 1
                and others.max() < last
                and bool(np.isclose(last, others.sum(), rtol=1e-6))
            )
    return 0 < tried <= 2 * added


def apply_plan(column: Any, plan: Plan) -> Any:
    """An Arrow column as a plan reads it: texts become values, sentinels null.

    Examples
    --------
    >>> import pyarrow
    >>> cells = pyarrow.chunked_array([["1,5", "-9,0"]])
    >>> apply_plan(cells, Plan("number", ",", sentinels=(-9.0,))).to_pylist()
    [1.5, None]
    """
    types = import_pyarrow().types
    if not types.is_string(column.type):
        column = column.cast(import_pyarrow().float64())
        known = import_pyarrow().array(plan.sentinels, type=column.type)
        return _compute().if_else(_compute().is_in(column, value_set=known), None, column)
    one = _Column("", _compute().utf8_trim_whitespace(column), column)
    return one.raw if plan.kind == "category" else one.read(plan)


def blank_to_null(column: Any) -> Any:
    """Texts of nothing but blanks as null."""
    compute = _compute()
    blank = compute.equal(compute.utf8_trim_whitespace(column), "")
    if not compute.any(blank).as_py():
        return column
    return compute.if_else(blank, None, column)


def _compute() -> Any:
    import_pyarrow()
    from pyarrow import compute

    return compute


def _opened(name: str, column: Any, overrides: Overrides) -> _Column:
    compute = _compute()
    raw = blank_to_null(column)
    if overrides.na:
        trimmed = compute.utf8_trim_whitespace(raw)
        said = import_pyarrow().array(list(overrides.na))
        raw = compute.if_else(compute.is_in(trimmed, value_set=said), None, raw)
    blank = raw.null_count > column.null_count
    return _Column(name, compute.utf8_trim_whitespace(raw), raw, blank=blank)


def _read_plainly(one: _Column) -> None:
    """Let Arrow read a column, unless it holds codes."""
    pyarrow, compute = import_pyarrow(), _compute()
    texts = one.texts
    nothing = pyarrow.array(sorted(NOTHING))
    empty = compute.is_in(compute.utf8_lower(texts), value_set=nothing)
    said = one.blank or bool(compute.any(empty).as_py())
    one.bare = bare = compute.if_else(empty, None, texts) if said else texts
    if bare.null_count == len(bare):
        one.typed = pyarrow.nulls(len(bare), pyarrow.null()) if not said else None
        return
    number = _cast(bare, pyarrow.float64())
    if number is not None:
        if _holds_codes(one.name, bare) or _may_be_days(bare):
            return
        whole = None if said else _cast(bare, pyarrow.int64())
        one.typed = number if whole is None else whole
        # Later rows may say in words that there is nothing, too.
        if said:
            words = compute.unique(compute.filter(texts, compute.fill_null(empty, False)))
            found = sorted(set(words.to_pylist()) - {""})
            one.decision = Decision(Plan("number"), nothing=tuple(found[:5]))
        return
    if not said:
        one.typed = _read_booleans(texts) or next(
            (found for kind in _date_types() if (found := _cast(texts, kind)) is not None),
            None,
        )


def _date_types() -> Iterable[Any]:
    pyarrow = import_pyarrow()
    units = ("s", "us", "ns")
    return (
        pyarrow.date32(),
        *(pyarrow.timestamp(unit) for unit in units),
        *(pyarrow.timestamp(unit, tz="UTC") for unit in units),
    )


def _read_booleans(texts: Any) -> Any:
    compute = _compute()
    distinct = {text.lower() for text in compute.unique(texts.slice(0, 1000)).to_pylist() if text}
    if not distinct or not distinct <= _BOOLEANS:
        return None
    lower = compute.utf8_lower(texts)
    known = import_pyarrow().array(sorted(_BOOLEANS))
    if not compute.all(compute.is_in(lower.drop_null(), value_set=known)).as_py():
        return None
    return compute.equal(lower, "true")


def _cast(texts: Any, kind: Any) -> Any:
    try:
        return _compute().cast(texts, kind)
    except import_pyarrow().ArrowInvalid:
        return None


def _holds_codes(name: str, texts: Any) -> bool:
    """Whether plain numbers are codes: with zeros before them, too long, or by their name."""
    compute = _compute()
    if is_code_name(name):
        return bool(compute.all(compute.match_substring_regex(texts, r"^\+?\d+$")).as_py())
    padded = compute.match_substring_regex(texts, r"^0\d+$")
    if compute.any(padded).as_py():
        return True
    long = compute.match_substring_regex(texts, rf"^\d{{{MAX_DIGITS + 1},}}$")
    dialled = compute.match_substring_regex(texts, r"^\+\d{7,}$")
    return any(
        2 * (compute.sum(one).as_py() or 0) > len(texts) - texts.null_count
        for one in (long, dialled)
    )


def _may_be_days(texts: Any) -> bool:
    """Whether plain numbers are all dates such as 20240131."""
    compute = _compute()
    return bool(compute.all(compute.match_substring_regex(texts, _DAYS)).as_py())


def _decide_together(
    rest: Sequence[_Column], columns: Sequence[_Column], overrides: Overrides
) -> None:
    """Decide each column alone, then those that allow two readings by what others say."""
    compute = _compute()
    said = Hint(overrides.decimal, overrides.dates)
    for one in rest:
        one.decide(said)
    pyarrow = import_pyarrow()
    points = [
        one
        for one in columns
        if one.typed is not None and pyarrow.types.is_floating(one.typed.type)
    ]
    # 1.234 may be a thousand and more; 12.5 is not.
    grouped = [
        one
        for one in points
        if compute.all(compute.match_substring_regex(one.bare, _GROUPED)).as_py()
    ]
    found = [one.decision for one in rest if one.decision is not None]
    hint = hint_of(found, points=len(points) > len(grouped))
    hint = Hint(overrides.decimal or hint.decimal, overrides.dates or hint.order)
    for one in rest:
        if one.decision is not None and one.decision.ambiguous:
            one.decide(hint)
    for one in grouped if hint.decimal != "." else ():
        one.typed = None
        one.decide(hint)
    for one in columns:
        asked = overrides.types.get(one.name)
        if asked is not None:
            _read_as(one, asked, hint)


def _read_as(one: _Column, asked: str, hint: Hint) -> None:
    """Read a column as what the user says it is."""
    kind = {"time": "duration"}.get(asked, asked)
    plan = None if one.decision is None else one.decision.plan
    if one.typed is not None and plan is None:
        typed = import_pyarrow().types
        fits = typed.is_temporal(one.typed.type) == (kind == "date")
        if fits:
            return
        one.typed = None
    if plan is None or plan.kind != kind:
        plan = {
            "number": Plan("number", hint.decimal or ".", "." if hint.decimal == "," else ","),
            "date": Plan("date", order=hint.order or "dmy"),
            "duration": Plan("duration"),
        }[kind]
        one.typed = None
    one.split()
    values = plan.read(one.distinct)
    lost = np.isnat(values) if kind == "date" else np.isnan(values)
    if len(lost) and lost.all():
        raise TableFileError(
            f"Column {one.name!r} must hold a {asked}, as type={one.name}={asked} says; it holds "
            f"{one.distinct[0]!r}. Leave the option out."
        )
    named = [text for text, gone in zip(one.distinct, lost, strict=True) if gone]
    named = [text for text in named if text.lower() not in NOTHING]
    assert one.counts is not None
    example = next(text for text, gone in zip(one.distinct, lost, strict=True) if not gone)
    one.decision = Decision(plan, "", tuple(named[:5]), int(one.counts[lost].sum()), example)


def _drop_sentinels(columns: Sequence[_Column], overrides: Overrides) -> None:
    """Find numbers that stand for no value, first those that are sure, then the same elsewhere."""
    pyarrow = import_pyarrow()
    values: dict[int, np.ndarray] = {}
    for place, one in enumerate(columns):
        plan = None if one.decision is None else one.decision.plan
        if one.name in overrides.types:
            continue
        if one.typed is not None and pyarrow.types.is_floating(
            one.typed.type
        ) | pyarrow.types.is_integer(one.typed.type):
            values[place] = one.typed.cast(pyarrow.float64()).to_numpy()
        elif one.typed is None and plan is not None and plan.kind == "number":
            values[place] = one.read(plan).to_numpy(zero_copy_only=False)
    known: set[float] = set()
    for _ in range(2):
        for place, cells in values.items():
            found = find_sentinels(cells, sorted(known))
            known |= set(found)
            if found:
                one = columns[place]
                old = one.decision or Decision(Plan("number", reads_text=False))
                assert old.plan is not None
                one.decision = replace(old, plan=replace(old.plan, sentinels=found))


def _finished(one: _Column, overrides: Overrides) -> tuple[Any, Decision | None]:
    """The cells of a column, and how they were read."""
    compute, decision = _compute(), one.decision
    plan = None if decision is None else decision.plan
    if overrides.na:
        plan = plan or _plan_of(one)
        plan = None if plan is None else replace(plan, missing=overrides.na)
        decision = replace(decision or Decision(), plan=plan)
    if one.typed is None:
        # A column read as text keeps its cells as they are.
        found = one.raw if plan is None or plan.kind == "category" else one.read(plan)
    else:
        found = one.typed
        if plan is not None and plan.sentinels:
            known = import_pyarrow().array(plan.sentinels, type=import_pyarrow().float64())
            gone = compute.is_in(found.cast(import_pyarrow().float64()), value_set=known)
            found = compute.if_else(gone, None, found)
        if plan is None:
            # Arrow read it, so there is nothing to know.
            return found, None
    return found, decision or Decision()


def _plan_of(one: _Column) -> Plan | None:
    """A plan for a column that needs none but for what the user says is no value."""
    types = import_pyarrow().types
    if one.typed is None:
        return Plan("category")
    if types.is_floating(one.typed.type) or types.is_integer(one.typed.type):
        return Plan("number")
    return None
