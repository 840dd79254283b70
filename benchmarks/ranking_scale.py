"""What ranking costs at the size of MSLR-WEB10K: time and peak memory of one epoch on one core.

    NRS_DATA=… python -m benchmarks.ranking_scale --json results/ranking_scale.json

The queries of the MSLR sample (43 real ones, 136 features) are drawn with replacement until there
are 1.2 million documents. Repeated queries make the scores meaningless, so only cost is measured:
one epoch of `NRSRanker` with the paper's ranking function for each loss, and for comparison a
whole fit of LightGBM (LambdaMART, its default of 100 trees). Each fit has a process of its own
with one thread and the allocator as users have it; memory is the peak of the process, next to what
it had before the fit, which includes the table itself (0.65 GB).

With the real files, ``nrs paper run ranking --datasets MSLR-WEB10K`` measures scores.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import PLAIN, in_plain_process, provenance, table, write_json
from nrs.datasets import Dataset, load
from nrs.ranking.losses import LOSSES

SEED = 0
DOCUMENTS = 1_200_000


def bootstrap(data: Dataset, n_documents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole queries drawn with replacement, each draw a query of its own: X, y, qid."""
    assert data.qid_train is not None
    generator = np.random.default_rng(SEED)
    starts = np.flatnonzero(np.r_[True, np.diff(data.qid_train) != 0])
    ends = np.r_[starts[1:], len(data.qid_train)]
    drawn: list[np.ndarray] = []
    total = 0
    while total < n_documents:
        query = generator.integers(len(starts))
        drawn.append(np.arange(starts[query], ends[query]))
        total += len(drawn[-1])
    rows = np.concatenate(drawn)
    qid = np.repeat(np.arange(len(drawn)), [len(query) for query in drawn])
    return data.X_train[rows], data.y_train[rows], qid


def measure_fit(folder: str, method: str) -> dict[str, float]:
    """CPU and wall seconds, and peak MB before and after, of one fit."""
    X, y, qid = (np.load(Path(folder) / f"{name}.npy") for name in ("X", "y", "qid"))
    if method == "LightGBM":
        from lightgbm import LGBMRanker

        lengths = np.unique(qid, return_counts=True)[1]
        model = LGBMRanker(n_jobs=1, random_state=SEED, verbose=-1)
        arguments: dict[str, Any] = {"group": lengths}
    else:
        from nrs import NRSRanker

        model = NRSRanker(
            preset="paper", loss=method, epochs=1, n_jobs=1, random_state=SEED, verbose=0
        )
        arguments = {"qid": qid}
    before = _peak_mb()
    began = time.process_time(), time.perf_counter()
    model.fit(X, y, **arguments)
    cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    return {"cpu_s": cpu, "wall_s": wall, "before_mb": before, "peak_mb": _peak_mb()}


def measure_all(data: Dataset, n_documents: int) -> dict[str, Any]:
    """Every loss and LightGBM on the same bootstrapped table."""
    X, y, qid = bootstrap(data, n_documents)
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("X", X), ("y", y), ("qid", qid)):
            np.save(Path(folder) / f"{name}.npy", array)
        shape = {"documents": len(X), "queries": int(qid[-1]) + 1, "features": X.shape[1]}
        del X, y, qid
        methods = [*LOSSES, "LightGBM"]
        fits = {
            method: in_plain_process(measure_fit, folder=folder, method=method)
            for method in methods
        }
    return {"environment": PLAIN, "data": shape, "fits": fits}


def show(report: dict[str, Any]) -> str:
    """The report as a markdown table."""
    rows = [
        [
            method if method == "LightGBM" else f"NRS, {method}",
            found["cpu_s"], found["before_mb"], found["peak_mb"],
        ]
        for method, found in report["fits"].items()
    ]  # fmt: skip
    data = report["data"]
    head = f"{data['documents']:,} documents × {data['features']}, {data['queries']:,} queries"
    return f"**{head}**\n\n" + table(["fit", "CPU s", "MB before", "peak MB"], rows)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of ranking at the size of MSLR-WEB10K.")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--json", type=Path, help="write the report to this file")
    arguments = parser.parse_args()
    report = provenance(documents=arguments.documents, seed=SEED)
    report |= measure_all(load("MSLR-sample"), arguments.documents)
    print(show(report))
    if arguments.json is not None:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
