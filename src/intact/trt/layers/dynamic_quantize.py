"""Quantization by scales that each run computes: one for each block of elements.

Source: TensorRT 10's operator pages and header (IDynamicQuantizeLayer). Block formats are those of the OCP
Microscaling specification. Codes leave the layer as float32 numbers on their grid, because CPUs compute with
these. A Dequantize layer behind it multiplies.
"""

from __future__ import annotations

from intact.graph import TypedComposer, at_most_one_unknown, codes_and_scales, in_blocks
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import ITensor, Sizes
from intact.trt.base.operation_enums import LayerType
from intact.trt.layers.base import ILayer, Nodes

CODES = (DataType.FP8, DataType.FP4)
SCALES = (DataType.FP8, DataType.E8M0, DataType.FLOAT)


class IDynamicQuantizeLayer(ILayer):
    """Computes ``codes = round(x / scale)`` and ``scale = max |x| / largest code``, block by block.

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
        """Check that blocks fill the data, and that types exist."""
        data = self.get_input(0)
        if self.to_type not in CODES or self.scale_type not in SCALES:
            combination = f"codes of {self.to_type} with scales of {self.scale_type}"
            return [f"{combination}: FP8 or FP4, with FP8, E8M0 or FLOAT"]
        if data is None or not data.shape or (self.block_shape and len(self.block_shape) != len(data.shape)):
            return [f"block_shape {tuple(self.block_shape)} does not fit the data"]
        blocks = blocks_of(self)
        if any(n >= 0 and n % b for n, b in zip(data.shape, blocks, strict=True)):
            return [f"blocks of {blocks} do not fill a tensor of {data.shape}"]
        if self.get_input(1) is not None and sum(b > 1 for b in blocks) > 1:
            return ["DynamicQuantize operation with double_quant_scale must have scalar block_size"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, data = Nodes(c, self.name), self.get_input(0)
        assert data is not None  # checked before
        blocks, types = blocks_of(self), (self.to_type.numpy.name, self.scale_type.numpy.name)
        factor = n.scalar(x[1]) if len(x) > 1 and x[1] else None
        codes, scale, _ = codes_and_scales(n, x[0], data.shape, blocks, types, factor)
        restore_shape(n, codes, data.shape, y[0])
        sizes = tuple(s if s < 0 else s // b for s, b in zip(data.shape, blocks, strict=True))
        assert scale is not None
        restore_shape(n, scale, sizes, y[1])


def blocks_of(layer: IDynamicQuantizeLayer) -> Sizes:
    """Return how many elements of each axis share a scale."""
    data = layer.get_input(0)
    shape = data.shape if data is not None else ()
    if layer.block_shape:
        return blocks_that_fill(shape, layer.block_shape)
    axis = int(layer.axis) % max(len(shape), 1)
    return tuple(int(layer.block_size) if i == axis else 1 for i in range(len(shape)))


def blocks_that_fill(shape: Sizes, block_shape: Sizes) -> Sizes:
    """Return a block shape with sizes of `shape` in place of -1."""
    return tuple(n if b < 0 else int(b) for n, b in zip(shape, block_shape, strict=True))


def dynamic_behind(tensor: ITensor | None) -> IDynamicQuantizeLayer | None:
    """Return the dynamic quantization that made `tensor`; None where it is none."""
    producer = tensor._producer if tensor is not None else None
    return producer if isinstance(producer, IDynamicQuantizeLayer) else None


def dequantize_blocks(n: Nodes, layer: IDynamicQuantizeLayer, codes: str, scale: str, to: str) -> None:
    """Write codes that `layer` made times the scales of their blocks, to `to`."""
    data = layer.get_input(0)
    assert data is not None  # the layer was checked
    blocks = blocks_of(layer)
    sizes = tuple(s if s < 0 else s // b for s, b in zip(data.shape, blocks, strict=True))
    cut = in_blocks(n, codes, data.shape, blocks)
    products = n("Mul", cut, in_blocks(n, scale, sizes, (1,) * len(sizes)))
    restore_shape(n, products, data.shape, to)


def restore_shape(n: Nodes, x: str, shape: Sizes, to: str) -> None:
    """Write `x` in its shape without blocks, to `to`."""
    n("Reshape", x, n.ints(*at_most_one_unknown(list(shape))), to=to)
