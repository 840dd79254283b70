"""A fitted model as one ONNX file that takes raw rows."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs._util.atomic import atomic_write
from nrs._version import __version__
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.export.graph import Graph
from nrs.tabular.export.module import for_export
from nrs.tabular.targets import check_offset

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.types import ArrayLike, Json, TableLike

MATRIX = "X"


def to_onnx(model: TableEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to an ONNX file; see :meth:`nrs.NRSClassifier.to_onnx`."""
    encoder, schema = _dense_encoder(model), onnx_schema(model)
    graph = Graph()
    if encoder.reads_matrix:
        inputs = [graph.input(MATRIX, np.float64, encoder.n_features_in_)]
    else:
        types = {"double": np.float64, "string": object}
        inputs = [graph.input(one["name"], types[one["type"]], 1) for one in schema["columns"]]
    features = encoder.to_onnx(graph, inputs)
    network = for_export(model.model_.folded())
    outputs = graph.module(network, [encoder.n_features_out_], features)
    if model.target_.has_offset:
        offset = graph.input(offset_name(inputs), np.float64, 1)
        outputs = graph.op("Add", graph.cast(outputs, np.float64), offset)
    for name, value, dtype, shape in model.target_.to_onnx(graph, outputs):
        graph.output(name, value, dtype, *shape)
    content = graph.serialize({"nrs": json.dumps(schema)})
    with atomic_write(path) as file:
        file.write(content)


def onnx_inputs(
    model: TableEstimator, X: TableLike, offset: ArrayLike | None = None
) -> dict[str, np.ndarray]:
    """Convert a table to the inputs of the file that :func:`to_onnx` writes.

    Parameters
    ----------
    model : the fitted estimator.
    X : a table as :meth:`predict` takes it.
    offset : array (n_rows,), optional
        Of a model that was fitted with one; 0 by default.

    Returns
    -------
    dict of ndarray
        For each column a (n_rows, 1) array of float64 or of texts; for a model fitted to an array
        of numbers, which has no names, ``{"X": (n_rows, n_columns) float64}``.

    Examples
    --------
    >>> from nrs import NRSClassifier
    >>> rows = [[1.5, "red"], [2.5, None], [3.0, "blue"]] * 10
    >>> model = NRSClassifier(preset="fast", epochs=1, random_state=0).fit(rows, [0, 1, 1] * 10)
    >>> onnx_inputs(model, rows[:2])
    {'x0': array([[1.5],
           [2.5]]), 'x1': array([['red'],
           ['']], dtype=object)}
    """
    encoder, table = _dense_encoder(model), model.read_table(X)
    places = zip(encoder.find_columns(table).tolist(), encoder.kinds_, strict=True)
    columns = [
        encoder.column_encoder(index).onnx_cells(table.column(place, kind))[:, None]
        for index, (place, kind) in enumerate(places)
    ]
    named = (
        {MATRIX: np.hstack(columns)}
        if encoder.reads_matrix
        else dict(zip(encoder.column_names, columns, strict=True))
    )
    if model.target_.has_offset:
        given = np.zeros(table.n_rows) if offset is None else check_offset(offset)
        named[offset_name(named)] = given[:, None]
    return named


def offset_name(columns: Collection[str]) -> str:
    """What the input of offsets is called; underscores follow where a column has that name."""
    name = "offset"
    while name in columns:
        name += "_"
    return name


def onnx_schema(model: TableEstimator) -> Json:
    """What the inputs and outputs of the file mean, as JSON values; its metadata has the same.

    Parameters
    ----------
    model : the fitted estimator.

    Returns
    -------
    dict
        ``columns``: for each one ``name``, ``kind``, ``type``, ``missing`` and, for a category,
        its ``levels``; ``task``; ``classes`` of a classifier.
    """
    check_is_fitted(model)
    encoder, target = model.encoder_, model.target_
    columns = [
        {"name": name, "kind": kind, **encoder.column_encoder(index).onnx_schema()}
        for index, (name, kind) in enumerate(zip(encoder.column_names, encoder.kinds_, strict=True))
    ]
    schema: Json = {"nrs": __version__, "task": target.task, "columns": columns}
    if target.classes is not None:
        schema["classes"] = target.listed_classes()
    return schema


def _dense_encoder(model: TableEstimator) -> TableEncoder:
    check_is_fitted(model)
    if model.encoder_.is_sparse_:
        raise ValueError(
            "ONNX has no sparse rows, but the model was fitted to a sparse matrix. Fit it to "
            "X.toarray(), or use to_torch() and encode rows with model.encoder_."
        )
    return model.encoder_
