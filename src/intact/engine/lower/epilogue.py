"""What happens behind a sum as an `Epilogue`: BatchNorm, scaling, offsets, a residual Add, an activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.lower.builder import NoMatch, Output, PlanBuilder, dims_of, in_range
from intact.engine.lower.weights import Bias
from intact.engine.steps import Codes, Epilogue
from intact.graph import Node, Value, is_op, ops

AFFINE = frozenset({"BatchNormalization", "Add", "Sub", "Mul", "Div"})


@dataclass
class Tail:
    """``y = sum * gain + shift`` per output channel, in float64; then a residual and bounds or a function.

    Attributes:
        nodes: What has been taken in so far, the layer itself first.
        output: What the last of them makes.
        channels: How many it has; None where one number for all of them must do.
        gain, shift: One number, or [channels].
        residual: The tensor of codes that is added.
        activation: A function of `numerics`; "" for none.
        low, high: Bounds of the real output.
        slope: One number, or [channels], by which what is below 0 is multiplied.
    """

    nodes: list[Node]
    output: Value
    channels: int | None = None
    gain: NDArray[np.float64] = field(default_factory=lambda: np.ones(()))
    shift: NDArray[np.float64] = field(default_factory=lambda: np.zeros(()))
    residual: tuple[str, Codes] | None = None
    activation: str = ""
    low: float | None = None
    high: float | None = None
    slope: NDArray[np.float32] | None = None

    def take(self, node: Node, output: Value) -> None:
        """`node` is part of the layer, which now makes `output`."""
        self.nodes.append(node)
        self.output = output


def take_affine(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    """Take in a BatchNormalization, or arithmetic with a constant per output channel; False for others."""
    if is_op(node, "BatchNormalization"):
        return _take_batchnorm(builder, tail, node)
    index = 0 if node.inputs[0] is tail.output else 1
    other = node.inputs[1 - index] if len(node.inputs) > 1 else None
    if not is_op(node, *AFFINE) or other not in builder.constants:
        return False
    if index == 1 and is_op(node, "Sub", "Div"):
        return False
    factor = builder.constant(other, "its operand").astype(np.float64)
    if factor.size not in (1, tail.channels):
        return False
    factor = (
        factor.reshape(()) if factor.size == 1 else factor.reshape(-1)
    )  # placement saw that the axis fits
    if is_op(node, "Mul", "Div"):
        factor = factor if node.op_type == "Mul" else 1 / factor
        tail.gain, tail.shift = tail.gain * factor, tail.shift * factor
    else:
        tail.shift = tail.shift + (factor if node.op_type == "Add" else -factor)
    tail.take(node, node.outputs[0])
    return True


def _take_batchnorm(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    gamma, beta, mean, var = (
        builder.constant(v, "a parameter of BatchNormalization") for v in node.inputs[1:5]
    )
    rank = len(tail.output.shape) if tail.output.shape is not None else 0
    last = bool(tail.nodes) and is_op(tail.nodes[0], "Gemm", "MatMul")  # where the layer's channels are
    if gamma.size != tail.channels or (last and rank != 2):
        return False
    epsilon = float(np.float32(ops.BatchNormalization.of(node).epsilon))
    gain, tail.shift = numerics.fold_batchnorm(gamma, beta, mean, var, epsilon, tail.shift)
    tail.gain = tail.gain * gain
    tail.take(node, node.outputs[0])
    return True


def take_residual(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    """Take in the Add of a tensor of codes of the same shape; False for anything else."""
    if not is_op(node, "Add") or tail.residual is not None:
        return False
    other = node.inputs[1] if node.inputs[0] is tail.output else node.inputs[0]
    found = builder.codes(other)
    if found is None or other is tail.output or builder.tensors[found[0]].shape != dims_of(tail.output):
        return False
    tail.residual = found
    tail.take(node, node.outputs[0])
    return True


def finish(
    builder: PlanBuilder,
    tail: Tail,
    scales: Sequence[NDArray[np.float32] | float],
    bias: Bias,
    name: str,
    *,
    still: NDArray[np.bool_] | None = None,
) -> tuple[Epilogue, Output]:
    """The epilogue of `tail`, and what it writes; the tensor is defined.

    Args:
        builder: The plan.
        tail: Its `shift` includes the real bias.
        scales: Of the two factors of the products.
        bias: Its integer part goes into the sum.
        name: The constants are called after it.
        still: Output channels whose sum is 0 for any input. A scale of weights that are all 0 is a number
            that nobody measured (1 by convention), far from the others; kernels have a slow form for results
            that may be that large, and one channel would bring it upon all.
    """
    output = builder.output(tail.output)
    floats = output.grid is None or bool(tail.activation)
    y_scale = np.float32(1.0 if floats or output.grid is None else output.grid.scale)
    first, second = (np.asarray(s, np.float32) for s in scales)
    with in_range():
        m = np.atleast_1d(numerics.multipliers(first, second, y_scale, gain=tail.gain))
        if still is not None and still.any():
            m = np.where(still, np.copysign(np.float32(0), m), m)  # 0 times 0, and of the same sign
        shift = np.atleast_1d(numerics.scaled_bias(tail.shift, y_scale))
    multiplier = builder.hold(f"{name}.multiplier", m)
    b = ""
    if np.any(tail.shift):
        b = builder.hold(f"{name}.bias", shift)
    integers = "" if bias.integer is None else builder.hold(f"{name}.integer_bias", bias.integer)
    residual, r = "", 0.0
    if tail.residual is not None:
        residual = tail.residual[0]
        with in_range():
            r = float(numerics.ratio(np.float32(tail.residual[1].scale), y_scale))
    low, high = _bounds(tail, output)
    if output.grid is None:
        builder.write(output, tail.output)
    else:
        builder.write(
            output, tail.output, None if floats else int(low or 0), None if floats else int(high or 0)
        )
    ends = (None, None) if tail.activation else (low, high)
    slope = "" if tail.slope is None else builder.hold(f"{name}.slope", np.atleast_1d(tail.slope))
    return Epilogue(multiplier, b, integers, residual, r, tail.activation, *ends, slope=slope), output


def _bounds(tail: Tail, output: Output) -> tuple[float | None, float | None]:
    if output.grid is None:
        return tail.low, tail.high
    lower, upper = (-np.inf if tail.low is None else tail.low), (np.inf if tail.high is None else tail.high)
    return numerics.activation_bounds(lower, upper, *output.grid.affine, output.grid.spec)


def take_bounds(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    """Take in a Relu or a Clip with constant ends; False for anything else."""
    if is_op(node, "Relu"):
        tail.low = 0.0
    elif is_op(node, "Clip"):
        tail.low, tail.high = (_end(builder, node, i) for i in (1, 2))
        if tail.low is not None and tail.high is not None:
            tail.low = min(tail.low, tail.high)  # the upper bound wins
    else:
        return False
    tail.take(node, node.outputs[0])
    return True


def take_slope(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    """Take in a LeakyRelu, or a PRelu with a constant slope per output channel; False for anything else."""
    if is_op(node, "LeakyRelu"):
        slope = np.array([ops.LeakyRelu.of(node).alpha], np.float32)
    elif is_op(node, "PRelu") and node.inputs[1] in builder.constants and tail.output.shape is not None:
        slope = builder.constant(node.inputs[1], "its slope").astype(np.float32)
    else:
        return False
    behind = 0 if is_op(tail.nodes[0], "Gemm", "MatMul") else len(tail.output.shape or ()) - 2
    along = slope.ndim > behind and slope.shape[slope.ndim - 1 - behind] == slope.size == tail.channels
    if (slope.size != 1 and not along) or not np.isfinite(slope).all():
        return False
    tail.slope = slope.reshape(-1)
    tail.take(node, node.outputs[0])
    return True


def _end(builder: PlanBuilder, node: Node, index: int) -> float | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    end = float(builder.constant(value, "an end of Clip").reshape(-1)[0])
    if np.isnan(end) or end == (np.inf if index == 1 else -np.inf):
        raise NoMatch(f"an end of Clip is {end}")
    return end if np.isfinite(end) else None
