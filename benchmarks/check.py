"""False alarms of ``nrs check`` on real tables, and planted defects that it finds.

    NRS_DATA=<folder> python -m benchmarks.check --json results/check.json

Every table of ``<folder>/mixed`` is checked as a whole, with its target. All findings count as
false alarms, also those that are true of the table, such as rows that repeat others; so does drift
between a random third of the rows and the others. Allowed are alarms on one table in ten. Then
each defect is planted into each table, and what is said of it beyond what was said before counts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.measure import provenance, table, write_json
from benchmarks.mixed import CLASSES, NUMBERS
from nrs.datasets.folders import data_folders
from nrs.datasets.table_files import read_table_file
from nrs.files.check import check_table
from nrs.files.read import find_readings
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.encode.encoder import TableEncoder

ALLOWED = 0.1
NEW = "planted"


def read(name: str) -> tuple[pa.Table, np.ndarray]:
    """The features of a table, and its target."""
    folders = [Path(folder) / "mixed" for folder in data_folders()]
    path = next(path for path in (one / f"{name}.parquet" for one in folders) if path.exists())
    found = read_table_file(path)
    return found.drop_columns(["target"]), found.column("target").to_numpy()


def findings(name: str, features: pa.Table, truth: np.ndarray) -> set[tuple[str, str | None]]:
    """What is said of a table: kinds, and columns."""
    task = "regression" if name in NUMBERS else "classification"
    found = check_table(features, truth, task=task, target="target")
    return {(one.kind, one.column) for one in found}


def drift(features: pa.Table, seed: int = 0, shift: str | None = None) -> set[str]:
    """Columns of which it is said that a random third of the rows differs from the others.

    With `shift` a column of numbers is moved by a standard deviation, one of texts to its first
    cell in all rows.
    """
    places = np.random.default_rng(seed).permutation(len(features))
    new, old = features.take(places[: len(places) // 3]), features.take(places[len(places) // 3 :])
    encoder, watch = TableEncoder().fit(old), Watch(drift=True)
    encoder.learn_profile(old)
    if shift is not None:
        cells = new.column(shift).to_pandas()
        if cells.dtype.kind in "iuf":
            moved: Any = cells + features.column(shift).to_pandas().std()
        else:
            moved = [features.column(shift)[0].as_py()] * len(new)
        index = new.column_names.index(shift)
        values = pa.array(moved, from_pandas=True)
        new = new.set_column(index, shift, values)
    encoder.transform(new, watch)
    return set(encoder.moved(watch))


def _with(features: pa.Table, cells: Any) -> pa.Table:
    return features.append_column(NEW, pa.array(cells))


def _rows(n: int) -> tuple[np.ndarray, np.random.Generator]:
    return np.arange(n), np.random.default_rng(0)


def _leak(truth: np.ndarray) -> np.ndarray:
    """The target in other words: on another scale, or as texts."""
    if truth.dtype.kind == "f":
        return np.exp(truth / np.abs(truth).max())
    return np.array([f"outcome {label}" for label in truth.tolist()])


# What a table looks like with a defect, and what should be said of it.
PLANTED: dict[str, tuple[Callable[[pa.Table, np.ndarray], pa.Table], tuple[str, str | None]]] = {
    "id of integers": (lambda x, y: _with(x, _rows(len(y))[1].permutation(len(y))), ("id", NEW)),
    "id of texts": (lambda x, y: _with(x, [f"7590-{k:06}" for k in range(len(y))]), ("id", NEW)),
    "constant": (lambda x, y: _with(x, [7] * len(y)), ("constant", NEW)),
    "leak": (lambda x, y: _with(x, _leak(y)), ("leak", NEW)),
    "mixed units": (
        lambda x, y: _with(
            x,
            [
                f"{weight} {'kg' if k % 3 else 'lb'}"
                for k, weight in enumerate(_rows(len(y))[1].integers(40, 900, len(y)))
            ],
        ),
        ("mixed units", NEW),
    ),
}  # fmt: skip


def finds_duplicates(name: str, features: pa.Table, truth: np.ndarray) -> bool:
    """Whether a tenth of the rows, repeated, is found."""
    rows = np.r_[: len(truth), : len(truth) // 10]
    return ("duplicates", None) in findings(name, features.take(rows), truth[rows])


def reads_commas(features: pa.Table) -> bool:
    """Whether numbers with a decimal comma, added to a table that becomes a file, are read so."""
    values = np.random.default_rng(0).normal(size=len(features)).round(3)
    texts = [f"{value:.3f}".replace(".", ",") for value in values.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        pyarrow.csv.write_csv(_with(features, texts), path)
        read = read_table_file(path)
        said = find_readings(read)
    right = np.allclose(read.column(NEW).to_numpy().astype(np.float64), values)
    return right and NEW in said and "decimal comma" in said[NEW].plan.words()


def planted(name: str, features: pa.Table, truth: np.ndarray) -> dict[str, bool]:
    """Which planted defects are found."""
    before = findings(name, features, truth)
    found = {
        defect: expected in findings(name, plant(features, truth), truth) - before
        for defect, (plant, expected) in PLANTED.items()
    }
    column = max(features.column_names, key=lambda one: len(features.column(one).unique()))
    return found | {
        "duplicates": finds_duplicates(name, features, truth),
        "decimal comma": reads_commas(features),
        "drift": column in drift(features, shift=column),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    tables = []
    for name in (*CLASSES, *NUMBERS):
        features, truth = read(name)
        one = {
            "table": name,
            "findings": sorted(map(list, findings(name, features, truth)), key=str),
            "drift": sorted(drift(features)),
            "planted": planted(name, features, truth),
        }
        tables.append(one)
        print(name, one["findings"], one["drift"], [k for k, v in one["planted"].items() if not v])
    alarmed = [one["table"] for one in tables if one["findings"] or one["drift"]]
    print(f"alarms on {len(alarmed)} of {len(tables)} tables: {', '.join(alarmed)}")
    found = {
        defect: sum(one["planted"][defect] for one in tables) for defect in tables[0]["planted"]
    }
    print(
        table(["planted", "found"], [[name, f"{n} of {len(tables)}"] for name, n in found.items()])
    )
    if chosen.json:
        report = {"tables": tables, "alarms": len(alarmed), "found": found}
        write_json(chosen.json, provenance(allowed=ALLOWED) | report)


if __name__ == "__main__":
    main()
