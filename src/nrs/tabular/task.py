"""What a fit hands to its model, and to workers by a folder.

In a folder rows are memory-mapped arrays, of which processes share one copy, and everything else
is JSON: nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import csr_matrix

from nrs.datasets.large_table import Table
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.folds import Folds
from nrs.tabular.parameters import from_json, to_json
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows
from nrs.tabular.rows.table import StreamedRows, TableSource
from nrs.tabular.run import Run
from nrs.tabular.targets import Target, target_from_state, target_state

if TYPE_CHECKING:
    from nrs.tabular.types import Json

_SPARSE = ("data", "indices", "indptr")


@dataclass(frozen=True)
class Task:
    """One fit whose columns and labels are learned: what is left is to train a model.

    Attributes
    ----------
    held_out : Rows or None
        Rows that decide when to stop; None for out-of-bag rows.
    """

    rows: Rows
    held_out: Rows | None
    encoder: TableEncoder
    target: Target
    recipe: Recipe
    folds: Folds
    run: Run

    # The module whose `main` is what a worker does.
    worker: ClassVar[str] = "nrs.tabular.forest.workers"

    def write(self, folder: Path) -> None:
        """Write the task to a folder, from which workers :meth:`read` it.

        Raises
        ------
        OSError
            If the folder has too little room for the encoded rows.
        ValueError
            If the rows are those of a table that another process cannot open.
        """
        run, folds, held_out = self.run, self.folds, self.held_out
        target = target_state(self.target)
        if "name" in target:
            raise own_loss(target["name"])
        recipe = self.recipe.to_dict()
        if callable(self.recipe.metric):
            # What the first process measures counts for all.
            recipe["metric"] = "default"
        facts: Json = {
            "run": {
                "seed": run.seed,
                "divide": run.divide,
                # The first process looks at the clock; all must grow the same forest.
                "time_limit": run.time_limit,
                "n_jobs": run.n_jobs,
                "precision": run.precision,
                "checkpoint": None if run.checkpoint is None else os.fspath(run.checkpoint),
                "repeatable": run.repeatable,
            },
            "recipe": recipe,
            "encoder": self.encoder.to_state(),
            "target": target,
            "device": str(self.rows.device),
            "folds": [folds.n_folds, folds.seed, folds.keys is not None, folds.scorers],
            "cuts": None if folds.cuts is None else folds.cuts.tolist(),
            "rows": self.write_rows(folder / "rows", self.rows),
            "held_out": None,
        }
        if held_out is not None:
            facts["held_out"] = self.write_rows(folder / "held_out", held_out)
        (folder / "task.json").write_text(json.dumps(facts))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what :meth:`write` wrote."""
        facts = json.loads((folder / "task.json").read_text())
        device = torch.device(facts["device"])
        encoder = TableEncoder.from_state(facts["encoder"])
        target = cls.read_target(facts["target"])
        n_folds, seed, of_groups, scorers = facts["folds"]
        cuts = None if facts["cuts"] is None else np.array(facts["cuts"])
        folds = Folds(n_folds, seed, scorers=scorers, cuts=cuts)
        if "table" in facts["rows"]:
            source = _read_source(folder / "rows", facts["rows"])
            folds = replace(folds, keys=source.keys if of_groups else None)
            rows: Rows = source.rows(encoder, target, folds, device)[0]
        else:
            rows = cls.read_rows(folder / "rows", facts["rows"], device)
        held_out = facts["held_out"]
        if held_out is not None:
            held_out = cls.read_rows(folder / "held_out", held_out, device)
        run = Run(device=device, begin=time.monotonic(), **facts["run"])
        recipe = cls.read_recipe(facts["recipe"])
        return cls(rows, held_out, encoder, target, recipe, folds, run)

    # What a ranker's task does otherwise.

    read_target = staticmethod(target_from_state)
    read_recipe = staticmethod(Recipe.from_dict)

    @staticmethod
    def write_rows(folder: Path, rows: Rows) -> Json:
        """Write the arrays of rows, to be mapped into memory: processes share one copy."""
        folder.mkdir()
        if isinstance(rows, StreamedRows):
            facts, arrays = _table_facts(rows.encode.source)
            (folder / "counted").write_bytes(rows.encode.source.packed())
        else:
            facts = {"shape": list(rows.features.shape)}
            arrays = {"targets": rows.targets.numpy(), "index": rows.index.numpy()}
            for name in ("weights", "folds", "score_weights"):
                if getattr(rows, name) is not None:
                    arrays[name] = getattr(rows, name).numpy()
            if rows.sparse:
                arrays |= {part: getattr(rows.features, part) for part in _SPARSE}
            else:
                arrays["features"] = rows.features.numpy()
        return write_arrays(folder, facts, arrays)

    @staticmethod
    def read_rows(folder: Path, facts: Json, device: torch.device) -> Rows:
        """Read what :meth:`write_rows` wrote."""
        arrays = read_arrays(folder, facts)
        weights, folds, counted = map(arrays.get, ("weights", "folds", "score_weights"))
        features = read_features(arrays, facts)
        return Rows(features, arrays["targets"], weights, arrays["index"], device, folds, counted)


def own_loss(name: str) -> ValueError:
    """That workers do not know a loss."""
    return ValueError(
        f"n_workers needs a loss that is part of nrs; {name!r} cannot be sent to another process. "
        "Use n_workers=1, or start the processes with torchrun."
    )


def write_arrays(folder: Path, facts: Json, arrays: Mapping[str, np.ndarray]) -> Json:
    """Write arrays to a folder; returns the facts, with the names of all arrays there."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return facts | {"arrays": [*facts.get("arrays", ()), *arrays]}


def read_arrays(folder: Path, facts: Json) -> dict[str, np.ndarray]:
    """Map the arrays of a folder into memory."""
    # Copy-on-write: torch refuses memory that it may not write to, and nothing is written.
    return {
        name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))
        for name in facts["arrays"]
    }


def read_features(arrays: Mapping[str, np.ndarray], facts: Json) -> Any:
    """The encoded rows among arrays, dense or sparse."""
    features = arrays.get("features")
    if features is not None:
        return features
    parts = tuple(arrays[part] for part in _SPARSE)
    return csr_matrix(parts, shape=facts["shape"], copy=False)


def _table_facts(source: TableSource) -> tuple[Json, dict[str, np.ndarray]]:
    """Where a worker finds the files of a table, and its weights, groups or times."""
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
    by_row = {"weight": source.weight, "groups": source.groups, "time": source.time}
    by_row["offset"] = source.offset
    arrays = {name: value for name, value in by_row.items() if isinstance(value, np.ndarray)}
    facts = {
        "table": [files, table.target, table.columns],
        "class_weight": to_json(source.class_weight),
        # Names of columns, or None.
        **{name: value for name, value in by_row.items() if name not in arrays},
    }
    return facts, arrays


def _read_source(folder: Path, facts: Json) -> TableSource:
    given = facts | read_arrays(folder, facts)
    source = TableSource(
        Table(*facts["table"]),
        weight=given["weight"],
        groups=given["groups"],
        time=given["time"],
        class_weight=from_json(facts["class_weight"]),
        offset=given["offset"],
    )
    source.merge([(folder / "counted").read_bytes()])
    return source
