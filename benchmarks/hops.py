"""How far a reader of a fit has to walk: files, functions and hops between files.

    python -m benchmarks.hops

A hop is a call from a function of one file of the package to a function of another; the same pair
counts once. The first fit of each kind warms up and is not counted.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np


def trace(
    run: Callable[[], Any], root: str
) -> tuple[set[CodeType], set[tuple[CodeType, CodeType]]]:
    """Functions below a folder that a call reaches, and the calls between its files."""
    functions: set[CodeType] = set()
    hops: set[tuple[CodeType, CodeType]] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(root):
            return
        functions.add(code)
        caller = frame.f_back.f_code if frame.f_back else code
        if caller.co_filename.startswith(root) and caller.co_filename != code.co_filename:
            hops.add((caller, code))

    run()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return functions, hops


def fits(folder: Path) -> dict[str, tuple[Callable[[], Any], str]]:
    """The fits that are traced, and the package of each."""
    import pyarrow
    import sklearn
    from pyarrow import parquet
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import HistGradientBoostingClassifier

    import nrs

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :8].copy()
    X["kind"] = np.where(X.iloc[:, 0] > 14, "a", "b")
    path = folder / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pandas(X.assign(answer=y)), path, row_group_size=100)
    settings = {"epochs": 2, "random_state": 0, "verbose": 0}
    ours, theirs = (os.path.dirname(package.__file__) for package in (nrs, sklearn))
    table, classifier = nrs.Table(path, target="answer"), nrs.NRSClassifier
    return {
        "fit of a frame": (lambda: classifier(**settings).fit(X, y), ours),
        "fit of nrs.Table": (lambda: classifier(**settings).fit(table), ours),
        "scikit-learn's HistGradientBoosting": (
            lambda: HistGradientBoostingClassifier(max_iter=2).fit(X.drop(columns="kind"), y),
            theirs,
        ),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, (run, root) in fits(Path(folder)).items():
            functions, hops = trace(run, root)
            files = {code.co_filename for code in functions}
            print(f"{name}: {len(files)} files, {len(functions)} functions, {len(hops)} hops")
            if "--list" in sys.argv:
                pairs = Counter(
                    tuple(os.path.relpath(code.co_filename, root) for code in hop) for hop in hops
                )
                for (caller, called), count in sorted(pairs.items()):
                    print(f"  {count:3d}  {caller} -> {called}")


if __name__ == "__main__":
    main()
