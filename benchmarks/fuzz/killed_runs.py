"""What is killed: small runs of every kind that resumes, each a second or three when unbroken.

Processes that a run starts are forked from it: importing would take longer than the run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import nrs
from benchmarks.fuzz.command_files import POINTS, VISION
from nrs._util.atomic import atomic_write
from nrs.cli.main import main
from nrs.datasets import save_npz
from nrs.paper import runner
from nrs.paper.tiny_sets import write_pictures
from nrs.tabular.forest import workers as forest_workers

# Where each run keeps what it resumes from, and what it makes.
CHECKPOINT, MODEL = "run", "model.safetensors"


def write_inputs(folder: Path) -> None:
    """Write what the runs read."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(_features(rng, 1200), columns=list("abcdef"))
    frame["kind"] = rng.choice(["red", "green", "blue"], len(frame))
    frame["y"] = np.where(frame.a * frame.b + (frame.kind == "red") > 0, "yes", "no")
    frame.to_csv(folder / "table.csv", index=False)
    rows = folder / "rows"
    rows.mkdir()
    for part in range(4):
        frame[part::4].to_parquet(rows / f"{part}.parquet", index=False, row_group_size=100)
    write_pictures("folder", folder / "pictures")
    clouds = rng.normal(size=(48, 40, 3)).astype(np.float32)
    labels = np.array(["ball", "stick"])[np.arange(48) % 2]
    parts = {"X_train": clouds[:32], "y_train": labels[:32], "X_test": clouds[32:]}
    save_npz(folder / "shapes.npz", parts | {"y_test": labels[32:]})
    (folder / "vision.toml").write_text(VISION.format(root=folder / "pictures"))
    (folder / "points.toml").write_text(POINTS.format(source=folder / "shapes.npz"))


def fit() -> None:
    """Fit a forest or a single network to a table in memory."""
    seed = _seed()
    X, y = _table(1000)
    if seed % 2:
        single = nrs.NRSClassifier(preset="single", epochs=60, random_state=seed)
        single.set_params(checkpoint=CHECKPOINT).fit(X, y > 0).save(MODEL)
    else:
        forest = nrs.NRSRegressor(preset="fast", epochs=40, random_state=seed)
        forest.set_params(checkpoint=CHECKPOINT).fit(X, y).save(MODEL)


def stream() -> None:
    """Fit a forest to a table that is streamed from files."""
    table = nrs.Table(sys.argv[1], target="y")
    model = nrs.NRSClassifier(preset="fast", epochs=10, checkpoint=CHECKPOINT, random_state=_seed())
    model.fit(table).save(MODEL)


def workers() -> None:
    """Fit a forest in two processes."""
    forest_workers.launch = Forked  # type: ignore[assignment]
    seed = _seed()
    X, y = _table(1000)
    model = nrs.NRSClassifier(
        preset="fast", epochs=40, checkpoint=CHECKPOINT, random_state=seed, n_workers=2,
        divide=("members", "rows")[seed % 2],
    )  # fmt: skip
    model.fit(X, y > 0).save(MODEL)


def ranker() -> None:
    """Fit a ranker."""
    seed = _seed()
    X, y = _table(960)
    grades, queries = np.digitize(y, [0, 1, 2]), np.repeat(np.arange(len(y) // 8), 8)
    preset = ("single", "fast")[seed % 2]
    model = nrs.NRSRanker(preset=preset, epochs=20, checkpoint=CHECKPOINT, random_state=seed)
    model.fit(X, grades, qid=queries).save(MODEL)


def tune() -> None:
    """Search settings; the trials are in a file."""
    seed = _seed()
    X, y = _table(300)
    model = nrs.NRSClassifier(preset="fast", epochs=6, random_state=seed)
    found = nrs.tune(model, X, y > 0, n_trials=8, storage=f"{CHECKPOINT}.log", verbose=0)
    facts = {
        "best": found.best_params_,
        "score": found.best_score_,
        "default": found.default_score_,
        "trials": found.trials_,
    }
    found.best_estimator_.save(MODEL)
    with atomic_write("found.json") as file:
        file.write(json.dumps(facts).encode())


def paper() -> None:
    """Measure cells of a table of the paper, in other processes."""
    runner.launch = Forked  # type: ignore[assignment]
    main()


class Forked:
    """Stands for the process that `nrs._util.launch.launch` starts."""

    def __init__(
        self, code: str, *arguments: Any, stdout: int = subprocess.DEVNULL,
        stderr: Path | None = None, environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        reading, ours = os.pipe()
        answers, writing = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            if stderr is not None:
                os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
            os.dup2(reading, 0)
            os.dup2(writing, 1)
            # As after exec: no lock or pipe of the parent, no handler of signals.
            os.closerange(3, 4096)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _be(code, [str(argument) for argument in arguments], environment or {})
        os.close(reading)
        os.close(writing)
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(answers, "rb")

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """Wait for its end."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked process", timeout)
            time.sleep(0.005)
        return code

    def kill(self) -> None:
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)


def _be(code: str, arguments: list[str], environment: Mapping[str, str]) -> None:
    """Run the code, and end."""
    ended = 1
    try:
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, "w" if number else "r", closefd=False) for number in range(3)
        )
        sys.argv = ["-c", *arguments]
        exec(code, {"__name__": "__main__"})
        ended = 0
    finally:
        os._exit(ended)


def _seed() -> int:
    return int(sys.argv[-1])


def _features(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(n, 6)).round(3)


def _table(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = _features(rng, n)
    return X, X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
