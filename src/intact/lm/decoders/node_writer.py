"""Writes nodes of a decoder: products, tables and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.formats import BLOCK_INPUTS, block_inputs, floats_of, nbits_inputs, sort_by_group
from intact.graph import Composer
from intact.graph.ops import MICROSOFT, BlockLinear
from intact.numerics import BlockWeights, has_exact_sums
from intact.ptq.blocks import activation_block

Linear = BlockWeights | NDArray[np.float32]
Encode = Callable[[str, int, Linear], Linear]
"""Takes what a weight is for ("q", "down", "head", ...), its layer, and the weight; returns what is
stored."""
_INTEGER_PRODUCT = 4


def _nbits_constants(weight: BlockWeights) -> tuple[dict[str, NDArray[Any]], dict[str, int]] | None:
    """Return constants and attributes of a MatMulNBits; None where it has no such grid, or more bits."""
    if weight.bits not in (2, 4, 8) or weight.minima is not None:
        return None
    try:
        inputs, attributes = nbits_inputs(weight)
    except UnsupportedError:
        return None
    return inputs | {"scales": np.asarray(inputs["scales"], np.float32)}, attributes


class NodeWriter:
    """Writes nodes into the graph of a decoder.

    Args:
        opset: Of ONNX.
        in_floats: Whether activations stay floats in front of weights with codes.
    Attributes:
        composer: Holds the graph.
    """

    def __init__(self, opset: int, in_floats: bool) -> None:
        self.composer, self._in_floats = Composer(opset), in_floats
        self._orders: dict[tuple[str, bytes], str] = {}
        self._size_names: set[str] = set()

    def gather(self, index: str, y: str, table: Linear) -> None:
        """Read rows of a table, which keeps its codes."""
        composer = self.composer
        if not isinstance(table, BlockWeights) or table.groups is not None:
            floats = composer.constant(f"{y}.weight", np.asarray(floats_of(table), np.float32))
            composer.node("Gather", [floats, index], [y], name=y)
            return
        nbits = _nbits_constants(table) if table.shape[1] % table.block_size == 0 else None
        if nbits is None:
            self._own_node("BlockGather", index, y, table)
            return
        inputs, attributes = nbits
        arrays = {"codes": inputs["B"].reshape(len(inputs["B"]), -1), "scales": inputs["scales"]}
        if "zero_points" in inputs:
            arrays["zero_points"] = inputs["zero_points"]
        names = [composer.constant(f"{y}.{name}", array) for name, array in arrays.items()]
        composer.node(
            "GatherBlockQuantized", [names[0], index, *names[1:]], [y], name=y, domain=MICROSOFT,
            gather_axis=0, quantize_axis=1, block_size=attributes["block_size"], bits=attributes["bits"],
        )  # fmt: skip

    def linear(self, x: str, y: str, weight: Linear) -> None:
        """Write ``y = x weight.T``: of codes a MatMulNBits or a BlockLinear that quantizes x as it comes."""
        composer = self.composer
        if not isinstance(weight, BlockWeights):
            matrix = np.ascontiguousarray(np.asarray(weight, np.float32).T)
            composer.node("MatMul", [x, composer.constant(f"{y}.weight", matrix)], [y], name=y)
            return
        plain, order = sort_by_group(weight)
        x = x if order is None else self._reorder(x, order, y)
        in_floats = self._in_floats or not has_exact_sums(plain)
        x_block = 0 if in_floats else activation_block(plain.block_size, plain.shape[1])
        nbits = _nbits_constants(plain) if x_block in (0, plain.block_size) else None
        if nbits is None:
            self._own_node("BlockLinear", x, y, plain, x_block=x_block)
            return
        inputs, attributes = nbits
        names = [composer.constant(f"{y}.{name}", array) for name, array in inputs.items()]
        composer.node(
            "MatMulNBits", [x, *names], [y], name=y, domain=MICROSOFT,
            accuracy_level=_INTEGER_PRODUCT if x_block else 0, **attributes,
        )  # fmt: skip

    def _own_node(self, op_type: str, x: str, y: str, weight: BlockWeights, **numbers: int) -> None:
        """Write a BlockLinear or BlockGather."""
        arrays, attributes = block_inputs(weight)
        last = max(map(BLOCK_INPUTS.index, arrays))
        names = [
            self.composer.constant(f"{y}.{name}", arrays[name]) if name in arrays else ""
            for name in BLOCK_INPUTS[: last + 1]
        ]
        self.composer.node(
            op_type, [x, *names], [y], name=y, domain=BlockLinear.domain, **attributes, **numbers
        )

    def _reorder(self, x: str, order: NDArray[np.int64], y: str) -> str:
        """Put the columns of x in an order, once for all layers that want the same."""
        key = x, order.tobytes()
        if key not in self._orders:
            self._orders[key] = f"{y}.x"
            index = self.composer.constant(f"{y}.order", order)
            self.composer.node("Gather", [x, index], [f"{y}.x"], name=f"{y}.x", axis=-1)
        return self._orders[key]

    def number(self, op_type: str, x: str, number: float, y: str) -> str:
        """Write a node that reads x and a number."""
        constant = self.composer.constant(f"{y}.number", np.float32(number))
        return self.node(op_type, [x, constant], y)

    def clip(self, x: str, bound: float, y: str, *, has_least: bool = True) -> str:
        """Write ``min(max(x, -bound), bound)``; without a least value ``min(x, bound)``."""
        signs = {"least": -1, "most": 1} if has_least else {"most": 1}
        bounds = {
            name: self.composer.constant(f"{y}.{name}", np.float32(sign * bound))
            for name, sign in signs.items()
        }
        return self.node("Clip", [x, bounds.get("least", ""), bounds["most"]], y)

    def swish(self, x: str, slope: float, y: str) -> str:
        """Write ``x sigmoid(slope x)``."""
        scaled = x if slope == 1.0 else self.number("Mul", x, slope, f"{y}.slope")
        return self.node("Mul", [x, self.node("Sigmoid", [scaled], f"{y}.sigmoid")], y)

    def node(self, op_type: str, inputs: list[str], y: str, **attributes: Any) -> str:
        """Write a node with one output, whose name is that of the node."""
        self.composer.node(op_type, inputs, [y], name=y, **attributes)
        return y

    def sizes(self, *sizes: int) -> str:
        """Return a constant, int64 [sizes]."""
        name = "sizes." + "x".join(map(str, sizes))
        if name not in self._size_names:
            self._size_names.add(name)
            self.composer.constant(name, np.array(sizes))
        return name
