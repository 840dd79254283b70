"""A graph of ONNX operators under construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nrs._util.optional import import_optional
from nrs._version import __version__

# 18 is the oldest that torch's exporter writes; onnxruntime reads it from 1.14 (2023) on.
OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 8


class Graph:
    """Operators and constants in the order in which they are added; values are known by name.

    Examples
    --------
    >>> graph = Graph()
    >>> twice = graph.op("Add", "x", "x")
    >>> graph.op("Add", twice, graph.constant(np.float32([1.0])))
    'nrs/Add_3'
    """

    def __init__(self) -> None:
        self.onnx = import_optional("onnx", "to_onnx", "export")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"nrs/{stem}_{self._count}"

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output; returns the name of that."""
        name = self._fresh(kind)
        self.nodes.append(
            self.onnx.helper.make_node(
                kind, list(inputs), [name], name=name, domain=domain, **attributes
            )
        )
        return name

    def constant(self, values: Any) -> str:
        """Add an array of numbers, booleans or texts."""
        array = np.asarray(values)
        name = self._fresh("constant")
        if array.dtype.kind in "OU":
            texts = [str(text).encode() for text in array.reshape(-1).tolist()]
            kind = self.onnx.TensorProto.STRING
            tensor = self.onnx.helper.make_tensor(name, kind, array.shape, texts)
        else:
            tensor = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.constants.append(tensor)
        return name

    def integer(self, kind: str, value: str, by: int | str) -> str:
        """Add an operator on int64 values, the second of which may be a number."""
        return self.op(kind, value, self.constant(np.int64(by)) if isinstance(by, int) else by)

    def cast(self, value: str, dtype: type) -> str:
        """Convert to a NumPy dtype."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.op("Cast", value, to=kind)

    def columns(self, value: str, places: Any) -> str:
        """Take some columns of a (rows, columns) value."""
        return self.op("Gather", value, self.constant(np.asarray(places, np.int64)), axis=1)

    def concat(self, values: Sequence[str]) -> str:
        """Join the columns of (rows, columns) values."""
        return self.op("Concat", *values, axis=1) if len(values) > 1 else values[0]

    def reshape(self, value: str, *shape: int) -> str:
        return self.op("Reshape", value, self.constant(np.array(shape, np.int64)))

    def append(self, other: Any, inputs: Sequence[str]) -> list[str]:
        """Add a whole graph that takes values of this one; returns the names of its outputs."""
        self._count += 1
        names = dict(zip((value.name for value in other.input), inputs, strict=True))

        def renamed(name: str) -> str:
            return names.setdefault(name, f"nrs/{self._count}/{name}") if name else ""

        for tensor in other.initializer:
            tensor.name = renamed(tensor.name)
            tensor.ClearField("metadata_props")
            self.constants.append(tensor)
        for node in other.node:
            # Where in the source it came from; of no use to a runtime.
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
            node.name = f"nrs/{self._count}/{node.name}"
            node.input[:] = map(renamed, node.input)
            node.output[:] = map(renamed, node.output)
            self.nodes.append(node)
        return [renamed(value.name) for value in other.output]

    def rename(self, value: str, name: str) -> None:
        """Give a value a name of its own, as the outputs of a graph have."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))

    def value(self, name: str, dtype: Any, *shape: int) -> Any:
        """Declare an input or output of shape (rows, ...); texts have dtype object."""
        kind = self.onnx.TensorProto.STRING
        if np.dtype(dtype).kind not in "OU":
            kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.onnx.helper.make_tensor_value_info(name, kind, ["rows", *shape])

    def serialize(
        self, inputs: list[Any], outputs: list[Any], metadata: dict[str, str], max_bytes: int
    ) -> bytes:
        """The bytes of a file, checked by onnx.

        Raises
        ------
        ValueError
            If there are more than `max_bytes`.
        """
        helper = self.onnx.helper
        model = helper.make_model(
            helper.make_graph(self.nodes, "nrs", inputs, outputs, self.constants),
            opset_imports=[helper.make_opsetid(*entry) for entry in OPSETS.items()],
            ir_version=IR_VERSION,
            producer_name="nrs",
            producer_version=__version__,
        )
        helper.set_model_props(model, metadata)
        size = model.ByteSize()
        if size > max_bytes:
            raise ValueError(
                f"An ONNX file can have at most {max_bytes:,} bytes; this model has {size:,}. "
                "Fit a smaller one."
            )
        self.onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content
