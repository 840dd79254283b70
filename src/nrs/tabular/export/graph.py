"""A graph of ONNX operators under construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrs._util.optional import import_optional

# Old enough for any runtime in use, and recent enough for every operator here.
OPSETS = {"": 17, "ai.onnx.ml": 3}
IR_VERSION = 8


def import_onnx() -> Any:
    """Import the onnx package, or say which extra brings it.

    Raises
    ------
    ImportError
        Without onnx; the extra ``export`` installs it.
    """
    return import_optional("onnx", "to_onnx", "export")


class Graph:
    """Operators and constants in the order in which they are added; values go by their names.

    Examples
    --------
    >>> graph = Graph()
    >>> twice = graph.op("Add", "x", "x")
    >>> graph.op("Add", twice, graph.constant(np.float32([1.0])))
    'nrs/Add_3'
    """

    def __init__(self) -> None:
        self.onnx = import_onnx()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"nrs/{stem}_{self._count}"

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator of one output, and give the name of that."""
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

    def cast(self, value: str, dtype: type) -> str:
        """Convert to a NumPy dtype."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.op("Cast", value, to=kind)

    def columns(self, value: str, places: Any) -> str:
        """Take some columns of a (rows, columns) value."""
        return self.op("Gather", value, self.constant(np.asarray(places, np.int64)), axis=1)

    def reshape(self, value: str, *shape: int) -> str:
        return self.op("Reshape", value, self.constant(np.array(shape, np.int64)))

    def rename(self, value: str, name: str) -> str:
        """Give a value a name of its own, as the outputs of a graph have."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))
        return name
