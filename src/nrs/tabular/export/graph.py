"""A graph of ONNX operators under construction."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike
from torch import nn

from nrs._util.optional import import_optional
from nrs._version import __version__

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto

# 18 is the oldest that torch's exporter writes; onnxruntime reads it from 1.14 (2023) on.
OPSETS = {"": 18, "ai.onnx.ml": 3}
# Operators that onnxruntime alone has; in a file only where text needs one.
RUNTIME_OPSET = ("com.microsoft", 1)
IR_VERSION = 8
# A protocol buffer cannot hold more.
MAX_BYTES = 2**31 - 1


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
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self._count = 0

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"nrs/{stem}_{self._count}"

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        """Add an operator with one output; returns the name of that."""
        name = self._fresh(kind)
        make = self.onnx.helper.make_node
        self.nodes.append(make(kind, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, values: ArrayLike) -> str:
        """Add an array of numbers, booleans or texts."""
        array, name = np.asarray(values), self._fresh("constant")
        if array.dtype.kind in "OU":
            texts = [str(text).encode() for text in array.flat]
            tensor = self.onnx.helper.make_tensor(name, self._kind(object), array.shape, texts)
        else:
            tensor = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.constants.append(tensor)
        return name

    def integer(self, kind: str, value: str, by: int | str) -> str:
        """Add an operator on int64 values, the second of which may be a number."""
        return self.op(kind, value, self.constant(np.int64(by)) if isinstance(by, int) else by)

    def cast(self, value: str, dtype: DTypeLike) -> str:
        """Convert to a NumPy dtype."""
        return self.op("Cast", value, to=self._kind(dtype))

    def columns(self, value: str, places: ArrayLike) -> str:
        """Take some columns of a (rows, columns) value."""
        return self.op("Gather", value, self.constant(np.asarray(places, np.int64)), axis=1)

    def concat(self, values: Sequence[str]) -> str:
        """Join the columns of (rows, columns) values."""
        return self.op("Concat", *values, axis=1) if len(values) > 1 else values[0]

    def sort(self, value: str, size: int) -> str:
        """Sort along the last axis, of this size, ascending."""
        made, places = self._fresh("TopK"), self._fresh("TopK")
        inputs = [value, self.constant(np.array([size], np.int64))]
        node = self.onnx.helper.make_node("TopK", inputs, [made, places], name=made, largest=0)
        self.nodes.append(node)
        return made

    def reshape(self, value: str, *shape: int) -> str:
        return self.op("Reshape", value, self.constant(np.array(shape, np.int64)))

    def module(
        self,
        network: nn.Module,
        shape: Sequence[int],
        x: str,
        operators: Mapping[Any, object] | None = None,
    ) -> str:
        """Add a torch module of (rows, *shape) float32; returns the name of its output.

        `operators` gives functions of onnxscript for operators that are not torch's own.
        """
        import_optional("onnxscript", "to_onnx", "export")  # torch's exporter needs it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's deprecations of its own functions
            program = torch.onnx.export(
                network.eval(),
                (torch.zeros(2, *shape),),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("rows")},),
                opset_version=OPSETS[""],
                verbose=False,
                custom_translation_table=dict(operators or {}),
            )
        assert program is not None
        prefix, proto = f"{self._fresh('network')}/", program.model_proto.graph
        # Given here, as onnx forgets initializers within the body of a loop.
        names = {tensor.name: prefix + tensor.name for tensor in proto.initializer}
        graph = self.onnx.compose.add_prefix_graph(
            proto, prefix, rename_inputs=False, name_map={**names, proto.input[0].name: x}
        )
        for tensor in graph.initializer:
            tensor.ClearField("metadata_props")
        for node in graph.node:
            # Where in the source it came from; of no use to a runtime.
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
        self.constants.extend(graph.initializer)
        self.nodes.extend(graph.node)
        output: str = graph.output[0].name
        return output

    def input(self, name: str, dtype: DTypeLike, *shape: int) -> str:
        """Declare an input of shape (rows, ...); texts have dtype object."""
        self.inputs.append(self._declared(name, dtype, shape))
        return name

    def output(self, name: str, value: str, dtype: DTypeLike, *shape: int) -> None:
        """Declare a value as an output; underscores follow its name if an input has that."""
        while name in [one.name for one in self.inputs]:
            name += "_"
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))
        self.outputs.append(self._declared(name, dtype, shape))

    def _declared(self, name: str, dtype: DTypeLike, shape: Sequence[int]) -> ValueInfoProto:
        make = self.onnx.helper.make_tensor_value_info
        return make(name, self._kind(dtype), ["rows", *shape])

    def _kind(self, dtype: DTypeLike) -> int:
        if np.dtype(dtype).kind in "OU":
            return self.onnx.TensorProto.STRING
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def _opsets(self) -> list[tuple[str, int]]:
        own = any(node.domain == RUNTIME_OPSET[0] for node in self.nodes)
        return [*OPSETS.items(), *[RUNTIME_OPSET] * own]

    def serialize(self, metadata: dict[str, str]) -> bytes:
        """The bytes of a file, checked by onnx; raises ValueError if they are too many."""
        helper = self.onnx.helper
        model = helper.make_model(
            helper.make_graph(self.nodes, "nrs", self.inputs, self.outputs, self.constants),
            opset_imports=[helper.make_opsetid(*entry) for entry in self._opsets()],
            ir_version=IR_VERSION,
            producer_name="nrs",
            producer_version=__version__,
        )
        helper.set_model_props(model, metadata)
        size = model.ByteSize()
        if size > MAX_BYTES:
            raise ValueError(
                f"An ONNX file can have at most {MAX_BYTES:,} bytes; this model has {size:,}. "
                "Fit a smaller one."
            )
        self.onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content
