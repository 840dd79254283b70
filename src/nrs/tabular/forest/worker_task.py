"""The task of a worker in a folder: rows as memory-mapped arrays, everything else as JSON.

Processes share one copy of the encoded rows, and nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from nrs.datasets.large_table import Table
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.statistics import TableStatistics
from nrs.tabular.forest.folds import Folds
from nrs.tabular.parameters import from_json, to_json
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows
from nrs.tabular.rows.table import LabelStatistics, RowEncoder, StreamedRows, TableSource
from nrs.tabular.run import Run
from nrs.tabular.targets import Target, target_from_state

if TYPE_CHECKING:
    from nrs.tabular.types import Json

Task = tuple[Rows, "Rows | None", TableEncoder, Target, Recipe, "Folds | None", Run]
_SPARSE = ("data", "indices", "indptr")


def write_task(
    folder: Path,
    rows: Rows,
    held_out: Rows | None,
    encoder: TableEncoder,
    target: Target,
    recipe: Recipe,
    folds: Folds | None,
    run: Run,
) -> None:
    """Write down a fit whose encoder, target and recipe are learned.

    Raises
    ------
    OSError
        If the folder has too little room for the encoded rows.
    ValueError
        If the rows are those of a table that another process cannot open.
    """
    settings = recipe.to_dict()
    if callable(recipe.metric):
        # What the first process measures counts for all.
        settings["metric"] = "default"
    facts: Json = {
        "run": {
            "seed": run.seed,
            "divide": run.divide,
            "n_jobs": run.n_jobs,
            "precision": run.precision,
            "checkpoint": None if run.checkpoint is None else os.fspath(run.checkpoint),
            "repeatable": run.repeatable,
        },
        "recipe": settings,
        "encoder": encoder.to_state(),
        "target": target.state(),
        "device": str(rows.device),
        "folds": None if folds is None else [folds.n_folds, folds.seed, folds.keys is not None],
        "rows": _write_rows(folder / "rows", rows),
        "held_out": None if held_out is None else _write_rows(folder / "held_out", held_out),
    }
    (folder / "task.json").write_text(json.dumps(facts))


def read_task(folder: Path) -> Task:
    """What :func:`write_task` was called with."""
    facts = json.loads((folder / "task.json").read_text())
    device = torch.device(facts["device"])
    run = Run(device=device, begin=time.monotonic(), **facts["run"])
    encoder = TableEncoder.from_state(facts["encoder"])
    target = target_from_state(facts["target"])
    recipe = Recipe.from_dict(facts["recipe"])
    arrays = _read_arrays(folder / "rows", facts["rows"])
    folds = None
    if facts["folds"] is not None:
        n_folds, seed, of_groups = facts["folds"]
        folds = Folds(n_folds, seed, keys=arrays["keys"] if of_groups else None)
    if "table" in facts["rows"]:
        source = _read_source(facts["rows"]["table"], arrays)
        assert folds is not None
        encode = RowEncoder(source, encoder, target, folds)
        rows: Rows = StreamedRows(encode, source.n_rows, device)
    else:
        rows = _rows(arrays, facts["rows"], device)
    held_out = facts["held_out"]
    if held_out is not None:
        held_out = _rows(_read_arrays(folder / "held_out", held_out), held_out, device)
    return rows, held_out, encoder, target, recipe, folds, run


def _write_rows(folder: Path, rows: Rows) -> Json:
    """Write the arrays of rows, to be mapped into memory: processes share one copy."""
    folder.mkdir()
    facts: Json = {}
    arrays: dict[str, np.ndarray] = {}
    if isinstance(rows, StreamedRows):
        facts["table"], arrays = _table_facts(rows.encode.source, folder)
    else:
        facts["shape"] = list(rows.features.shape)
        arrays = {"targets": rows.targets.numpy(), "index": rows.index.numpy()}
        for name in ("weights", "folds", "score_weights"):
            if getattr(rows, name) is not None:
                arrays[name] = getattr(rows, name).numpy()
        if rows.sparse:
            arrays |= {part: getattr(rows.features, part) for part in _SPARSE}
        else:
            arrays["features"] = rows.features.numpy()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return facts | {"arrays": list(arrays)}


def _table_facts(source: TableSource, folder: Path) -> tuple[Json, dict[str, np.ndarray]]:
    """Where a worker finds the files of a table, and what has been counted of them."""
    from pyarrow import parquet

    table = source.table
    if table.filesystem.type_name == "local":
        files: Any = [part.path for part in table.parts]
    elif table.source is not None:
        given = [table.source] if isinstance(table.source, (str, os.PathLike)) else table.source
        files = [os.fspath(one) for one in given]
    else:
        raise ValueError(
            "n_workers needs a Table of local files or of a URI: this one has a filesystem of its "
            "own, which cannot be sent to another process. Start the processes with torchrun."
        )
    parquet.write_table(source.sample.rows, folder / "sample.parquet")
    arrays = {"places": source.sample.places}
    if source.keys is not None:
        arrays["keys"] = source.keys
    named: Json = {}
    for name in ("weight", "groups"):
        value = getattr(source, name)
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            named[name] = value
    facts = {
        "files": files,
        "target": table.target,
        "columns": table.columns,
        "statistics": source.statistics.state(),
        "labels": source.labels.state(),
        "class_weight": to_json(source.class_weight),
        "sample": str(folder / "sample.parquet"),
        **named,
    }
    return facts, arrays


def _read_source(facts: Json, arrays: dict[str, np.ndarray]) -> TableSource:
    from pyarrow import parquet

    table = Table(facts["files"], facts["target"], facts["columns"])
    weight, groups = (arrays.get(name, facts.get(name)) for name in ("weight", "groups"))
    class_weight = from_json(facts["class_weight"])
    source = TableSource(table, None, weight, groups, class_weight)
    source.statistics = TableStatistics.from_state(facts["statistics"])
    source.labels = LabelStatistics.from_state(facts["labels"])
    source.sample.join(parquet.read_table(facts["sample"]), arrays["places"])
    source.keys = arrays.get("keys")
    return source


def _read_arrays(folder: Path, facts: Json) -> dict[str, np.ndarray]:
    # Copy-on-write: torch refuses memory that it may not write to, and nothing is written.
    return {
        name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))
        for name in facts["arrays"]
    }


def _rows(arrays: dict[str, np.ndarray], facts: Json, device: torch.device) -> Rows:
    features: Any = arrays.get("features")
    if features is None:
        parts = tuple(arrays[part] for part in _SPARSE)
        features = csr_matrix(parts, shape=facts["shape"], copy=False)
    weights, folds, counted = map(arrays.get, ("weights", "folds", "score_weights"))
    return Rows(features, arrays["targets"], weights, arrays["index"], device, folds, counted)
