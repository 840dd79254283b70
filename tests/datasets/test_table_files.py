"""Table files: every format gives the same table, whole and in chunks, from a file or a pipe."""

import bz2
import gzip
import io
import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import (
    column_names,
    read_table_file,
    stream_table_file,
)
from nrs.datasets.table_output import output_format, write_table_file

CONTENT = "rooms,district,sold\n2,north,2024-01-31\n,south,\n3,,2024-02-29\n"
KINDS = {"district": "category", "rooms": "number", "sold": "date"}
TABLE = pa.table({"rooms": [2, None, 3], "district": ["north", "south", None]})


def _as_file(folder, name):
    path = folder / name
    if name.endswith(".parquet"):
        parquet.write_table(TABLE, path)
    elif name.endswith(".feather"):
        feather.write_feather(TABLE, path)
    elif name.endswith(".jsonl"):
        path.write_text('{"rooms":2,"district":"north"}\n{"district":"south"}\n{"rooms":3}\n')
    else:
        text = CONTENT.replace(",", ";") if "semicolon" in name else CONTENT
        pack = {"gz": gzip.compress, "bz2": bz2.compress}.get(name.split(".")[-1], bytes)
        path.write_bytes(pack(text.encode("utf-8-sig" if "bom" in name else "utf-8")))
    return path


NAMES = [
    "a.csv", "semicolon.csv", "bom.csv", "a.csv.gz", "a.csv.bz2", "a.jsonl", "a.parquet",
    "a.feather",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_table(name, tmp_path):
    path = _as_file(tmp_path, name)
    assert read_table_file(path).select(TABLE.column_names).to_pylist() == TABLE.to_pylist()
    assert set(TABLE.column_names) <= set(column_names(path))
    kinds = {name: KINDS[name] for name in ("district", "rooms")}
    chunks = list(stream_table_file(path, kinds))
    assert chunks[0].column_names == ["district", "rooms"]
    assert pa.concat_tables(chunks).select(TABLE.column_names).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet"])
def test_a_pipe_is_read_once(name, tmp_path, monkeypatch):
    content = _as_file(tmp_path, name).read_bytes()

    class Pipe:
        buffer = io.BytesIO(content)

    for read in (
        lambda: read_table_file("-"),
        lambda: pa.concat_tables(stream_table_file("-", {"rooms": "number"}, also=["district"])),
    ):
        Pipe.buffer = io.BytesIO(content)
        monkeypatch.setattr(sys, "stdin", Pipe)
        assert read().select(TABLE.column_names).to_pylist() == TABLE.to_pylist()


@given(st.lists(st.integers(0, 99), min_size=1, max_size=300), st.integers(64, 2000))
@settings(max_examples=15)
def test_chunks_of_any_size_hold_all_rows_in_order(tmp_path_factory, values, chunk_bytes):
    path = tmp_path_factory.mktemp("chunks") / "a.csv"
    path.write_text("a,b\n" + "".join(f"{value},text\n" for value in values))
    chunks = list(stream_table_file(path, {"a": "number"}, chunk_bytes=chunk_bytes))
    assert [row["a"] for chunk in chunks for row in chunk.to_pylist()] == values
    assert all(chunk.num_rows for chunk in chunks)


def test_dates_keep_their_time_zone(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("at\n2024-01-31T12:00:00Z\n2024-01-31T12:00:00.25Z\n")
    (chunk,) = stream_table_file(path, {"at": "date"})
    assert chunk.column("at").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a,b\n" * 4000)[:40], "Check the file"),
        (b"PAR1 and nothing more", "Check the file"),
        (b'{"a": 1, "b":\n', "Check the file"),
        (b'{"a": [{"b": 1}]}\n' * 2, "Flatten it"),
    ],
    ids=["gzip", "parquet", "half a line", "nested"],
)
def test_damaged_files_are_refused(content, message, tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(TableFileError, match=message):
        read_table_file(path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    assert output_format("a.csv.zst") == ".csv"
    with pytest.raises(ValueError, match="must end with"):
        output_format("a.xlsx")
    for name in ("a.csv", "a.csv.zst", "a.parquet", "a.arrow", "a.jsonl"):
        with write_table_file(tmp_path / name) as writer:
            writer.write(TABLE)
            writer.write(TABLE)
        assert read_table_file(tmp_path / name).to_pylist() == 2 * TABLE.to_pylist()
    with pytest.raises(AttributeError), write_table_file(tmp_path / "b.csv") as writer:
        list(map(writer.write, [TABLE, None]))
    assert not list(tmp_path.glob("*b.csv*"))


def test_cells_that_need_quotes_have_them(tmp_path):
    table = pa.table({"a,b": ['say "yes"', "x,y", "plain"]})
    # A Parquet file may hold its texts as codes or bytes.
    column = table["a,b"]
    for cells in (column, column.dictionary_encode(), column.cast(pa.binary())):
        with write_table_file(tmp_path / "a.csv") as writer:
            writer.write(pa.table({"a,b": cells}))
        assert read_table_file(tmp_path / "a.csv").to_pylist() == table.to_pylist()


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_json_has_no_nan(name, tmp_path):
    with write_table_file(tmp_path / name) as writer:
        writer.write(pa.table({"a": [1.5, float("nan"), float("inf"), None]}))
    text = (tmp_path / name).read_text()
    assert [line.strip(",") for line in text.splitlines() if "a" in line] == [
        '{"a": 1.5}', '{"a": null}', '{"a": null}', '{"a": null}',
    ]  # fmt: skip


def test_blank_lines_before_the_names_do_not_hide_the_separator(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n\na;b\n1;2\n")
    assert read_table_file(path).to_pylist() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("piped", [False, True])
def test_times_of_day_are_the_same_whole_and_in_chunks(piped, tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("at,n\n08:00,1\n,2\n17:45,3\n")
    found = []
    for read in (
        read_table_file,
        lambda s: pa.concat_tables(stream_table_file(s, {"at": "category"})),
    ):
        if piped:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        found.append(read("-" if piped else path).column("at").to_pylist())
    whole, texts = found
    assert texts == ["08:00", None, "17:45"]
    hours = [None if time is None else time.total_seconds() / 3600 for time in whole]
    assert hours == [8, None, 17.75]


def test_numbers_of_json_lines_may_be_categories_or_handed_through(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 9007199254740993, "zip": 10115, "day": "2024-01-31"}\n' * 2)
    (chunk,) = stream_table_file(path, {"zip": "category"}, also=["id", "day"])
    row = {"zip": 10115, "id": 9007199254740993, "day": "2024-01-31"}
    assert chunk.to_pylist() == [row] * 2


def test_a_separator_within_a_quoted_name_is_none(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\ufeff"height, cm";"weight,\nkg";age\n1,5;2;3\n')
    names = ["height, cm", "weight, kg", "age"]
    assert read_table_file(path).column_names == column_names(path) == names


def test_a_closed_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TableFileError, match="Standard input is closed"):
        read_table_file("-")
