"""A fitted model outside of this library: as a plain PyTorch module, and as an ONNX file."""

from nrs.tabular.export.module import NumberModule, TableModule, to_torch
from nrs.tabular.export.onnx_file import onnx_inputs, onnx_schema, to_onnx

__all__ = ["NumberModule", "TableModule", "onnx_inputs", "onnx_schema", "to_onnx", "to_torch"]
