"""Write TensorRT's operators for scales of blocks as ONNX's: NVFP4 and MXFP8, dynamic and of weights.

Source: the exporter of NVIDIA's Model Optimizer, which writes TRT_FP4DynamicQuantize and
TRT_MXFP8DynamicQuantize in front of a layer, and TRT_MXFP8DequantizeLinear behind them and behind weights.
Their scales of E8M0 are bytes: exponents with a bias of 127.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from intact.graph.core.build import Namer, Writer
from intact.graph.core.edit import input_of
from intact.graph.core.scene import Scene
from intact.graph.ops.attributes import has, names, put, take
from intact.graph.qdq.tensorrt.block_scales import Sizes, at_most_one_unknown, codes_and_scales, in_blocks
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Stays

DOMAIN = "trt"
_T = ir.DataType
_FORMATS = {
    "TRT_FP4DynamicQuantize": ("float4_e2m1fn", "float8_e4m3fn", 16),
    "TRT_MXFP8DynamicQuantize": ("float8_e4m3fn", "float8_e8m0fnu", 32),
}  # fmt: skip
"""Operator -> types of codes and scales, and the size of a block that says none."""
_READERS = {"DequantizeLinear": 0, "TRT_MXFP8DequantizeLinear": 32}
"""Operators that read such codes, and the size of a block that says none; 0: it must say one."""
_COMPARISONS = ("Equal", "Less", "Greater", "GreaterOrEqual")


class FloatNodes:
    """Writes the nodes of one quantizer on float32, in front of a node of the same graph.

    Args:
        node: In front of which they go.
        names: Gives out names.
    """

    def __init__(self, node: ir.Node, names: Namer) -> None:
        self.write = Writer(node, names)

    def __call__(self, op_type: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
        dtype = _T.BOOL if op_type in _COMPARISONS else _T.FLOAT
        if op_type == "QuantizeLinear":
            dtype = inputs[2].dtype or dtype
        return self.write(op_type, *inputs, dtype=dtype, **attributes)

    def array(self, values: Any) -> ir.Value:
        """Add a constant."""
        return self.write.constant(values, np.asarray(values).dtype)

    def ints(self, *values: int) -> ir.Value:
        """Add a constant vector of int64."""
        return self.write.sizes(*values)

    def cast(self, value: ir.Value, dtype: str) -> ir.Value:
        """Convert to the type that NumPy calls `dtype`."""
        target = _T.from_numpy(np.dtype(dtype))
        return self.write("Cast", value, dtype=target, to=int(target))


def _sizes(value: ir.Value) -> Sizes | None:
    if value.shape is None:
        return None
    return tuple(n if isinstance(n, int) else -1 for n in value.shape)


def _blocks(node: ir.Node, rank: int, default: int) -> Sizes:
    """Return how many elements of each axis share a scale, as the attributes axis and block_size say."""
    axis, size = take(node, "axis"), take(node, "block_size")
    place = (-1 if axis is None else axis.as_int()) % rank
    block = default if size is None else size.as_int()
    return tuple(block if i == place else 1 for i in range(rank))


def _write_dynamic_pair(node: ir.Node, scene: Scene) -> Outcome:
    """Replace quantization by scales that a run computes by floats on the same grid.

    Before: ``q, s = trt::TRT_FP4DynamicQuantize(x, d)``, ``y = DequantizeLinear(q, DequantizeLinear(s, d))``.
    After: ``y = round(x / t) * t`` block by block, with ``t = round(max |x| / 6 / d) * d``.

    Guards: every reader of codes and scales is a dequantizer, x has a known rank, blocks fill it, and at most
    one size is unknown, or blocks lie along the last axis.
    """
    unknown = names(node) - {"axis", "block_size", "scale_type", "output_dtype"}
    data = input_of(node, 0)
    shape = _sizes(data) if data is not None else None
    if unknown or data is None or not shape or len(node.outputs) < 2:
        return Stays(f"it has {', '.join(sorted(unknown)) or 'no known sizes, or one output'}")
    dtype, scale_type, default = _FORMATS[node.op_type]
    codes, scales = node.outputs[:2]
    of_codes, of_scales = ([use.node for use in value.uses()] for value in (codes, scales))
    readers = [*of_codes, *(reader for reader in of_scales if reader.inputs[0] is scales)]
    if codes.is_graph_output() or scales.is_graph_output() or any(r.op_type not in _READERS for r in readers):
        return Stays("its codes or scales are read by other nodes than dequantizers")
    blocks = _blocks(node, len(shape), default)
    flat = sum(n < 0 for n in shape) > 1 and shape[-1] > 0 and blocks[-1] > 1
    if any(n >= 0 and n % b for n, b in zip(shape, blocks, strict=True)) or (
        sum(n < 0 for n in shape) > 1 and not flat
    ):
        return Stays(f"blocks of {blocks} do not fill a tensor of {shape}")
    n = FloatNodes(node, scene.names)
    floats = data if data.dtype == _T.FLOAT else n.cast(data, "float32")
    if flat:
        shape, blocks = (-1, shape[-1]), (1, blocks[-1])
    factor = input_of(node, 1)
    if factor is not None:
        factor = n("Reshape", n.cast(factor, "float32"), n.ints())
    cut, scale, _ = codes_and_scales(n, floats, shape, blocks, (dtype, scale_type), factor)
    assert scale is not None
    counts = tuple(s if s < 0 else s // b for s, b in zip(shape, blocks, strict=True))
    scale = n("Reshape", scale, n.ints(*at_most_one_unknown(list(counts))))
    for reader in dict.fromkeys(of_scales):
        if reader.inputs[0] is scales:  # the scale of scales
            coarse = input_of(reader, 1)
            assert coarse is not None
            _replace(reader, scene, FloatNodes(reader, scene.names)("Mul", scale, coarse))
        else:
            reader.replace_input_with(1, scale)
    for reader in dict.fromkeys(of_codes):
        m, total = FloatNodes(reader, scene.names), input_of(reader, 1)
        assert total is not None
        factors = in_blocks(m, total, counts, (1,) * len(counts))
        products = m("Mul", cut, factors)
        if flat:
            sizes = m.write("Shape", floats, dtype=_T.INT64)
        else:
            sizes = m.ints(*at_most_one_unknown(list(shape)))
        _replace(reader, scene, m("Reshape", products, sizes))
    node.graph.remove(node, safe=True)  # type: ignore[union-attr]
    return "TensorRT's dynamic quantization became floats on its grid"


def _replace(node: ir.Node, scene: Scene, value: ir.Value) -> None:
    """Let the readers of `node` read `value`, in the type of its output."""
    dtype = _take_output_type(node)
    if dtype is not None and dtype != _T.FLOAT:
        value = Writer(node, scene.names)("Cast", value, dtype=dtype, to=int(dtype))
    scene.replace(node, value)


def _take_exponents(node: ir.Node, scene: Scene) -> Outcome:
    """Replace a dequantizer of MXFP8 weights by ONNX's.

    Before: ``trt::TRT_MXFP8DequantizeLinear(codes, exponents)``.  After: ONNX's DequantizeLinear with
    float32 scales ``2 ** (exponent - 127)`` of the same blocks.

    Guards: codes are FP8 (or bytes of it) and constant, as exponents are; attributes are those of ONNX.
    """
    unknown = names(node) - {"axis", "block_size", "output_dtype"}
    codes, exponents = input_of(node, 0), input_of(node, 1)
    stored, bits = (scene.constants(v) if v is not None else None for v in (codes, exponents))
    if unknown or stored is None or bits is None or bits.dtype.itemsize != 1:
        return Stays(f"it has {', '.join(sorted(unknown)) or 'no constant codes of FP8 and exponents'}")
    if stored.dtype not in (np.uint8, ml_dtypes.float8_e4m3fn):
        return Stays(f"its codes are {stored.dtype}, and no FP8: export the weights first")
    scales = bits.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    insert = scene.inserter(node)
    if stored.dtype == np.uint8:
        floats = stored.view(ml_dtypes.float8_e4m3fn)
        node.replace_input_with(0, insert.constant(f"{node.name}.fp8", floats, _T.FLOAT8E4M3FN))
    node.replace_input_with(1, insert.constant(f"{node.name}.scale", scales, _T.FLOAT))
    if not has(node, "block_size"):
        put(node, "block_size", _READERS[node.op_type])
    if not has(node, "axis"):
        put(node, "axis", stored.ndim - 1)
    node.domain, node.op_type = "", "DequantizeLinear"
    return _write_output_type(node, scene)


def _take_output_type(node: ir.Node) -> ir.DataType | None:
    """Remove `output_dtype`; return the type that it says, or else that of the output."""
    stated = take(node, "output_dtype")
    return _T(stated.as_int()) if stated is not None and stated.as_int() else node.outputs[0].dtype


def _write_output_type(node: ir.Node, scene: Scene) -> str:
    """Let ONNX's operator, whose output has the type of its scales, give what `output_dtype` says."""
    dtype = _take_output_type(node)
    if dtype is not None and dtype != _T.FLOAT:
        insert = scene.inserter(node, after=True)
        output = node.outputs[0]
        readers, shape = list(output.uses()), output.shape
        cast = insert.node("Cast", [output], f"{node.name}.cast", dtype=dtype, shape=shape, to=int(dtype))
        output.dtype = _T.FLOAT
        for use in readers:
            use.node.replace_input_with(use.idx, cast)
    else:
        node.outputs[0].dtype = _T.FLOAT
    return "TensorRT's dequantizer of MXFP8 became ONNX's"


DYNAMIC_PAIRS = Rewrite(
    "write dynamic quantization of TensorRT on floats", _write_dynamic_pair, tuple(_FORMATS), (DOMAIN,),
    requires=Requires(opset=21), ensures=Ensures(gone=True, shapes=True),
)  # fmt: skip
MXFP8_WEIGHTS = Rewrite(
    "write MXFP8 weights of TensorRT as ONNX's", _take_exponents, ("TRT_MXFP8DequantizeLinear",), (DOMAIN,),
    requires=Requires(opset=21), ensures=Ensures(gone=True, shapes=True),
)  # fmt: skip
BLOCK_PAIRS = (DYNAMIC_PAIRS, MXFP8_WEIGHTS)


def write_block_pairs(model: ir.Model) -> None:
    """Write TensorRT's dynamic quantizers and MXFP8 weights of a model as ONNX's nodes, in place."""
    for rewrite in BLOCK_PAIRS:
        rewrite(model)
