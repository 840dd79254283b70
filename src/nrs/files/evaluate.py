"""Scores of a model on a labelled table file, for ``nrs evaluate``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nrs.datasets.convert import apply_plan
from nrs.datasets.reading import Plan
from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import stream_table_file
from nrs.files.queries import ScoredQueries, check_grades
from nrs.files.scores import AnyScored, model_outputs, score_outputs
from nrs.files.targets import (
    Task,
    bound_values,
    class_values,
    encode_targets,
    labelled_rows,
    target_names,
    target_values,
)
from nrs.ranking import NRSRanker
from nrs.ranking.queries import group_queries
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.predict_file import Source, TargetColumns, input_columns, model_rows, offset_column
from nrs.tabular.targets.columns import ColumnsTarget
from nrs.tabular.targets.survival import SurvivalTarget

if TYPE_CHECKING:
    from nrs.tabular.types import TableModel


def evaluate_file(
    model: TableModel,
    source: Source,
    target: str | Sequence[str],
    *,
    qid: str | None = None,
    **reading: Any,
) -> tuple[AnyScored, int]:
    """Predict the rows of a labelled table and score the predictions.

    Several targets are named in the order of the fit; of times that are known by bounds, the lower
    and the upper one, which may be empty. `qid` names the queries of a ranker, by default as in the
    fit; `reading` is how text files and workbooks are read. Gives also the number of rows without
    a value of a target, which were left out.

    Raises ValueError as :func:`nrs.tabular.predict_file.predict_chunks` does, or if no row has a
    value of the target, or none has a class that the model knows.
    """
    if isinstance(model, NRSRanker):
        return _evaluate_ranker(model, source, target, qid, reading)
    if qid is not None:
        raise ValueError("qid is for a ranker; this model predicts rows one by one. Leave it out.")
    names, targets = _named_targets(model, target)
    bounds = model.target_.kind == SurvivalTarget.kind
    classes = getattr(model, "classes_", None) if targets is None else None
    columns = input_columns(model, source, names, **reading)
    of_columns = isinstance(model.target_, ColumnsTarget)
    each = model.target_.classes if of_columns else targets.labels if targets else None
    kinds = {name: _kind(each[place] if each else classes) for place, name in enumerate(names)}
    known = (model.about_ or {}).get("target")
    fitted = [known] if isinstance(known, str) else known or []
    # A target is read as in the fit, whatever it is called here.
    known_plans = (model.about_ or {}).get("reading") or {}
    plans = {
        name: Plan.from_dict(known_plans[before])
        for name, before in zip(names, fitted, strict=False)
        if before in known_plans
    }
    kinds |= {name: "text" for name, plan in plans.items() if plan.reads_text}
    task: Task = "regression" if classes is None else "classification"
    truths, outputs, places, at, watch = [], [], [], 0, Watch(drift=True)
    offset = offset_column(model)
    for chunk in stream_table_file(source, columns | offset | kinds, **reading):
        for name, plan in plans.items():
            place = chunk.column_names.index(name)
            chunk = chunk.set_column(place, name, apply_plan(chunk.column(name), plan))
        # A time may have no upper bound.
        part, rows = labelled_rows(chunk, names[:1] if bounds else names)
        if len(rows):
            if bounds:
                truths.append(bound_values(part, names))
            elif targets is None:
                truths.append(target_values(part, names[0], task, classes))
            elif each and of_columns:
                truths.append(class_values(part, names, each))
            else:
                truths.append(encode_targets(part, targets))
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
    if model.target_.kind == SurvivalTarget.kind:
        names = names if len(names) == 2 else target_names(names)
        if len(names) != 2:
            raise ValueError(
                "The model predicts times that are known by bounds; name the columns of both, such "
                f"as target='lower,upper'; got {', '.join(names)}"
            )
        return names, None
    if len(names) > 1:
        raise ValueError(f"The model predicts one target; got {', '.join(names)}. Name one.")
    return names, None


def _evaluate_ranker(
    model: NRSRanker,
    source: Source,
    target: str | Sequence[str],
    qid: str | None,
    reading: Mapping[str, Any],
) -> tuple[AnyScored, int]:
    """Score the documents of a labelled table, which is read whole."""
    import pyarrow

    names = target_names(target)
    qid = qid or model.qid_column_ or (model.about_ or {}).get("qid")
    if len(names) > 1 or qid is None:
        wrong = "several" if len(names) > 1 else "none for its queries"
        raise ValueError(
            f"A ranker needs one column of grades and one of queries; got {wrong}. Name the "
            "queries by qid='COLUMN'"
        )
    columns = input_columns(cast("TableModel", model), source, [*names, qid], **reading)
    wanted = columns | {qid: "category", names[0]: "number"}
    table = pyarrow.concat_tables(stream_table_file(source, wanted, **reading))
    X = model_rows(cast("TableModel", model), table.select(list(columns)))
    # Before rows are left out: all documents of a query are scaled together.
    queries = table.column(qid).cast("string").to_numpy()
    scores = model.predict(X, group_queries(queries).numbers())
    part, rows = labelled_rows(table, names)
    if not len(rows):
        raise TableFileError(f"{source} has no rows with a value of {names[0]!r}")
    truth = target_values(part, names[0], "ranking")
    check_grades(truth, names[0])
    name = os.path.basename(str(source))
    return ScoredQueries(name, rows, truth, scores[rows], queries[rows]), len(scores) - len(rows)


def _kind(labels: np.ndarray | Sequence[object] | None) -> str:
    """What a reader takes a target column as."""
    kind = "f" if labels is None else np.asarray(labels).dtype.kind
    return {"i": "number", "u": "number", "f": "number", "b": "boolean"}.get(kind, "category")
