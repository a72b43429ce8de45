"""Insert quantizers in front of a node: pairs with stored scales, and blocks whose scales a run computes.

NVFP4 in blocks of 16 and MXFP8 in blocks of 32 become the operators of TensorRT that ModelOpt writes. Other
blocks become floats on their grid, which any runtime computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph.core.build import Inserter, Namer, Writer
from intact.graph.qdq.tensorrt.block_scales import LARGEST_CODES, codes_and_scales
from intact.graph.qdq.tensorrt.dynamic_pairs import DOMAIN, FloatNodes

_T = ir.DataType
CODE_TYPES = {
    "float8_e4m3fn": _T.FLOAT8E4M3FN, "float4_e2m1fn": _T.FLOAT4E2M1, "int8": _T.INT8, "int4": _T.INT4,
}  # fmt: skip
"""Stored types by NumPy's name. Numbers of six bits are stored as those of eight, which hold them."""


@dataclass(frozen=True)
class BlockScales:
    """Describes scales that a run computes, one for each block along the last axis.

    Attributes:
        dtype: Of the codes, by NumPy's name.
        block: Elements along the last axis that share a scale; 0: all along it; None: all of the tensor.
        scale_type: Of the scales: "float8_e4m3fn", "float8_e8m0fnu", or "float32".
        factor: Scales of FP8 are multiplied by it; None: by nothing.
    """

    dtype: str
    block: int | None
    scale_type: str = "float32"
    factor: float | None = None


class QuantizerWriter:
    """Writes quantizers of one tensor in front of a node, in the order of the calls.

    Args:
        node: The first reader.
        names: Gives out names.
    """

    def __init__(self, node: ir.Node, names: Namer) -> None:
        self._write, self._floats = Writer(node, names), FloatNodes(node, names)

    def static_pair(self, x: ir.Value, scale: float, dtype: str) -> ir.Value:
        """Return `x` behind a QuantizeLinear and a DequantizeLinear of one scale."""
        n = self._write
        zero = n.constant(np.zeros((), np.dtype(dtype)), np.dtype(dtype))
        step = n.constant(np.float32(scale), _numpy(x))
        codes = n("QuantizeLinear", x, step, zero, dtype=CODE_TYPES[dtype])
        return _with_shape_of(n("DequantizeLinear", codes, step, zero, dtype=x.dtype), x)

    def dynamic(self, x: ir.Value, scales: BlockScales, size: int) -> ir.Value:
        """Return `x` [..., size] on a grid whose scales a run computes."""
        form = (scales.dtype, scales.scale_type, scales.block)
        if form == ("float4_e2m1fn", "float8_e4m3fn", 16):
            return self._nvfp4(x, float(scales.factor or 1))
        if form == ("float8_e4m3fn", "float8_e8m0fnu", 32):
            return self._mxfp8(x)
        return self._on_floats(x, scales, size)

    def add_constant(self, x: ir.Value, offset: NDArray) -> ir.Value:
        """Return the sum of `x` and constants that broadcast to it."""
        return _with_shape_of(
            self._write("Add", x, self._write.constant(offset, _numpy(x)), dtype=x.dtype), x
        )

    def multiply(self, x: ir.Value, matrix: NDArray) -> ir.Value:
        """Return the product of `x` [..., K] and a matrix [K, N]."""
        return self._write("MatMul", x, self._write.constant(matrix, _numpy(x)), dtype=x.dtype)

    def swap_last_axes(self, x: ir.Value, rank: int) -> ir.Value:
        """Return `x`, of `rank` axes, with the last two swapped."""
        perm = [*range(rank - 2), rank - 1, rank - 2]
        return self._write("Transpose", x, dtype=x.dtype, perm=perm)

    def weight(
        self, codes: NDArray, scales: NDArray, axis: int, block: int | None, factor: float | None
    ) -> ir.Value:
        """Return the floats of stored codes.

        Args:
            codes: Of a type of `CODE_TYPES`.
            scales: float32 or float8_e4m3fn for each block along `axis`; a vector along `axis` or one number
                where `block` is None.
            axis: Of the blocks or channels.
            block: Elements that share a scale; None: no blocks.
            factor: Of scales of FP8; None: they are float32.
        """
        n = self._write
        stored = self._constant(codes)
        if factor is not None:
            fine, coarse = self._constant(scales), n.constant(np.float32(factor))
            steps = n("DequantizeLinear", fine, coarse, dtype=_T.FLOAT)
        else:
            steps = n.constant(np.asarray(scales, np.float32))
        blocks = {} if block is None else {"block_size": block}
        attributes = blocks | ({"axis": axis} if np.ndim(scales) else {})
        return n("DequantizeLinear", stored, steps, dtype=_T.FLOAT, **attributes)

    def mxfp8_weight(self, codes: NDArray, exponents: NDArray, axis: int) -> ir.Value:
        """Return the floats of codes of FP8 with E8M0 scales of blocks of 32, as TensorRT's operator."""
        bits = self._constant(np.ascontiguousarray(exponents).view(np.uint8))
        return self._write(
            "TRT_MXFP8DequantizeLinear", self._constant(codes), bits, dtype=_T.FLOAT, domain=DOMAIN,
            axis=axis, block_size=32, output_dtype=int(_T.FLOAT),
        )  # fmt: skip

    def cast(self, x: ir.Value, dtype: ir.DataType | None) -> ir.Value:
        """Return `x` in another type; itself where it has that."""
        if dtype is None or x.dtype == dtype:
            return x
        return _with_shape_of(self._write("Cast", x, dtype=dtype, to=int(dtype)), x)

    def _constant(self, array: NDArray) -> ir.Value:
        return self._write.constant(array, array.dtype)

    def _nvfp4(self, x: ir.Value, factor: float) -> ir.Value:
        n = self._write
        coarse = n.constant(np.float32(factor))
        codes = n(
            "TRT_FP4DynamicQuantize", x, coarse, dtype=_T.FLOAT4E2M1, domain=DOMAIN, axis=-1, block_size=16,
            scale_type=int(_T.FLOAT8E4M3FN),
        )  # fmt: skip
        fine = n.second_output(codes, _T.FLOAT8E4M3FN)
        scales = n("DequantizeLinear", fine, coarse, dtype=_T.FLOAT)
        floats = n("DequantizeLinear", codes, scales, dtype=_T.FLOAT, axis=-1, block_size=16)
        return self.cast(_with_shape_of(floats, x), x.dtype)

    def _mxfp8(self, x: ir.Value) -> ir.Value:
        n = self._write
        codes = n(
            "TRT_MXFP8DynamicQuantize", x, dtype=_T.FLOAT8E4M3FN, domain=DOMAIN, axis=-1, block_size=32,
            output_dtype=int(_T.FLOAT8E4M3FN),
        )  # fmt: skip
        exponents = n.second_output(codes, _T.UINT8)
        floats = n(
            "TRT_MXFP8DequantizeLinear", codes, exponents, dtype=x.dtype, domain=DOMAIN, axis=-1,
            block_size=32, output_dtype=int(x.dtype or _T.FLOAT),
        )  # fmt: skip
        return _with_shape_of(floats, x)

    def _on_floats(self, x: ir.Value, scales: BlockScales, size: int) -> ir.Value:
        n = self._floats
        floats = self.cast(x, _T.FLOAT)
        types = (scales.dtype, scales.scale_type)
        factor = None if scales.factor is None else n.array(np.float32(scales.factor))
        width = scales.block or size
        if scales.block is None:  # one scale for all
            sizes, blocks = (1, -1), (1, 1)
            most = n("ReduceMax", n("Abs", floats), keepdims=0)
            step = n("Div", most, n.array(np.float32(LARGEST_CODES[scales.dtype])))
            zero = n("Equal", step, n.array(np.float32(0)))
            codes, _, total = codes_and_scales(
                n, _as_matrix(n, floats, sizes), sizes, blocks, (scales.dtype, None),
                n("Where", zero, n.array(np.float32(1)), step),
            )  # fmt: skip
        else:
            sizes, blocks = (-1, size), (1, width)
            codes, _, total = codes_and_scales(n, _as_matrix(n, floats, sizes), sizes, blocks, types, factor)
        shape = self._write("Shape", floats, dtype=_T.INT64)
        return self.cast(_with_shape_of(n("Reshape", n("Mul", codes, total), shape), x), x.dtype)


def _as_matrix(n: FloatNodes, x: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """Return `x` as a matrix."""
    return n("Reshape", x, n.ints(*sizes))


def _numpy(x: ir.Value) -> np.dtype:
    return np.dtype(np.float32) if x.dtype is None else x.dtype.numpy()


def _with_shape_of(value: ir.Value, like: ir.Value) -> ir.Value:
    value.shape = like.shape
    return value


def insert_behind(node: ir.Node, names: Namer, op_type: str, *operands: ir.Value) -> ir.Value:
    """Let every reader of a node's first output read what an operator makes of it and of `operands`.

    Args:
        node: Of a graph; a graph output keeps its name.
        names: Gives out names.
        op_type: The operator.
        operands: Its further inputs, which stand in front of `node`.
    Returns:
        What the readers read now.
    """
    output, graph = node.outputs[0], node.graph
    assert isinstance(graph, ir.Graph)
    readers = list(output.uses())
    insert = Inserter(graph, node, names, after=True)
    name = f"{node.name}.{op_type.lower()}"
    value = insert.node(op_type, [output, *operands], name, dtype=output.dtype, shape=output.shape)
    for use in readers:
        use.node.replace_input_with(use.idx, value)
    if output.is_graph_output():
        value.name, output.name = output.name, value.name
        graph.outputs[:] = [value if port is output else port for port in graph.outputs]
    return value
