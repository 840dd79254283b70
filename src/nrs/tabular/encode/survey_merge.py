"""Surveys of several processes become one: sent as JSON and arrays, merged in order of rank."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import astuple
from typing import Any

import numpy as np
import torch

from nrs.datasets.large_table import Table
from nrs.tabular.encode.number import Moments
from nrs.tabular.encode.sketch import QuantileSketch
from nrs.tabular.encode.survey import Levels, Survey, survey_table
from nrs.training.processes import present


def survey_together(table: Table, categorical_features: Any = None) -> Survey:
    """Survey a table by all processes present, each reading its share."""
    group = present()
    survey = survey_table(table, categorical_features, shard=(group.rank, group.size))
    if group.size == 1:
        return survey
    content = torch.frombuffer(bytearray(pack_survey(survey)), dtype=torch.uint8)
    parts = group.gather(content.to(group.device))
    merged, *others = (unpack_survey(part.cpu().numpy().tobytes(), survey) for part in parts)
    for other in others:
        merged = merged.merge(other)
    return merged


def pack_survey(survey: Survey) -> bytes:
    """A survey as bytes that hold numbers and texts only."""
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {
        "n_rows": survey.n_rows,
        "unlabelled": survey.unlabelled,
        "whole": survey.whole,
        # Pairs, because JSON's keys are texts.
        "labels": None if survey.labels is None else list(survey.labels.items()),
        "levels": [[k, list(v.counts.items()), v.missing] for k, v in survey.levels.items()],
        "sketches": [[k, _sketch(sketch, k, arrays)] for k, sketch in survey.sketches.items()],
    }
    arrays |= {f"moments-{k}": part for k, part in enumerate(astuple(survey.moments))}
    arrays |= {f"turns-{k}": np.asarray(angles) for k, angles in survey.turns.items()}
    if survey.sample.rows is not None:
        arrays["places"] = survey.sample.places
        arrays["rows"] = np.frombuffer(_arrow_bytes(survey.sample.rows), dtype=np.uint8)
    arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    return content.getvalue()


def unpack_survey(content: bytes, like: Survey) -> Survey:
    """Read what :func:`pack_survey` wrote, of the same table as another survey.

    Examples
    --------
    >>> survey = Survey(["a"], ["number"], "y", "number")
    >>> unpack_survey(pack_survey(survey), survey).n_rows
    0
    """
    import pyarrow

    arrays = dict(np.load(io.BytesIO(content), allow_pickle=False))
    facts = json.loads(arrays["facts"].tobytes())
    survey = Survey(like.names, like.kinds, like.target, like.target_kind)
    survey.n_rows, survey.unlabelled = facts["n_rows"], facts["unlabelled"]
    survey.whole = facts["whole"]
    survey.labels = None if facts["labels"] is None else Counter(dict(facts["labels"]))
    for k, counts, missing in facts["levels"]:
        survey.levels[k] = Levels(Counter(dict(counts)), missing)
    for k, told in facts["sketches"]:
        survey.sketches[k] = _read_sketch(told, k, arrays)
    survey.moments = Moments(*(arrays[f"moments-{k}"] for k in range(4)))
    survey.turns = {k: arrays[f"turns-{k}"] for k in survey.turns}
    if "rows" in arrays:
        with pyarrow.ipc.open_stream(arrays["rows"].tobytes()) as stream:
            survey.sample._join(stream.read_all(), arrays["places"])
    return survey


def _sketch(sketch: QuantileSketch, k: int, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    arrays[f"waiting-{k}"] = np.concatenate([np.empty(0), *sketch._waiting])
    if sketch.distinct is not None:
        arrays[f"distinct-{k}"] = sketch.distinct
    for level, values in enumerate(sketch._levels):
        if values is not None:
            arrays[f"level-{k}-{level}"] = values
    return {
        "n": sketch.n,
        "error": sketch.error,
        "bounds": [sketch.low, sketch.high],
        "kept": sketch._kept,
    }


def _read_sketch(told: dict[str, Any], k: int, arrays: dict[str, Any]) -> QuantileSketch:
    sketch = QuantileSketch()
    sketch.n, sketch.error, sketch._kept = told["n"], told["error"], told["kept"]
    sketch.low, sketch.high = told["bounds"]
    sketch.distinct = arrays.get(f"distinct-{k}")
    names = [f"level-{k}-{level}" for level in range(len(told["kept"]))]
    sketch._levels = [arrays.get(name) for name in names]
    waiting = arrays[f"waiting-{k}"]
    sketch._waiting, sketch._n_waiting = [waiting], len(waiting)
    return sketch


def _arrow_bytes(table: Any) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content
