"""The task of a worker in a folder: rows as memory-mapped arrays, everything else as JSON.

Processes share one copy of the encoded rows, and nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nrs.datasets.large_table import Table
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.rows.memory import Rows
from nrs.tabular.rows.table_fit import RowEncoder, SampledRows


def write_task(folder: Path, model: Any, rows: Any, validation: Any, seed: int) -> None:
    """Write down a fit whose encoder, target and recipe are learned.

    Raises
    ------
    OSError
        If the folder has too little room for the encoded rows.
    ValueError
        If the rows are those of a table that another process cannot open.
    """
    import nrs

    recipe = model.recipe_.to_dict()
    if callable(model.recipe_.metric):
        # What the first process measures counts for all.
        recipe["metric"] = "default"
    known = (kind for kind in type(model).__mro__ if getattr(nrs, kind.__name__, None) is kind)
    facts: dict[str, Any] = {
        "estimator": next(known).__name__,
        "divide": model.divide,
        "n_jobs": model.n_jobs,
        "precision": model.precision,
        "checkpoint": None if model.checkpoint is None else os.fspath(model.checkpoint),
        "random_state": int(seed),
        "recipe": recipe,
        "encoder": model.encoder_.to_state(),
        "target": model.target_.state(),
        "seed": seed,
        "device": str(rows.device),
        "rows": _write_rows(folder / "rows", rows),
        "validation": None if validation is None else _write_rows(folder / "held", validation),
    }
    np.save(folder / "folds.npy", model._folds, allow_pickle=False)
    (folder / "task.json").write_text(json.dumps(facts))


def read_task(folder: Path) -> tuple[Any, Any, Any, int]:
    """The model to train, its training and held-out rows, and the seed, from :func:`write_task`."""
    import nrs

    facts = json.loads((folder / "task.json").read_text())
    cls = getattr(nrs, facts["estimator"])
    model = cls(
        divide=facts["divide"],
        n_jobs=facts["n_jobs"],
        precision=facts["precision"],
        checkpoint=facts["checkpoint"],
        random_state=facts["random_state"],
        verbose=0,
    )
    model.encoder_ = TableEncoder.from_state(facts["encoder"])
    model.target_ = cls._target_from_state(facts["target"])
    model._remember(cls._recipe_type.from_dict(facts["recipe"]))
    model._folds = np.load(folder / "folds.npy", allow_pickle=False)
    device = torch.device(facts["device"])
    rows = _read_rows(folder / "rows", facts["rows"], device, model)
    held = facts["validation"]
    validation = None if held is None else _read_rows(folder / "held", held, device, model)
    return model, rows, validation, facts["seed"]


def _write_rows(folder: Path, rows: Rows) -> dict[str, Any]:
    """Write the arrays of rows, to be mapped into memory: processes share one copy."""
    folder.mkdir()
    arrays = {"targets": rows.targets.numpy(), "index": rows.index.numpy()}
    facts: dict[str, Any] = {"shape": list(rows.features.shape)}
    if rows.weights is not None:
        arrays["weights"] = rows.weights.numpy()
    if rows.sparse:
        for part in ("data", "indices", "indptr"):
            arrays[part] = getattr(rows.features, part)
    else:
        arrays["features"] = rows.features.numpy()
    if isinstance(rows, SampledRows):
        arrays |= {f"quantiles-{k}": values for k, values in rows.quantiles.items()}
        if rows.encode.class_weights is not None:
            arrays["class_weights"] = rows.encode.class_weights
        facts["table"] = _table_facts(rows)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return facts | {"arrays": list(arrays)}


def _table_facts(rows: SampledRows) -> dict[str, Any]:
    """Where a worker finds the files of a table, and how it encodes their rows."""
    table, encode = rows.table, rows.encode
    if table.filesystem.type_name == "local":
        source: Any = [part.path for part in table.parts]
    elif table.source is not None:
        given = [table.source] if isinstance(table.source, (str, os.PathLike)) else table.source
        source = [os.fspath(one) for one in given]
    else:
        raise ValueError(
            "n_workers needs a Table of local files or of a URI, however: it has a filesystem of "
            "its own, which cannot be sent to another process; start the processes with torchrun"
        )
    return {
        "source": source,
        "target": table.target,
        "columns": table.columns,
        "n_rows": rows.n_rows,
        "n_folds": encode.n_folds,
        "seed": encode.seed,
    }


def _read_rows(folder: Path, facts: dict[str, Any], device: torch.device, model: Any) -> Rows:
    # Copy-on-write: torch refuses memory that it may not write to, and nothing is written.
    arrays = {
        name: np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False)
        for name in facts["arrays"]
    }
    if "features" in arrays:
        features: Any = np.asarray(arrays["features"])
    else:
        from scipy.sparse import csr_matrix

        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        features = csr_matrix(parts, shape=facts["shape"], copy=False)
    weights = arrays.get("weights")
    if "table" in facts:
        return _sampled_rows(facts["table"], arrays, device, model)
    return Rows(
        features,
        np.asarray(arrays["targets"]),
        None if weights is None else np.asarray(weights),
        np.asarray(arrays["index"]),
        device,
    )


def _sampled_rows(
    facts: dict[str, Any], arrays: dict[str, np.ndarray], device: torch.device, model: Any
) -> SampledRows:
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    encode = RowEncoder(
        model.encoder_,
        model.target_,
        facts["target"],
        facts["n_folds"],
        facts["seed"],
        plain.get("class_weights"),
    )
    start = "quantiles-"
    quantiles = {
        int(name.removeprefix(start)): values
        for name, values in plain.items()
        if name.startswith(start)
    }
    table = Table(facts["source"], facts["target"], facts["columns"])
    sample = plain["features"], plain["targets"], plain.get("weights")
    return SampledRows(table, encode, facts["n_rows"], quantiles, sample, device)
