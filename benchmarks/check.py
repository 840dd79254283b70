"""False alarms of ``nrs check`` on real tables in which nothing was planted.

    NRS_DATA=<folder> python -m benchmarks.check --json results/check.json

Every table of ``<folder>/mixed`` is checked as a whole, with its target. All findings count as
false alarms, also those that are true of the table, such as rows that repeat others. Allowed are
alarms on one table in ten.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.measure import provenance, write_json
from benchmarks.mixed import CLASSES, NUMBERS
from nrs.datasets.folders import data_folders
from nrs.datasets.table_files import read_table_file
from nrs.files.check import check_table

ALLOWED = 0.1


def findings(name: str) -> list[dict[str, Any]]:
    """What is said of a table."""
    folders = [Path(folder) / "mixed" for folder in data_folders()]
    path = next(path for path in (one / f"{name}.parquet" for one in folders) if path.exists())
    table = read_table_file(path)
    task = "regression" if name in NUMBERS else "classification"
    truth = table.column("target").to_numpy()
    found = check_table(table.drop_columns(["target"]), truth, task=task, target="target")
    return [one.to_dict() for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    tables = [{"table": name, "findings": findings(name)} for name in (*CLASSES, *NUMBERS)]
    alarmed = [one["table"] for one in tables if one["findings"]]
    print(f"{len(alarmed)} of {len(tables)} tables: {', '.join(map(str, alarmed))}")
    if chosen.json:
        report = {"tables": tables, "alarms": len(alarmed)}
        write_json(chosen.json, provenance(allowed=ALLOWED) | report)


if __name__ == "__main__":
    main()
