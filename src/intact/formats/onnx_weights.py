"""The weights of an ONNX file."""

from __future__ import annotations

import os
from typing import Any

from intact.errors import QuantValueError
from intact.formats.gguf_file import Tensor
from intact.formats.metadata_fields import FieldUse
from intact.graph import Constants, find_block_weights, load, read_block_weight


class OnnxWeights:
    """Gives the weights of an ONNX file: codes of MatMulNBits and DequantizeLinear, and its other constants.

    The axis of the blocks comes last: a weight [K, N] of a MatMul in blocks along K is read as [N, K]. Codes
    called "w.codes", as `intact quantize` writes them, are the tensor "w".

    Args:
        path: The file; external data must lie beside it.

    Raises:
        FileFormatError, UnsupportedError: As for `intact.graph.load`.
    """

    format = "onnx"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        graph = load(path, any_opset=True).graph
        self.where = f"file '{os.fspath(path)}'"
        self._constants = Constants(graph)
        codes = dict(find_block_weights(graph, self._constants))
        self._nodes = {
            _tensor_name(name, {*codes, *graph.initializers}): node for name, node in codes.items()
        }
        parts = {v.name for node in self._nodes.values() for v in node.inputs if v is not None}
        stored = {name: value for name, value in graph.initializers.items() if value in self._constants}
        self._others = {n: v for n, v in stored.items() if n not in parts and n not in codes}
        self.names = (*self._nodes, *self._others)
        self.config: dict[str, Any] = {}
        self.field_uses: tuple[FieldUse, ...] = ()

    def read(self, name: str) -> Tensor:
        """Return a tensor. Errors as `WeightFiles.read` says."""
        if name in self._nodes:
            return read_block_weight(self._nodes[name], self._constants)
        array = self._constants(self._others[name]) if name in self._others else None
        if array is None:
            raise QuantValueError("tensor", f"'{name}'", f"a name of {self.where}", "see .names")
        return array


def _tensor_name(codes: str, names: set[str]) -> str:
    """Return the name of the weights that codes stand for."""
    name = codes.removesuffix(".codes")
    return codes if not name or name in names else name
