"""Scores of a model on a labelled table file, for ``nrs evaluate``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nrs.datasets.convert import apply_plan
from nrs.datasets.reading import Plan
from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import stream_table_file
from nrs.files.scores import AnyScored, model_outputs, score_outputs
from nrs.files.targets import Task, encode_targets, labelled_rows, target_names, target_values
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.predict_file import Source, TargetColumns, input_columns, model_rows, offset_column

if TYPE_CHECKING:
    from nrs.tabular.types import TableModel


def evaluate_file(
    model: TableModel, source: Source, target: str | Sequence[str], *, encoding: str = "auto"
) -> tuple[AnyScored, int]:
    """Predict the rows of a labelled table and score the predictions.

    Several targets are named in the order of the fit. Gives also the number of rows without a
    value of a target, which were left out.

    Raises ValueError as :func:`nrs.tabular.predict_file.predict_chunks` does, or if no row has a
    value of the target, or none has a class that the model knows.
    """
    names, targets = _named_targets(model, target)
    classes = getattr(model, "classes_", None) if targets is None else None
    columns = input_columns(model, source, encoding, names)
    kinds = {
        name: _kind(targets.labels[place] if targets and targets.labels else classes)
        for place, name in enumerate(names)
    }
    known = (model.about_ or {}).get("target")
    fitted = [known] if isinstance(known, str) else known or []
    # A target is read as in the fit, whatever it is called here.
    reading = (model.about_ or {}).get("reading") or {}
    plans = {
        name: Plan.from_dict(reading[before])
        for name, before in zip(names, fitted, strict=False)
        if before in reading
    }
    kinds |= {name: "category" for name, plan in plans.items() if plan.reads_text}
    task: Task = "regression" if classes is None else "classification"
    truths, outputs, places, at, watch = [], [], [], 0, Watch()
    offset = offset_column(model)
    for chunk in stream_table_file(source, columns | offset | kinds, encoding=encoding):
        for name, plan in plans.items():
            place = chunk.column_names.index(name)
            chunk = chunk.set_column(place, name, apply_plan(chunk.column(name), plan))
        part, rows = labelled_rows(chunk, names)
        if len(rows):
            truths.append(
                target_values(part, names[0], task, classes)
                if targets is None
                else encode_targets(part, targets)
            )
            X = model_rows(model, part.select(list(columns)))
            added = [part.column(name) for name in offset]
            outputs.append(model_outputs(model, X, watch, added))
            places.append(at + rows)
        at += chunk.num_rows
    if not places:
        raise TableFileError(f"{source} has no rows with a value of {', '.join(names)!r}")
    model.encoder_.warn(watch)
    rows, truth = np.concatenate(places), np.concatenate(truths)
    if classes is not None and not np.isin(truth, classes).any():
        raise TableFileError(
            f"{names[0]!r} must hold classes that the model knows, such as "
            f"{classes.tolist()[0]!r}; it holds others, such as {truth.tolist()[0]!r}. "
            "Choose another column: target=COLUMN."
        )
    name = os.path.basename(str(source))
    scored = score_outputs(model, np.concatenate(outputs), truth, name, rows, targets)
    return scored, at - len(rows)


def _named_targets(
    model: TableModel, target: str | Sequence[str]
) -> tuple[list[str], TargetColumns | None]:
    names = [target] if isinstance(target, str) else list(target)
    known = TargetColumns.of_model(model)
    if known is not None:
        # "a,b" names two, unless there are as many names as targets already.
        names = names if len(names) == len(known.names) else target_names(names)
        return names, TargetColumns.of_model(model, names)
    if len(names) > 1:
        raise ValueError(f"The model predicts one target; got {', '.join(names)}. Name one.")
    return names, None


def _kind(labels: np.ndarray | Sequence[object] | None) -> str:
    """What a reader takes a target column as."""
    kind = "f" if labels is None else np.asarray(labels).dtype.kind
    return {"i": "number", "u": "number", "f": "number", "b": "boolean"}.get(kind, "category")
