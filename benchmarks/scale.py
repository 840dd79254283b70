"""Rows a second and peak memory of a fit to Parquet files, in memory and streamed, by size.

    python -m benchmarks.scale --json results/scale.json

Tables of made-up numbers and categories (30 columns) in files of 100,000 rows, each the same for
all sides. Each measurement is a process of its own: from opening the files to a fitted model, one
thread, the same number of passes over the rows. Sides:

- *memory*: the files read by pyarrow, ``NRSClassifier.fit(X, y)``, with one process, and with two
  that share the members or the rows.
- *streamed*: ``NRSClassifier.fit(nrs.Table(...))``, likewise.
- *lightgbm*: its sequences over the files, which it bins while reading; 100 trees.
- *xgboost*: its external memory (an iterator over the files with a cache on disk); 100 trees.

A measurement that is in the report already is not repeated; the report is written after each.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, provenance, table, write_json

SIZES = (100_000, 1_000_000, 10_000_000)
SIDES = ("memory", "streamed", "lightgbm", "xgboost")
# Processes of an NRS fit, and what several of them share; the others are measured with one.
WORKERS = (1, 2)
DIVISIONS = ("members", "rows")
NUMBERS, CATEGORIES = 26, 4
FILE_ROWS = 100_000
# What must hold: streamed speed over speed in memory, MB, waiting, growth of ten times the rows.
TARGETS = {"speed": 0.8, "peak_mb": 1500.0, "waiting": 0.1, "growth": 11.5}
TREES = 100


def make_part(n: int, seed: int) -> Any:
    """A ``pyarrow.Table`` of numbers, categories of 4 to 32 levels, and a label ``y``."""
    import pyarrow

    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, NUMBERS)).astype(np.float32)
    columns: dict[str, Any] = {f"n{k}": numbers[:, k] for k in range(NUMBERS)}
    score = numbers[:, 0] * numbers[:, 1] + numbers[:, 2]
    for k in range(CATEGORIES):
        codes = rng.integers(0, 4 * 2**k, n)
        columns[f"c{k}"] = pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(codes.astype(np.int32)), [f"level {j}" for j in range(4 * 2**k)]
        ).cast(pyarrow.string())
        score = score + np.where(codes % 2 == 0, 0.5, -0.5)
    columns["y"] = (score + rng.normal(size=n) > 0).astype(np.int64)
    return pyarrow.table(columns)


def write_parts(folder: Path, n: int) -> None:
    """Write a table of n rows, unless it is there."""
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, n, FILE_ROWS)):
        path = folder / f"part-{number:05d}.parquet"
        if not path.exists():
            parquet.write_table(
                make_part(min(FILE_ROWS, n - start), number), path, row_group_size=FILE_ROWS // 2
            )


def fit_side(
    side: str, folder: str, epochs: int, workers: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Seconds, peak megabytes and what else is known of one fit, in this process."""
    begin, cpu = time.perf_counter(), time.process_time()
    found = globals()[f"_fit_{side}"](folder, epochs, workers, settings)
    wall = time.perf_counter() - begin
    own, helpers = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    # Of the largest process, and of all of them.
    peak = max(own.ru_maxrss, helpers.ru_maxrss) / 1024
    cpu = time.process_time() - cpu + helpers.ru_utime + helpers.ru_stime
    return {"wall": wall, "cpu": cpu, "peak_mb": peak, **found}


def _estimator(epochs: int, workers: int, settings: dict) -> Any:
    from nrs import NRSClassifier

    if workers > 1:
        settings = settings | {"n_workers": workers}
    return NRSClassifier(epochs=epochs, random_state=0, verbose=0, **settings)


def _fit_memory(folder: str, epochs: int, workers: int, settings: dict) -> dict[str, Any]:
    from pyarrow import parquet

    rows = parquet.read_table(folder)
    model = _estimator(epochs, workers, settings)
    model.fit(rows.drop_columns("y"), rows["y"].to_numpy())
    return {"oob": model.oob_score_, "train_seconds": sum(model.history_["seconds"])}


def _fit_streamed(folder: str, epochs: int, workers: int, settings: dict) -> dict[str, Any]:
    from nrs import Table

    model = _estimator(epochs, workers, settings).fit(Table(folder, target="y"))
    return {
        "oob": model.oob_score_,
        "train_seconds": sum(model.history_["seconds"]),
        "waiting": model.data_wait_,
    }


def _coded(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and category codes as float32, (n, 30), and labels: the trees' own encoding."""
    parts = [rows.column(f"n{k}").to_numpy() for k in range(NUMBERS)]
    for k in range(CATEGORIES):
        texts = rows.column(f"c{k}").combine_chunks().dictionary_encode()
        codes = np.array([int(text.split()[1]) for text in texts.dictionary.to_pylist()])
        parts.append(codes[texts.indices.to_numpy()])
    return np.column_stack(parts).astype(np.float32), rows.column("y").to_numpy()


def _fit_lightgbm(folder: str, epochs: int, workers: int, settings: dict) -> dict[str, Any]:
    import lightgbm
    from pyarrow import parquet

    class Part(lightgbm.Sequence):
        batch_size = 65536

        def __init__(self, path: Path) -> None:
            self.path, self.rows = path, parquet.ParquetFile(path).metadata.num_rows

        def __len__(self) -> int:
            return self.rows

        def __getitem__(self, index: Any) -> Any:
            if Part.held is not self:
                Part.held = self
                Part.content = _coded(parquet.read_table(self.path))[0].astype(np.float64)
            return Part.content[index]

        # Only one part is in memory.
        held: Any = None
        content: Any = None

    paths = sorted(Path(folder).glob("*.parquet"))
    labels = np.concatenate([parquet.read_table(p, columns=["y"])["y"].to_numpy() for p in paths])
    data = lightgbm.Dataset([Part(path) for path in paths], label=labels, params={"max_bin": 255})
    parameters = {"objective": "binary", "num_threads": 1, "verbose": -1}
    model = lightgbm.train(parameters, data, num_boost_round=TREES)
    return {"trees": model.num_trees()}


def _fit_xgboost(folder: str, epochs: int, workers: int, settings: dict) -> dict[str, Any]:
    import xgboost
    from pyarrow import parquet

    paths = sorted(Path(folder).glob("*.parquet"))

    class Parts(xgboost.DataIter):
        def __init__(self, cache: str) -> None:
            self.at = 0
            super().__init__(cache_prefix=f"{cache}/cache")

        def next(self, input_data: Any) -> bool:
            if self.at == len(paths):
                return False
            data, label = _coded(parquet.read_table(paths[self.at]))
            input_data(data=data, label=label)
            self.at += 1
            return True

        def reset(self) -> None:
            self.at = 0

    with tempfile.TemporaryDirectory() as cache:
        data = xgboost.ExtMemQuantileDMatrix(Parts(cache), nthread=1)
        parameters = {"objective": "binary:logistic", "tree_method": "hist", "nthread": 1}
        model = xgboost.train(parameters, data, num_boost_round=TREES)
        trees = model.num_boosted_rounds()
        # Both hold files in the folder.
        del data, model
    return {"trees": trees}


def cases(
    sizes: tuple[int, ...], sides: tuple[str, ...], workers: tuple[int, ...]
) -> list[tuple[int, str, int, str]]:
    """Every (rows, side, number of processes, what they share) to measure."""
    return [
        (n, side, count, divide)
        for n in sizes
        for side in sides
        for count in (workers if side in ("memory", "streamed") else (1,))
        for divide in (DIVISIONS if count > 1 else ("",))
    ]


def run(
    sizes: tuple[int, ...],
    sides: tuple[str, ...],
    folder: Path,
    *,
    workers: tuple[int, ...] = WORKERS,
    epochs: int = 2,
    known: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    report: Any = None,
) -> dict[str, Any]:
    """Measure what is not known yet; `report` is called with all measurements after each."""
    found = dict(known or {})
    for n, side, count, divide in cases(sizes, sides, workers):
        name = f"{n} {side} {count} {divide}".rstrip()
        if name in found:
            continue
        parts = folder / f"rows-{n}"
        write_parts(parts, n)
        one = in_fresh_process(
            fit_side,
            side=side,
            folder=str(parts),
            epochs=epochs,
            workers=count,
            settings=(settings or {}) | ({"divide": divide} if divide else {}),
        )
        passes = epochs if side in ("memory", "streamed") else 1
        found[name] = one | {
            "rows": n,
            "side": side,
            "workers": count,
            "divide": divide,
            "rows_per_second": n * passes / one["wall"],
        }
        if report is not None:
            report(found)
    return found


def judge(found: dict[str, Any]) -> dict[str, float]:
    """The numbers that the targets speak of, where they were measured."""
    judged: dict[str, float] = {}
    largest = max((one["rows"] for one in found.values()), default=0)
    for n in sorted({one["rows"] for one in found.values()}):
        memory, streamed = (found.get(f"{n} {side} 1") for side in ("memory", "streamed"))
        if memory and streamed:
            judged[f"speed at {n}"] = streamed["rows_per_second"] / memory["rows_per_second"]
        if streamed:
            judged[f"waiting at {n}"] = streamed["waiting"]
        before = found.get(f"{n // 10} streamed 1")
        if streamed and before:
            judged[f"growth to {n}"] = streamed["wall"] / before["wall"]
        if streamed and n == largest:
            judged["peak_mb"] = streamed["peak_mb"]
    for name, several in found.items():
        alone = found.get(f"{several['rows']} {several['side']} 1")
        if alone and several["workers"] > 1:
            judged[f"times as fast: {name}"] = alone["wall"] / several["wall"]
    return judged


def tables(found: dict[str, Any], judged: dict[str, float]) -> str:
    """The report for people."""
    rows = [
        [f"{one['rows']:,}", f"{one['side']}, {one['workers']} {one.get('divide', '')}".rstrip(),
         one["wall"], one["cpu"],
         one["peak_mb"], f"{one['rows_per_second']:,.0f}", one.get("waiting")]
        for one in found.values()
    ]  # fmt: skip
    heads = ["rows", "side, processes", "wall s", "cpu s", "peak MB", "rows/s", "waiting"]
    lines = [f"{name}: {value:.3g}" for name, value in judged.items()]
    return "\n".join([table(heads, rows), "", *lines])


def main() -> None:
    """Measure, print, and write the report if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="PATH", help="write the report here, and go on from it")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS, help="processes of NRS")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the rows, of NRS")
    parser.add_argument("--folder", help="where the files are made; else a temporary folder")
    arguments = parser.parse_args()
    origin = provenance(epochs=arguments.epochs, file_rows=FILE_ROWS, targets=TARGETS)
    for package in ("pyarrow", "lightgbm", "xgboost-cpu", "xgboost"):
        try:
            origin["versions"][package] = version(package)
        except PackageNotFoundError:
            continue
    path = Path(arguments.json) if arguments.json else None
    known = {}
    if path is not None and path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))["measured"]

    def keep(found: dict[str, Any]) -> None:
        if path is not None:
            write_json(path, origin | {"measured": found, "judged": judge(found)})

    with tempfile.TemporaryDirectory() as temporary:
        found = run(
            tuple(arguments.sizes),
            tuple(arguments.sides),
            Path(arguments.folder or temporary),
            workers=tuple(arguments.workers),
            epochs=arguments.epochs,
            known=known,
            report=keep,
        )
    keep(found)
    print(tables(found, judge(found)))


if __name__ == "__main__":
    main()
