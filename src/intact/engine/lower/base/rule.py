"""Rules, and what they have in common: what a node reads, what it makes, and what its steps are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.files.limits import DTYPES
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, new_sizes
from intact.engine.lower.base.fused import Fused
from intact.engine.steps import STRING, Dim, Tensor
from intact.engine.steps.base.dims import expression
from intact.graph import Node, Value, input_of, set_shape

Rule = Callable[[PlanBuilder, Node], None]
"""Writes the steps of one node, or raises NoMatch."""

LayerRule = Callable[[PlanBuilder, Fused], list[Node]]
"""Writes the step of a layer, or raises NoMatch; returns the nodes of it that it could not take in."""


def data(builder: PlanBuilder, value: Value | None) -> Tensor:
    """Return the tensor that an operator moves: codes that are codes in the graph too, or numbers of any
    type."""
    tensor = builder.tensors.get((value.name if value is not None else "") or "")
    if tensor is None or tensor.codes is None:
        tensor = builder.tensors[builder.real(value)]
    if tensor.dtype not in DTYPES:
        raise NoMatch(f"it moves {tensor.dtype}")
    return tensor


def plain(builder: PlanBuilder, value: Value | None) -> Tensor:
    """Return a tensor of numbers of any type, or the constant in its place."""
    array = builder.constants(value)
    if array is None or value is None:
        tensor = builder.tensors[builder.real(value)]
    else:
        dtype = STRING if array.dtype.kind == "O" else array.dtype.name
        tensor = Tensor(builder.hold(value.name or "", array), dtype, array.shape)
    if tensor.dtype not in DTYPES:
        raise NoMatch(f"no kernel knows {tensor.dtype}")
    return tensor


def data_or_constant(builder: PlanBuilder, value: Value | None) -> Tensor:
    """Return what `data` returns, or the constant in its place."""
    return plain(builder, value) if value in builder.constants else data(builder, value)


def define_like(builder: PlanBuilder, value: Value, like: Tensor) -> str:
    """Define the output of an operator that keeps the dtype and codes of its input."""
    if like.codes is not None:
        return builder.write_codes(value, like.codes)
    return builder.write_plain(value, like.dtype)


def tell(value: Value, sizes: Sequence[Dim]) -> None:
    """Declare the sizes of an output, where the graph has names of its own for several.

    Behind sizes that data decide, nothing else declares them.
    """
    if len(new_sizes(dims_of(value), tuple(sizes))) > 1:
        set_shape(value, sizes)


def between(builder: PlanBuilder, name: str, like: Tensor, shape: tuple[Dim, ...]) -> str:
    """Define the tensor between two steps of one node, which the graph does not have."""
    return builder.scratch(name, like.dtype, shape, like.codes)


def who(node: Node) -> tuple[str, tuple[str, ...]]:
    """Name and nodes of a step that does `node` alone."""
    return node.name or "", (node.name or "",)


def has(node: Node, index: int) -> bool:
    """Return whether `node` has this input."""
    return input_of(node, index) is not None


def numbers(builder: PlanBuilder, node: Node, index: int) -> list[int]:
    """Return the numbers of a constant input of integers.

    Raises:
        NoMatch: It is computed.
    """
    array: NDArray[np.generic] = builder.constant(node.inputs[index], f"its input {index}")
    return [int(n) for n in array.reshape(-1)]


def between_floats(builder: PlanBuilder, value: Value, index: int) -> str:
    """Define the floats, of the shape of `value`, between two of the steps that make it."""
    return builder.scratch(f"{value.name}.{index}", "float32", dims_of(value))


def scalar(builder: PlanBuilder, node: Node, key: str, number: float) -> str:
    """Store a constant without axes, so that a tensor without axes keeps none."""
    return builder.hold(f"{node.name}.{key}", np.array(number, np.float32))


def present(value: Value | None) -> Value:
    """Return an operand that no valid file leaves out."""
    assert value is not None, "both operands of an Add are there"
    return value


def product_of_sizes(dims: tuple[Dim, ...], name: str) -> Dim:
    """Multiply several sizes into one; the product gets a name where one of them is not known."""
    product: Dim | None = 1
    for dim in dims:
        product = None if product is None else expression("*", product, dim)
    return name if product is None else product
