"""From clouds to a model in use: ModelNet10 by the four commands, and every encoder as ONNX.

    NRS_DATA=<folder> python -m benchmarks.clouds --run runs/modelnet10 --json results/clouds.json

`ModelNet10`: the recipe `pointnet-modelnet10` is trained into ``--run`` (or resumed there; a
finished run is taken as it is), then `nrs evaluate` scores it on the test clouds, `nrs export`
writes it, and the ONNX file answers the test clouds too. The ten real meshes of ModelNet-samples,
which are in .off files, are predicted by `nrs predict`; the clouds of the training come from
voxels of meshes.

Encoders: each of the five, of its published widths, takes a few steps on ModelNet10, is exported
for clouds of 1,024 points and answers test clouds in torch and in onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F

from benchmarks.measure import Planned, measure_cells, table
from nrs.datasets import get
from nrs.points.export import to_onnx
from nrs.points.predict import load_encoder
from nrs.points.registry import ENCODERS, create
from nrs.points.samples import CloudSamples
from nrs.points.sources import load_clouds

RECIPE, DATA = "pointnet-modelnet10", "ModelNet10-points"
POINTS, STEPS, BATCH, CHECKED = 1024, 8, 12, 16


def measure_run(run: str) -> dict[str, Any]:
    """Train by the recipe unless that is done, then evaluate, export and predict."""
    model = Path(run) / "model.safetensors"
    if not model.exists():
        _nrs("train", "points", "--config", RECIPE, "--output", run, "--set", "run.device=cpu")
    encoder, header = load_encoder(model)
    data = load_clouds(DATA)
    samples = CloudSamples(data.X_test, data.y_test.tolist(), points=header["points"])
    clouds = torch.stack([samples[place][0] for place in range(len(samples))])
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "modelnet10.npz"
        few = {"X_train": data.X_train[:10], "y_train": np.arange(10)}
        np.savez(arrays, **few, X_test=data.X_test, y_test=data.y_test)
        scores = json.loads(_nrs("evaluate", str(model), str(arrays), "--json"))
        onnx = Path(folder) / "model.onnx"
        _nrs("export", str(model), "-o", str(onnx))
        gap = _gap(onnx, encoder, clouds)
        answers = Path(folder) / "answers.json"
        with tempfile.TemporaryDirectory(dir=folder) as pictures:
            meshes = str(Path(get("ModelNet-samples")).resolve())
            _nrs("predict", str(model), meshes, "-o", str(answers), cwd=pictures)
        rows = json.loads(answers.read_text())
    named = [(Path(row["input"]).stem, row["top"][0]) for row in rows]
    return {
        "train": f"nrs train points --config {RECIPE} --output RUN --set run.device=cpu",
        "seed": header["config"]["run"]["seed"],
        "points": header["points"],
        "epochs": len(header["history"]["rows"]),
        "made": load_made(model),
        **{name: value for name, value in scores.items() if isinstance(value, float)},
        "test clouds": len(clouds),
        "largest difference of ONNX": gap,
        "meshes": {name: f"{top['label']} {top['probability']:.3f}" for name, top in named},
        "meshes right": sum(top["label"] == name.rpartition("_")[0] for name, top in named),
    }


def load_made(model: Path) -> dict[str, Any]:
    """Where a model file comes from."""
    from nrs.training import read_model

    return read_model(model).made


def measure_encoder(name: str) -> dict[str, Any]:
    """The largest difference between torch's and onnxruntime's probabilities of an encoder."""
    data = load_clouds(DATA)
    torch.manual_seed(0)
    model = create(name, 10, subspace={"n_mul": 1, "n_per": 32}, normals=False)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    order = np.random.default_rng(0).permutation(len(data.X_train))
    train = CloudSamples(data.X_train, data.y_train.tolist(), points=POINTS)
    for step in range(STEPS):
        some = [train[int(place)] for place in order[step * BATCH : (step + 1) * BATCH]]
        labels = torch.tensor([label for _, label in some])
        loss = F.cross_entropy(model(torch.stack([cloud for cloud, _ in some])), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    test = CloudSamples(data.X_test, data.y_test.tolist(), points=POINTS)
    places = np.random.default_rng(1).permutation(len(test))[:CHECKED]
    clouds = torch.stack([test[int(place)][0] for place in places])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(model, list(data.classes), POINTS, path)
        gap, size = _gap(path, model, clouds), path.stat().st_size
    return {"clouds": CHECKED, "bytes": size, "largest difference of ONNX": gap}


def _gap(path: Path, encoder: torch.nn.Module, clouds: torch.Tensor) -> float:
    session = onnxruntime.InferenceSession(path)
    largest = 0.0
    for part in clouds.split(8):
        (found,) = session.run(["probabilities"], {"clouds": part.numpy()})
        with torch.no_grad():
            expected = encoder(part).softmax(1).numpy()
        largest = max(largest, float(np.abs(found - expected).max()))
    return largest


def _nrs(*words: str, cwd: str | None = None) -> str:
    command = [sys.executable, "-m", "nrs", *words]
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def plan(run: str) -> Iterator[Planned]:
    """Every encoder, then the run."""
    for name in ENCODERS:
        yield {"encoder": name, "points": POINTS}, measure_encoder, {"name": name}
    yield {"data": DATA}, measure_run, {"run": str(Path(run).resolve())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", default="runs/modelnet10", help="folder of the training run")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    cells = measure_cells(chosen.json, plan(chosen.run), points=POINTS, steps=STEPS, seed=0)
    columns = ["largest difference of ONNX"]
    rows = [[cell.get("encoder", RECIPE), *(f"{cell[c]:.1e}" for c in columns)] for cell in cells]
    print(table(["model", *columns], rows))
    print(json.dumps(cells[-1], indent=1))


if __name__ == "__main__":
    main()
