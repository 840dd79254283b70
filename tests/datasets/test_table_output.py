"""Texts of a CSV file that a spreadsheet would run get a quote; everything else stays."""

import csv

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.datasets.table_files import read_table_file
from nrs.datasets.table_output import quote_formula, write_table_file

RISKY = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "+49 170 1"]
HARMLESS = ["a=b", "-2", "+3.5", "-.5e-3", "1e5", "", "'=1", " =1", "é", "1."]


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "dictionary"])
def test_texts_are_quoted_and_the_rest_stays(tmp_path, kind):
    texts = pyarrow.array([*RISKY, *HARMLESS, None])
    column = texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)
    numbers = pyarrow.array([-1.5] * len(column))
    with write_table_file(tmp_path / "a.csv", safe_csv=True) as writer:
        writer.write(pyarrow.table({"=name": column, "number": numbers}))
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert names == ["'=name", "number"]
    assert [row[0] for row in rows] == [*(f"'{text}" for text in RISKY), *HARMLESS, ""]
    assert {row[1] for row in rows} == {"-1.5"}


def test_without_the_option_nothing_changes(tmp_path):
    with write_table_file(tmp_path / "a.csv") as writer:
        writer.write(pyarrow.table({"=name": ["=1+1"]}))
    assert (tmp_path / "a.csv").read_text() == "=name\n=1+1\n"


def test_other_formats_are_refused(tmp_path):
    writing = write_table_file(tmp_path / "a.parquet", safe_csv=True)
    with pytest.raises(ValueError, match=r"safe_csv needs a \.csv output"), writing:
        pass
    assert not (tmp_path / "a.parquet").exists()


@given(st.text())
def test_no_text_runs_and_numbers_stay(text):
    quoted = quote_formula(text)
    assert quoted in (text, f"'{text}")
    if quoted and quoted[0] in "=+-@\t\r\n":
        float(quoted)


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_names_with_another_separator_are_read_back(tmp_path, sign):
    table = pyarrow.table({"a": [1], f"x{sign}y{sign}z": [2], f"{sign}{sign}": [3]})
    with write_table_file(tmp_path / "a.csv") as writer:
        writer.write(table)
    assert read_table_file(tmp_path / "a.csv").equals(table)
