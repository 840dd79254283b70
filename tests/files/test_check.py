"""What is said of a table before a fit: each planted defect is found, nothing in a clean one."""

import re

import numpy as np
import pyarrow as pa
import pytest

from nrs.files.check import check_labelled, check_table
from nrs.files.read import read_labelled

N = 400


def _clean(seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=N), rng.normal(size=N)
    kind = rng.choice(["a", "b", "c"], N)
    columns = {
        "x": x,
        "z": z.round(2),
        "age": rng.integers(18, 90, N),
        "kind": kind,
        "note": [f"{k} remarks on the garden and its {k} trees and birds" for k in range(N)],
    }
    return columns, (x + (kind == "a") + rng.normal(0, 0.5, N) > 0).astype(int)


def _found(columns, y=None, task="classification"):
    findings = check_table(pa.table(columns), y, task=task, target="y")
    # Advice can be copied as it is.
    assert not any(re.search(r"\w=\S+\.$", one.text) for one in findings)
    return {(one.kind, one.column) for one in findings}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_a_clean_table(seed):
    columns, y = _clean(seed)
    assert _found(columns, y) == set()
    assert _found(columns, columns["x"] + columns["z"], "regression") == set()


IDS = {
    "text": [f"7590-{k:05}" for k in range(N)],
    "row": list(range(1, N + 1)),
    "shuffled": np.random.default_rng(0).permutation(N),
    "in order": np.cumsum(np.random.default_rng(0).integers(1, 90, N)),
    "customer_id": np.random.default_rng(0).choice(10**9, N, replace=False),
}


@pytest.mark.parametrize("name", IDS)
def test_ids_are_found(name):
    columns, y = _clean()
    assert _found(columns | {name: IDS[name]}, y) == {("id", name)}


@pytest.mark.parametrize("value", [7, "same", None])
def test_constants_are_found(value):
    columns, y = _clean()
    one = pa.array([value] * N, None if value is not None else pa.string())
    assert _found(columns | {"one": one}, y) == {("constant", "one")}


@pytest.mark.parametrize("n", [20, 200])
def test_repeated_rows_are_found(n):
    columns, y = _clean()
    rows = np.r_[0:N, 0:n]
    repeated = {name: np.asarray(cells)[rows] for name, cells in columns.items()}
    assert ("duplicates", None) in _found(repeated, y[rows])


def test_rows_that_are_the_same_by_chance_are_not():
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["a", "b", "c"], N) for name in "pqrs"}
    assert _found(columns, rng.integers(0, 2, N)) == set()
    # Nor where columns say the same.
    columns |= {f"{name}{name}": columns[name] for name in "pqr"}
    assert _found(columns, rng.integers(0, 2, N)) == set()


def test_repeated_rows_are_found_in_a_table_of_categories():
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["a", "b", "c"], N) for name in "abcdefghijklmnop"}
    rows = np.r_[0:N, 0:40]
    repeated = {name: cells[rows] for name, cells in columns.items()}
    assert _found(repeated, rng.integers(0, 2, N)[rows]) == {("duplicates", None)}


def test_a_column_that_gives_the_target_away_is_found():
    columns, y = _clean()
    leaks = {"label": np.where(y == 1, "gone", "here"), "number": y * 3.5}
    assert _found(columns | leaks, y) == {("leak", "label"), ("leak", "number")}
    price = np.exp(columns["x"])
    assert _found(columns, price, "regression") == {("leak", "x")}


def test_rare_classes_and_numbers_as_classes_are_found():
    columns, y = _clean()
    labels = np.where(np.arange(N) == 5, "once", np.where(y == 1, "yes", "no"))
    assert _found(columns, labels) == {("rare classes", "y")}
    prices = np.array([f"{k % 97},5" for k in range(N)])
    assert _found(columns, prices) == {("number as classes", "y")}


def test_mixed_units_are_found():
    columns, y = _clean()
    rng = np.random.default_rng(0)
    mixed = [
        f"{w} {u}" for w, u in zip(rng.integers(40, 200, N), ["kg", "lb"] * (N // 2), strict=True)
    ]
    assert _found(columns | {"weight": mixed}, y) == {("mixed units", "weight")}


def test_a_file_is_checked_as_it_is_read(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{k};{k % 7},5;x;{k % 2}\n" for k in range(60))
    path.write_text("nr;size;one;y\n" + rows)
    found = {(one.kind, one.column) for one in check_labelled(read_labelled(path, "y"))}
    assert found == {("id", "nr"), ("constant", "one")}
