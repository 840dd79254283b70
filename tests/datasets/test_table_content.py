"""What is within a file: zips, workbooks, JSON arrays, encodings and separators."""

import io
import json
import zipfile
from datetime import datetime

import pytest

from nrs.datasets.table_content import unpack
from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import column_names, read_table_file, stream_table_file
from nrs.datasets.table_layout import find_separator

ROWS = [{"rooms": 2, "district": "north"}, {"rooms": None, "district": "south"}]
TEXT = "rooms,district\n2,north\n,south\n"


def _zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def _read_both(path):
    (chunk,) = stream_table_file(path, {"rooms": "number", "district": "category"})
    assert chunk.to_pylist() == ROWS
    assert column_names(path) == ["rooms", "district"]
    return read_table_file(path).to_pylist()


def test_a_zip_with_one_table_is_that_table(tmp_path):
    members = {"__MACOSX/._a.csv": "x", "folder/": "", "folder/a.csv": TEXT, "README.txt": "hi"}
    assert _read_both(_zip(tmp_path / "a.zip", members)) == ROWS
    with pytest.raises(TableFileError, match=r"must hold one table; it holds a\.csv, b\.csv"):
        read_table_file(_zip(tmp_path / "b.zip", {"a.csv": TEXT, "b.csv": TEXT}))


def test_a_zip_expands_within_bounds(tmp_path):
    path = _zip(tmp_path / "a.zip", {"a.csv": "a\n" + "1\n" * 1000})
    with pytest.raises(TableFileError, match="expands to more than 100 bytes"):
        unpack(path.read_bytes(), "a.zip", None, 100)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_a_table(indent, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("\ufeff" + json.dumps(ROWS, indent=indent))
    assert _read_both(path) == ROWS
    path.write_text('[{"a": 1}, {"a": "1,5"}, {"a": null}]')
    assert read_table_file(path)["a"].to_pylist() == [1.0, 1.5, None]
    path.write_text("[" * 5000 + "]" * 5000)
    with pytest.raises(TableFileError):
        read_table_file(path)


def test_a_sheet_of_a_workbook_is_a_table(tmp_path):
    pytest.importorskip("python_calamine")
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "notes"
    sheet = book.create_sheet("flats")
    for row in (["rooms", "sold", "zip"], [2, datetime(2024, 1, 31, 12), "01234"], [3, None, "1"]):
        sheet.append(row)
    path = tmp_path / "a.xlsx"
    book.save(path)
    table = read_table_file(path, sheet="flats")
    assert table["rooms"].to_pylist() == [2, 3]
    assert table["sold"].to_pylist() == [datetime(2024, 1, 31, 12), None]
    assert table["zip"].to_pylist() == ["01234", "1"]
    with pytest.raises(TableFileError, match="its sheets are notes, flats"):
        read_table_file(path, sheet="rooms")
    csv_path = tmp_path / "a.csv"
    csv_path.write_text(TEXT)
    with pytest.raises(TableFileError, match="must be a workbook to have a sheet"):
        read_table_file(csv_path, sheet="flats")


@pytest.mark.parametrize("separator", list(",\t;|:^~ "))
def test_any_separator_is_found(separator, tmp_path):
    names, rows = ["size", "kind", "price"], [["2.5", "a-b", str(k)] for k in range(30)]
    text = "\n".join(separator.join(row) for row in [names, *rows])
    assert find_separator(text) == separator
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert read_table_file(path).column_names == names


def test_one_column_needs_no_separator(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("price\n1\n2\n")
    assert read_table_file(path).to_pylist() == [{"price": 1}, {"price": 2}]


def test_a_table_streams_from_a_pipe_in_its_encoding(monkeypatch):
    import sys

    content = ("größe;n\n" + "".join(f"ä{k};{k}\n" for k in range(200))).encode("cp1252")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    (chunk,) = stream_table_file("-", {"größe": "category"})
    assert chunk["größe"][0].as_py() == "ä0"
