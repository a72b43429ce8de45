"""Records of operators without float arithmetic: shapes, casts, control flow, quantizers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph.ops import attributes
from intact.graph.ops.record import Kind, Operator

DRAWING = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
})  # fmt: skip
"""Operators that draw numbers: what they make is no constant, and no two of them make the same."""


class Shaped(Operator, shared=True):
    kind: ClassVar[Kind] = "shape"
    exact: ClassVar[bool] = True


@dataclass(frozen=True)
class Shape(Shaped):
    start: int = 0
    end: int | None = None


class Size(Shaped):
    pass


@dataclass(frozen=True)
class Cast(Shaped):
    to: int = 0


class CastLike(Shaped):
    """Inputs: data, a tensor of the type that it makes. Quantized files name it as a float step."""

    data: ClassVar[tuple[int, ...] | None] = None
    exact: ClassVar[bool] = False


class ConstantOfShape(Shaped):
    """Inputs: sizes."""

    @staticmethod
    def fill(node: ir.Node) -> NDArray[Any]:
        """Return the number that every element has, as an array without axes."""
        value_tensor = attributes.tensors(node).get("value")
        return np.zeros((), np.float32) if value_tensor is None else value_tensor.numpy().reshape(())


@dataclass(frozen=True)
class OneHot(Shaped):
    """Inputs: indices, depth, values."""

    axis: int = -1


@dataclass(frozen=True)
class GridSample(Shaped):
    """Inputs: images, grid."""

    exact: ClassVar[bool] = False
    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: int = 0


class Range(Shaped):
    """Inputs: start, end, step."""


@dataclass(frozen=True)
class ReverseSequence(Shaped):
    """Inputs: data, lengths. Pairs do not pass it: the engine moves codes for constant lengths alone."""

    data: ClassVar[tuple[int, ...] | None] = None
    exact: ClassVar[bool] = False
    batch_axis: int = 1
    time_axis: int = 0


@dataclass(frozen=True)
class Trilu(Shaped):
    """Inputs: data, diagonal."""

    upper: int = 1


class Control(Operator, shared=True):
    """Runs subgraphs."""

    kind: ClassVar[Kind] = "control"
    data: ClassVar[tuple[int, ...] | None] = None

    @staticmethod
    def body(node: ir.Node) -> ir.Graph:
        """Return the graph that a Loop or Scan repeats.

        Raises:
            FileFormatError: The node has none.
        """
        return attributes.graph(node, "body")


class If(Control):
    @staticmethod
    def branch(node: ir.Node, side: str) -> ir.Graph:
        """Return the graph of "then_branch" or "else_branch".

        Raises:
            FileFormatError: The node has none.
        """
        return attributes.graph(node, side)


class Loop(Control):
    pass


@dataclass(frozen=True)
class Scan(Control):
    num_scan_inputs: int = 0
    scan_input_axes: tuple[int, ...] = ()
    scan_input_directions: tuple[int, ...] = ()
    scan_output_axes: tuple[int, ...] = ()
    scan_output_directions: tuple[int, ...] = ()


class SequenceMap(Control):
    pass


@dataclass(frozen=True)
class QuantizeLinear(Operator):
    """Inputs: floats, scale, zero point. An axis that is left out is 1."""

    kind: ClassVar[Kind] = "quantizer"
    exact: ClassVar[bool] = True
    axis: int | None = None
    block_size: int = 0
    output_dtype: int = 0


@dataclass(frozen=True)
class DequantizeLinear(Operator):
    """Inputs: codes, scale, zero point. An axis that is left out is 1."""

    kind: ClassVar[Kind] = "quantizer"
    exact: ClassVar[bool] = True
    axis: int | None = None
    block_size: int = 0
    output_dtype: int = 0


class DynamicQuantizeLinear(Operator):
    """Its outputs: codes, scale, zero point."""

    kind: ClassVar[Kind] = "quantized"


@dataclass(frozen=True)
class InputMarker(Operator, shared=True):
    """The marker of an input of a call, while graph mode reads a traced model."""

    kind: ClassVar[Kind] = "compound"
    id: int = -1


@dataclass(frozen=True)
class Opaque(Operator, shared=True):
    """Stands in a traced model for an operator that torch's exporter cannot write."""

    kind: ClassVar[Kind] = "compound"
    operator: str = ""


@dataclass(frozen=True)
class BlockWeightsOperator(Operator, shared=True):
    """Reads weights in blocks on grids that neither ONNX nor ONNX Runtime has (decision 0058).

    Inputs: data or indices; codes uint8 [rows, bytes], K of `bits` bits one behind the other; scales [rows,
    blocks]; zero points uint8 and minima, likewise; a bias; sub-scales and sub-minima int8 [rows, blocks]; a
    table float32 [16] of values for codes of 4 bits. Without zero points and table, codes have a sign: half
    of their range is 0. With sub-scales or sub-minima, scales or minima are those of super-blocks, [rows,
    supers], and multiply them first.
    """

    kind: ClassVar[Kind] = "compound"
    domain: ClassVar[str] = "intact"
    K: int = 0
    bits: int = 0
    block: int = 0


@dataclass(frozen=True)
class BlockLinear(BlockWeightsOperator):
    """A product with block weights; `x_block` 0: of floats, else of int8 codes in blocks of the data."""

    x_block: int = 0


class BlockGather(BlockWeightsOperator):
    """Rows of a table in blocks."""


@dataclass(frozen=True)
class TensorMarker(Operator):
    """The marker of a tensor, on which our exporters hang its grid. Inputs: data, amax, amin."""

    kind: ClassVar[Kind] = "quantizer"
    domain: ClassVar[str] = "intact"
    op_type: ClassVar[str] = "FakeQuantize"
    exact: ClassVar[bool] = False
    data: ClassVar[tuple[int, ...] | None] = None
    axis: tuple[int, ...] = ()
    block_size: int = 0
    format: str = ""
    narrow: int = 0


def stored_tensor(node: ir.Node | None) -> ir.TensorProtocol | None:
    """Return the tensor that a Constant holds, as `value`; None for other nodes and other forms."""
    is_constant = node is not None and not node.domain and node.op_type == "Constant"
    return attributes.tensors(node).get("value") if is_constant and node is not None else None
