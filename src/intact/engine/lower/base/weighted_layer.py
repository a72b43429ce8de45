"""Layers with constant weights in codes, with the bias, residual and activation that stand behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.epilogue import (
    Tail,
    finish,
    take_affine,
    take_bounds,
    take_residual,
    take_slope,
)
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.operand import CodesRead
from intact.engine.lower.base.weights import Weight, bias_of, prove, prove_joined
from intact.engine.steps import Conv, Epilogue, Linear, Step
from intact.graph import Node, ops


def function_of(nodes: Sequence[Node], name: str) -> str | None:
    """Return the name in `numerics.FUNCTIONS` of what `nodes` compute; None where it has none.

    Args:
        nodes: One node, or several that exporters write for one function.
        name: The function's name in reports, by which several nodes are known.
    """
    record = ops.read(nodes[0]) if len(nodes) == 1 else ops.NAMED_FUNCTIONS.get(name)
    return record.step or None if isinstance(record, ops.Function) else None


MakeSteps = Callable[[str, str, str, Epilogue, tuple[str, ...]], list[Step]]


def lower_weighted(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, packed: NDArray[np.int8],
    make: MakeSteps, *, alpha: float = 1.0, beta: float = 1.0,
) -> list[Node]:  # fmt: skip
    """Lower a layer with constant weights: prove its sums, fuse the nodes behind it, and write its steps.

    Args:
        read: The codes that it multiplies.
        weight: [out, in / groups, ...], with its scales.
        packed: The codes of the weight as the steps name them.
        make: Makes the steps of a name, an output, a weight, an epilogue and nodes.
        alpha, beta: Factors of the product and of the bias.
    Returns:
        The nodes that it could not take in.
    Raises:
        NoMatch: Sums may leave int32, or the bias is none that a layer adds.
    """
    node = fused.root
    x = read.codes
    added = node.inputs[2] if len(node.inputs) > 2 and beta else None  # times 0 it is not read: N51
    bias = bias_of(builder, added, x.scale, weight)
    if bias.integer is not None and (alpha, beta) != (1.0, 1.0):
        raise NoMatch("it scales a bias that is part of its sum")
    shift = 0
    most: NDArray[np.int64] | int = 2**31 - 1
    if read.low:
        shift = prove_joined(weight, (x.low, x.high), x.zero_point, bias.integer)
    else:
        most = prove(weight, x, bias.integer)
    tail = Tail([node], node.outputs[0], weight.codes.shape[0], alpha)
    if bias.real is not None:
        tail.bias = bias.real if beta == 1.0 else (bias.real * np.float64(beta)).astype(np.float32)
    left = take_tail(builder, fused, tail)
    name = node.name or ""
    still = np.asarray(~weight.codes.any(axis=tuple(range(1, weight.codes.ndim))))
    if bias.integer is not None:
        still &= bias.integer == 0
    epilogue, output = finish(
        builder, tail, (x.scale * 2**shift, weight.scale), name,
        most=most, integer_bias=bias.integer, still=still,
    )  # fmt: skip
    w = builder.hold(f"{name}.weight", packed)
    done = tuple(n.name or "" for n in tail.nodes)
    for step in make(name, output.name, w, epilogue, done):
        if isinstance(step, Conv | Linear):
            step = replace(step, shift=shift)
        builder.add(step, *tail.nodes)
    return left


def take_tail(builder: PlanBuilder, fused: Fused, tail: Tail) -> list[Node]:
    """Take the nodes of `fused` that an epilogue can hold, in order; return the others."""
    for node in fused.affine:
        if not take_affine(builder, tail, node):
            return _rest(fused, tail)
    add, last = fused.residual, fused.activation
    if add is not None and not take_residual(builder, tail, add):
        return _rest(fused, tail)
    if len(last) == 1 and (take_bounds(builder, tail, last[0]) or take_slope(builder, tail, last[0])):
        return []
    if last and (function := function_of(last, fused.function)) is not None:
        tail.activation = function
        tail.nodes += last
        tail.output = last[-1].outputs[0]
    return _rest(fused, tail)


def _rest(fused: Fused, tail: Tail) -> list[Node]:
    return [node for node in fused.nodes if node not in tail.nodes]
