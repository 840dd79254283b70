"""Files as people have them: as they are, and after careful cleaning by hand.

    NRS_DATA=<folder> python -m benchmarks.messy --json results/messy.json

Each file of ``<folder>/messy`` is split 70/30 by the seed, record by record, and both parts are
written in the dialect of the original. *Raw* is ``nrs fit`` of the first part with no option but
the target, and ``predict_file`` of the second. *Cleaned* are the same rows after the functions
below, which say in pandas what a careful person does to each file, fitted with ``convert=False``.
Both are scored on the same rows by the cleaned target: R² of numbers, accuracy of classes. Allowed
is a raw score of at most 0.01 below the cleaned one, on average over the seeds.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from benchmarks.measure import provenance, table, write_json
from nrs import NRSClassifier, NRSRegressor
from nrs.datasets.folders import data_folders
from nrs.files.fit import fit_table
from nrs.files.read import read_labelled

ALLOWED = 0.01


@dataclass(frozen=True)
class File:
    """A file, its target, and how a careful person cleans its cells, all read as text."""

    name: str
    target: str
    clean: Callable[[pd.DataFrame], pd.DataFrame]
    separator: str = ","
    regression: bool = True


def clean_air(frame: pd.DataFrame) -> pd.DataFrame:
    """Decimal commas; −200 is missing; two empty columns; hours as numbers."""
    frame = frame.iloc[:, :15].copy()
    date = pd.to_datetime(frame.pop("Date"), format="%d/%m/%Y")
    hour = frame.pop("Time").str[:2].astype(float)
    numbers = frame.apply(lambda column: column.str.replace(",", ".").astype(float))
    return numbers.mask(numbers == -200).assign(date=date, hour=hour)


def clean_bengaluru(frame: pd.DataFrame) -> pd.DataFrame:
    """Ranges become their middle, areas in other units are missing, "3 BHK" is 3 rooms."""
    frame = frame.copy()
    ends = frame["total_sqft"].str.extract(r"^([\d.]+)(?: - ([\d.]+))?$").astype(float)
    frame["total_sqft"] = ends.mean(axis=1)
    frame["rooms"] = frame["size"].str.extract(r"^(\d+)")[0].astype(float)
    for name in ("bath", "balcony", "price"):
        frame[name] = frame[name].astype(float)
    return frame


def clean_seoul(frame: pd.DataFrame) -> pd.DataFrame:
    """Dates are day/month/year."""
    words = ["seasons", "holiday", "functioning_day"]
    numbers = frame.drop(columns=[*words, "date"]).astype(float)
    return numbers.assign(
        date=pd.to_datetime(frame["date"], format="%d/%m/%Y"), **frame[words].to_dict("series")
    )


def clean_penguins(frame: pd.DataFrame) -> pd.DataFrame:
    """NA is missing, eggs have dates, measures are numbers."""
    frame = frame.copy()
    frame["Date Egg"] = pd.to_datetime(frame["Date Egg"], format="%Y-%m-%d")
    for name in frame.columns[frame.columns.str.contains(r"\(mm|Mass|Delta|Number")]:
        frame[name] = pd.to_numeric(frame[name])
    return frame


def clean_telco(frame: pd.DataFrame) -> pd.DataFrame:
    """Blank charges are missing; the numbers of rows and customers say nothing."""
    frame = frame.drop(columns=["#", "customerID"])
    for name in ("SeniorCitizen", "tenure", "MonthlyCharges", "TotalCharges"):
        frame[name] = pd.to_numeric(frame[name].str.strip())
    return frame


def clean_salary(frame: pd.DataFrame) -> pd.DataFrame:
    """Decimal commas and words among years and euros; times of the answers."""
    frame = frame.copy()
    frame["Timestamp"] = pd.to_datetime(frame["Timestamp"], format="%d/%m/%Y %H:%M:%S")
    numbers = [
        name
        for name in frame
        if name == "Age" or any(part in name for part in ("years", "Years", "EUR", "vacation"))
    ]
    numbers += [name for name in frame if "Kurzarbeit" in name or "one year ago" in name]
    for name in dict.fromkeys(numbers):
        cells = frame[name].str.replace(",", ".").str.extract(r"^[<\s]*([\d.]+)")[0]
        frame[name] = pd.to_numeric(cells, errors="coerce")
    return frame


def clean_cars(frame: pd.DataFrame) -> pd.DataFrame:
    """Years are dates."""
    return frame.assign(Year=pd.to_datetime(frame["Year"]))


FILES = (
    File("AirQualityUCI.csv", "C6H6(GT)", clean_air, ";"),
    File("bengaluru.csv", "price", clean_bengaluru),
    File("seoul.csv", "rented_bike_count", clean_seoul),
    File("penguins-raw.csv", "Species", clean_penguins, regression=False),
    File("telco.csv", "Churn", clean_telco, regression=False),
    File("salary2020.csv", "Seniority level", clean_salary, regression=False),
    File("cars.json", "Miles_per_Gallon", clean_cars),
)


def find(name: str) -> Path:
    """A file of the folders in ``NRS_DATA``."""
    for folder in map(Path, data_folders()):
        if (folder / "messy" / name).exists():
            return folder / "messy" / name
    raise FileNotFoundError(f"messy/{name} is not in the folders of NRS_DATA")


def split(one: File, seed: int, folder: Path) -> tuple[list[Path], list[pd.DataFrame]]:
    """Both parts of a file, in its own dialect; and the same rows as texts, or as JSON has them."""
    path = find(one.name)
    if path.suffix == ".json":
        rows = json.loads(path.read_text())
        frames = [pd.DataFrame(part) for part in _cut(rows, one, seed)]
        paths = [folder / f"{k}.json" for k in range(2)]
        for part, frame_rows in zip(paths, _cut(rows, one, seed), strict=True):
            part.write_text(json.dumps(frame_rows))
        return paths, frames
    text = path.read_text(encoding="utf-8")
    records = list(csv.reader(io.StringIO(text), delimiter=one.separator))
    parts = _cut(records[1:], one, seed)
    paths, frames = [], []
    for k, part in enumerate(parts):
        with open(folder / f"{k}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=one.separator).writerows([records[0], *part])
        paths.append(folder / f"{k}.csv")
        frames.append(
            pd.read_csv(
                paths[-1], sep=one.separator, dtype=str, encoding="utf-8-sig",
                keep_default_na=True, skip_blank_lines=False,
            )
        )  # fmt: skip
    return paths, frames


def _cut(rows: list[Any], one: File, seed: int) -> list[list[Any]]:
    return list(train_test_split(rows, test_size=0.3, random_state=seed))


def scores(one: File, seed: int, preset: str) -> tuple[float, float]:
    """The scores of the raw file, and of the cleaned rows."""
    with tempfile.TemporaryDirectory() as name:
        paths, frames = split(one, seed, Path(name))
        known = read_labelled(paths[0], one.target)
        model = fit_table(known, seed=seed, preset=preset, verbose=0).model
        model.predict_file(paths[1], paths[1].with_suffix(".out.csv"))
        raw = pd.read_csv(paths[1].with_suffix(".out.csv"))["prediction"]
    target = one.target
    train, test = (one.clean(frame) for frame in frames)
    target = next(column for column in train if " ".join(column.split()) == target)
    kept = test[target].notna().to_numpy()
    rows, truth = train[train[target].notna()], test.loc[kept, target]
    kind = NRSRegressor if one.regression else NRSClassifier
    model = kind(preset=preset, random_state=seed, convert=False, verbose=0)
    model.fit(rows.drop(columns=target), rows[target])
    cleaned = model.predict(test.drop(columns=target)[kept])
    score = r2_score if one.regression else accuracy_score
    return float(score(truth, raw[kept])), float(score(truth, cleaned))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--files", nargs="*", default=[one.name for one in FILES])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows: list[list[Any]] = []
    for one in FILES:
        if one.name not in chosen.files:
            continue
        each = np.array([scores(one, seed, chosen.preset) for seed in range(chosen.seeds)])
        raw, cleaned = each.mean(0)
        metric = "R²" if one.regression else "accuracy"
        rows.append([one.name, metric, raw, cleaned, bool(raw >= cleaned - ALLOWED)])
        names = ["file", "score", "raw", "cleaned", "allowed"]
        print(table(names, rows[-1:]), flush=True)
        if chosen.json:
            settings = {"preset": chosen.preset, "seeds": chosen.seeds, "allowed": ALLOWED}
            report = {"files": [dict(zip(names, row, strict=True)) for row in rows]}
            write_json(chosen.json, provenance(**settings) | report)
    print(f"{sum(row[-1] for row in rows)} of {len(rows)} files within {ALLOWED}")


if __name__ == "__main__":
    main()
