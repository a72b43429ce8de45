"""Quantization by scales that each run finds: one for each block of elements.

Source: TensorRT 10's operator pages and header (IDynamicQuantizeLayer); block formats are those of the OCP
Microscaling specification. Codes leave the layer as float32 numbers on their grid, because CPUs compute with
them so; a Dequantize layer behind it multiplies.
"""

from __future__ import annotations

import numpy as np

from intact.graph import Composer
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import ITensor, Sizes
from intact.trt.base.operation_enums import LayerType
from intact.trt.layers.base import ILayer, Nodes

LARGEST = {DataType.FP8: 448.0, DataType.FP4: 6.0}
SCALES = (DataType.FP8, DataType.E8M0, DataType.FLOAT)


class IDynamicQuantizeLayer(ILayer):
    """``codes = round(x / scale)`` and ``scale = max |x| / largest code``, block by block.

    Inputs: data; where input 1 is given, a number d: ``scale = round(max |x| / largest / d)`` is what
    output 1 holds, and codes are of ``x / (scale * d)``. Outputs: codes, like the data; scales, one for each
    block.

    Attributes:
        axis, block_size: As many elements of one axis share a scale.
        block_shape: The same for every axis; -1: as many as there are. Empty: `axis` and `block_size` count.
        to_type: FP8 or FP4.
        scale_type: FP8, FLOAT, or E8M0: the next power of two that is not smaller.
    """

    TYPE = LayerType.DYNAMIC_QUANTIZE
    TITLE = "DynamicQuantize"
    OUTPUTS = 2
    OUTPUT_NAME = "_{}"
    axis: int = -1
    block_size: int = 1
    block_shape: Sizes = ()
    to_type = DataType.FP8
    scale_type = DataType.FLOAT

    def check(self) -> list[str]:
        """Blocks that fill the data, types that there are."""
        data = self.get_input(0)
        if self.to_type not in LARGEST or self.scale_type not in SCALES:
            given = f"codes of {self.to_type} with scales of {self.scale_type}"
            return [f"{given}: FP8 or FP4, with FP8, E8M0 or FLOAT"]
        if data is None or not data.shape or (self.block_shape and len(self.block_shape) != len(data.shape)):
            return [f"block_shape {tuple(self.block_shape)} does not fit the data"]
        blocks = blocks_of(self)
        if any(n >= 0 and n % b for n, b in zip(data.shape, blocks, strict=True)):
            return [f"blocks of {blocks} do not fill a tensor of {data.shape}"]
        if self.get_input(1) is not None and sum(b > 1 for b in blocks) > 1:
            return ["DynamicQuantize operation with double_quant_scale must have scalar block_size"]
        return []

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        n, data = Nodes(c, self.name), self.get_input(0)
        assert data is not None  # checked before
        blocks = blocks_of(self)
        cut = in_blocks(n, x[0], data.shape, blocks)
        inner = n.ints(*range(1, 2 * len(blocks), 2))
        amax = n("ReduceMax", n("Abs", cut), inner, keepdims=1)
        wanted = n("Div", amax, n.array(np.float32(LARGEST[self.to_type])))
        if len(x) > 1 and x[1]:
            factor = n.scalar(x[1])
            scale = self._scale(n, n("Div", wanted, factor))
            total = n("Mul", scale, factor)
        else:
            scale = total = self._scale(n, wanted)
        one = n.array(np.float32(1))  # a block of zeros: any scale gives zeros
        safe = n("Where", n("Equal", total, n.array(np.float32(0))), one, total)
        codes = rounded(n, n("Div", cut, safe), self.to_type)
        whole(n, codes, data.shape, y[0])
        sizes = tuple(s if s < 0 else s // b for s, b in zip(data.shape, blocks, strict=True))
        whole(n, scale, sizes, y[1])

    def _scale(self, n: Nodes, scale: str) -> str:
        if self.scale_type is DataType.FP8:
            return rounded(n, scale, DataType.FP8)
        return power_of_two(n, scale) if self.scale_type is DataType.E8M0 else scale


def blocks_of(layer: IDynamicQuantizeLayer) -> Sizes:
    """How many elements of each axis share a scale."""
    data = layer.get_input(0)
    shape = data.shape if data is not None else ()
    if layer.block_shape:
        return tuple(n if b < 0 else int(b) for n, b in zip(shape, layer.block_shape, strict=True))
    axis = int(layer.axis) % max(len(shape), 1)
    return tuple(int(layer.block_size) if i == axis else 1 for i in range(len(shape)))


def dynamic_behind(tensor: ITensor | None) -> IDynamicQuantizeLayer | None:
    """The layer that made `tensor`, where it finds its scales in each run."""
    producer = tensor._producer if tensor is not None else None
    return producer if isinstance(producer, IDynamicQuantizeLayer) else None


def dequantized(n: Nodes, layer: IDynamicQuantizeLayer, codes: str, scale: str, to: str) -> None:
    """Codes that `layer` made times the scales of their blocks, as `to`."""
    data = layer.get_input(0)
    assert data is not None  # the layer was checked
    blocks = blocks_of(layer)
    sizes = tuple(s if s < 0 else s // b for s, b in zip(data.shape, blocks, strict=True))
    cut = in_blocks(n, codes, data.shape, blocks)
    made = n("Mul", cut, in_blocks(n, scale, sizes, (1,) * len(sizes)))
    whole(n, made, data.shape, to)


def in_blocks(n: Nodes, x: str, shape: Sizes, blocks: Sizes) -> str:
    """`x` with two axes for each: which block, and the place in it."""
    sizes = [s for size, b in zip(shape, blocks, strict=True) for s in (size if size < 0 else size // b, b)]
    return n("Reshape", x, n.ints(*_one_unknown(sizes)))


def whole(n: Nodes, x: str, shape: Sizes, to: str) -> None:
    """`x` in the shape that it had, as `to`."""
    n("Reshape", x, n.ints(*_one_unknown(list(shape))), to=to)


def _one_unknown(sizes: list[int]) -> list[int]:
    if sum(size < 0 for size in sizes) > 1:
        raise ValueError("blocks of a tensor with several sizes that only a run fixes")
    return sizes


def rounded(n: Nodes, x: str, dtype: DataType) -> str:
    """The numbers of `dtype` that are nearest, as float32; ties to even, the largest where one is beyond."""
    if dtype is DataType.FP8:
        one, zero = n.array(np.float32(1)), n.array(np.zeros((), dtype.numpy))
        return n("DequantizeLinear", n("QuantizeLinear", x, one, zero), one, zero)
    made, size = n.array(np.float32(0)), n("Abs", x)
    for bound, ties, step in _FP4_STEPS:
        above = n("GreaterOrEqual" if ties else "Greater", size, n.array(np.float32(bound)))
        made = n("Add", made, n("Mul", n.cast(above, "float32"), n.array(np.float32(step))))
    return n("Mul", made, n("Sign", x))


_FP4_STEPS = (
    (0.25, False, 0.5), (0.75, True, 0.5), (1.25, False, 0.5), (1.75, True, 0.5), (2.5, False, 1.0),
    (3.5, True, 1.0), (5.0, False, 2.0),
)  # fmt: skip
"""Where the next of 0, 0.5, 1, 1.5, 2, 3, 4, 6 begins, whether the bound itself is there, how far it is."""


def power_of_two(n: Nodes, x: str) -> str:
    """The smallest power of two that is not below `x`; the logarithm may be off by one, and is corrected."""
    two, least = n.array(np.float32(2)), n.array(np.float32(2.0**-127))
    x = n("Max", x, least)
    found = n("Pow", two, n("Ceil", n("Div", n("Log", x), n.array(np.float32(np.log(2))))))
    half = n("Div", found, two)
    found = n("Where", n("GreaterOrEqual", half, x), half, found)
    return n("Where", n("Less", found, x), n("Mul", found, two), found)
