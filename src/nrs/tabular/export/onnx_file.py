"""A fitted model as one ONNX file that takes raw rows."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs._util.atomic import atomic_write
from nrs._version import __version__
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.export.encoder_graph import encode, missing_text
from nrs.tabular.export.graph import IR_VERSION, OPSETS, Graph
from nrs.tabular.export.network_graph import network
from nrs.tabular.targets import ClassTarget, MultilabelTarget, Target

MATRIX = "X"
# The most that a protocol buffer can hold.
MOST_BYTES = 2**31 - 1


def to_onnx(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to an ONNX file; see :meth:`nrs.NRSClassifier.to_onnx`.

    Parameters
    ----------
    model : the fitted estimator.
    path : where to write; an existing file is replaced.
    """
    check_is_fitted(model)
    encoder: TableEncoder = model.encoder_
    _refuse_sparse(encoder)
    graph = Graph()
    names = input_names(encoder)
    if _is_matrix(encoder):
        features = encode(graph, encoder, [], MATRIX)
    else:
        features = encode(graph, encoder, names, None)
    outputs = network(graph, model.predictor_, features)
    ends = _outputs(graph, model.target_, outputs, names)
    content = _serialize(graph, encoder, model.target_, ends)
    with atomic_write(path) as file:
        file.write(content)


def input_names(encoder: TableEncoder) -> list[str]:
    """Names of a graph's inputs: those of the columns, ``x0``, ``x1``, … or ``X`` for all."""
    if _is_matrix(encoder):
        return [MATRIX]
    return encoder.names or [f"x{index}" for index in range(encoder.n_features_in_)]


def onnx_inputs(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Turn a table into what the file of :func:`to_onnx` takes, by the names of its inputs.

    Parameters
    ----------
    model : the fitted estimator.
    X : a table as :meth:`predict` takes it.

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
    check_is_fitted(model)
    encoder: TableEncoder = model.encoder_
    _refuse_sparse(encoder)
    table = model._read_table(X, reset=False)
    source = encoder.find_columns(table)
    columns = []
    for index, kind in enumerate(encoder.kinds_):
        column = table.column(int(source[index]), kind)
        if kind == "category":
            levels = [*column.levels, missing_text(_levels(encoder, index))]
            values = np.array(levels, dtype=object)[column.values]
        elif kind == "date":
            values = column.values.astype(np.int64) / 1e6
            values[column.missing()] = np.nan
        else:
            values = column.values.astype(np.float64)
        columns.append(values[:, None])
    names = input_names(encoder)
    if _is_matrix(encoder):
        return {MATRIX: np.hstack(columns)}
    return dict(zip(names, columns, strict=True))


def onnx_schema(model: Any) -> dict[str, Any]:
    """What the inputs and outputs of the file mean, as JSON values.

    The same is in the file's metadata under ``"nrs"``; not every runtime lets one read that.

    Parameters
    ----------
    model : the fitted estimator.

    Returns
    -------
    dict
        ``columns``: for each one ``input``, ``kind``, ``type``, ``missing`` and, of a category,
        its ``levels``; ``task``; ``classes`` of a classifier.
    """
    check_is_fitted(model)
    return _schema(model.encoder_, model.target_)


def _schema(encoder: TableEncoder, target: Target) -> dict[str, Any]:
    named = encoder.names or [f"x{index}" for index in range(encoder.n_features_in_)]
    columns = []
    for index, (name, kind) in enumerate(zip(named, encoder.kinds_, strict=True)):
        entry: dict[str, Any] = {"name": name, "kind": kind, "type": "double", "missing": "NaN"}
        if kind == "category":
            levels = _levels(encoder, index)
            entry |= {"type": "string", "missing": missing_text(levels), "levels": levels}
        columns.append(entry)
    schema: dict[str, Any] = {"nrs": __version__, "task": target.kind, "columns": columns}
    if isinstance(target, (ClassTarget, MultilabelTarget)):
        schema["classes"] = [_label(label) for label in target.classes.tolist()]
    return schema


def _levels(encoder: TableEncoder, index: int) -> list[str]:
    learned: Any = encoder.encoders.get(index)
    return [] if learned is None else list(learned.levels)


def _label(label: Any) -> Any:
    return label if isinstance(label, (bool, int, float, str)) else str(label)


def _is_matrix(encoder: TableEncoder) -> bool:
    """Whether the model was fitted to an array of numbers without names."""
    return encoder.names is None and set(encoder.kinds_) <= {"number", "boolean"}


def _refuse_sparse(encoder: TableEncoder) -> None:
    if encoder.is_sparse_:
        raise ValueError(
            "a model must be fitted to a dense table to be written as ONNX, which has no sparse "
            "rows, however: it was fitted to a sparse matrix; fit it to X.toarray(), or use "
            "to_torch() and encode rows with model.encoder_"
        )


def _outputs(graph: Graph, target: Target, outputs: str, taken: list[str]) -> list[Any]:
    """Name the results; a name that a column has already gets an underscore."""

    def end(value: str, name: str, dtype: Any, *shape: int) -> Any:
        while name in taken:
            name += "_"
        graph.rename(value, name)
        return _value(graph, name, dtype, *shape)

    width = target.n_outputs
    if isinstance(target, ClassTarget):
        classes = _classes(target.classes)
        best = graph.op("ArgMax", outputs, axis=1, keepdims=0)
        label = graph.op("Gather", graph.constant(classes), best, axis=0)
        probabilities = graph.op("Softmax", outputs, axis=1)
        return [
            end(label, "label", classes.dtype),
            end(probabilities, "probabilities", np.float32, width),
        ]
    if isinstance(target, MultilabelTarget):
        positive = graph.op("Greater", outputs, graph.constant(np.float32(0)))
        return [
            end(graph.cast(positive, np.int64), "labels", np.int64, width),
            end(graph.op("Sigmoid", outputs), "probabilities", np.float32, width),
        ]
    numbers = graph.op("Mul", graph.cast(outputs, np.float64), graph.constant(target.std))
    numbers = graph.op("Add", numbers, graph.constant(target.mean))
    if target.single:
        return [end(graph.reshape(numbers, -1), "prediction", np.float64)]
    return [end(numbers, "prediction", np.float64, width)]


def _classes(classes: np.ndarray) -> np.ndarray:
    """Labels as ONNX knows them: whole numbers, numbers, booleans or texts."""
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    if classes.dtype.kind == "b":
        return classes
    return np.array([str(label) for label in classes.tolist()], dtype=object)


def _value(graph: Graph, name: str, dtype: Any, *shape: int) -> Any:
    kind = graph.onnx.TensorProto.STRING
    if np.dtype(dtype).kind not in "OU":
        kind = graph.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return graph.onnx.helper.make_tensor_value_info(name, kind, ["rows", *shape])


def _serialize(graph: Graph, encoder: TableEncoder, target: Target, ends: list[Any]) -> bytes:
    onnx = graph.onnx
    names = input_names(encoder)
    if _is_matrix(encoder):
        inputs = [_value(graph, MATRIX, np.float64, encoder.n_features_in_)]
    else:
        inputs = [
            _value(graph, name, object if kind == "category" else np.float64, 1)
            for name, kind in zip(names, encoder.kinds_, strict=True)
        ]
    whole = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "nrs", inputs, ends, graph.constants),
        opset_imports=[onnx.helper.make_opsetid(*entry) for entry in OPSETS.items()],
        ir_version=IR_VERSION,
        producer_name="nrs",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(whole, {"nrs": json.dumps(_schema(encoder, target))})
    if whole.ByteSize() > MOST_BYTES:
        raise ValueError(
            f"an ONNX file must have at most {MOST_BYTES} bytes, however: the model has "
            f"{whole.ByteSize()}; fit a smaller one"
        )
    onnx.checker.check_model(whole)
    content: bytes = whole.SerializeToString()
    return content
