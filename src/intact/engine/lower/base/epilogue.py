"""Build an `Epilogue` of what follows a sum: BatchNorm, scales, offsets, a residual Add, an activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, Output, PlanBuilder, dims_of, in_range
from intact.engine.steps import Codes, Epilogue
from intact.graph import Node, Value, is_op, ops

AFFINE = frozenset({"BatchNormalization", "Add", "Sub", "Mul", "Div"})


@dataclass
class Tail:
    """Operations behind a sum, in the file's order: bias, gain, shift, residual, then bounds or a function.

    Attributes:
        nodes: What has been taken in so far, the layer itself first.
        output: What the last of them makes.
        channels: How many it has; None where one number for all of them must do, and nothing is added.
        alpha: Factor of the sum that its operator has itself: Gemm's.
        bias: float32, one number or [channels]; None for none.
        gain, shift: float32, one number or [channels]: a factor behind the bias, and what is added behind
            that; None for none.
        quotient: What reals are divided by in place of a gain, where there are no channels; 1 for none.
        residual: The tensor of codes that is added.
        activation: A function of `numerics`; "" for none.
        low, high: Bounds of the real output.
        slope: One number, or [channels], by which what is below 0 is multiplied.
    """

    nodes: list[Node]
    output: Value
    channels: int | None = None
    alpha: float = 1.0
    bias: NDArray[np.float32] | None = None
    gain: NDArray[np.float32] | None = None
    shift: NDArray[np.float32] | None = None
    quotient: float = 1.0
    residual: tuple[str, Codes] | None = None
    activation: str = ""
    low: float | None = None
    high: float | None = None
    slope: NDArray[np.float32] | None = None

    def take(self, node: Node, output: Value) -> None:
        """Take `node` into the layer, which makes `output` from now on."""
        self.nodes.append(node)
        self.output = output

    def multiply(self, factor: NDArray[np.float32]) -> bool:
        """Multiply the tail by numbers; return False where it has no place for them."""
        if self.gain is not None or self.quotient != 1:
            return False
        self.gain = factor
        return True

    def divide(self, divisor: NDArray[np.float32]) -> bool:
        """Divide by numbers, as `multiply`; a power of two is a factor, too."""
        if (np.abs(np.frexp(divisor)[0]) == 0.5).all():
            return self.multiply(np.reciprocal(divisor))
        if self.channels is not None or self.gain is not None or self.quotient != 1 or not divisor.all():
            return False
        self.quotient = float(divisor)
        return True

    def add(self, term: NDArray[np.float32]) -> bool:
        """Add numbers to the tail; return False where it has no place for them."""
        if self.channels is None or self.shift is not None:
            return False
        if self.bias is None and self.gain is None:
            self.bias = term
            return True
        if self.gain is None:
            self.gain = np.ones((), np.float32)
        self.shift = term
        return True


def take_affine(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    """Take in a BatchNormalization, or arithmetic with a constant per output channel; False for others.

    Each keeps its own float32 operations: what has no place left stays a node of its own.
    """
    if is_op(node, "BatchNormalization"):
        return _take_batchnorm(builder, tail, node)
    index = 0 if node.inputs[0] is tail.output else 1
    other = node.inputs[1 - index] if len(node.inputs) > 1 else None
    if not is_op(node, *AFFINE) or other not in builder.constants:
        return False
    if index == 1 and is_op(node, "Sub", "Div"):
        return False
    numbers = builder.constant(other, "its operand").astype(np.float32)
    if numbers.size not in (1, tail.channels) or not np.isfinite(numbers).all():
        return False
    # Placement saw that the axis fits.
    numbers = numbers.reshape(()) if numbers.size == 1 else numbers.reshape(-1)
    if is_op(node, "Add", "Sub"):
        fits = tail.add(numbers if node.op_type == "Add" else -numbers)
    elif is_op(node, "Div"):
        fits = tail.divide(numbers)
    else:
        fits = tail.multiply(numbers)
    if fits:
        tail.take(node, node.outputs[0])
    return fits


def _take_batchnorm(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    gamma, beta, mean, var = (
        builder.constant(v, "a parameter of BatchNormalization") for v in node.inputs[1:5]
    )
    rank = len(tail.output.shape) if tail.output.shape is not None else 0
    last = bool(tail.nodes) and is_op(tail.nodes[0], "Gemm", "MatMul")  # where the layer's channels are
    if gamma.size != tail.channels or (last and rank != 2) or tail.gain is not None:
        return False
    epsilon = ops.BatchNormalization.of(node).epsilon
    tail.gain, tail.shift = numerics.fold_batchnorm(gamma, beta, mean, var, epsilon)
    tail.take(node, node.outputs[0])
    return True


def take_residual(builder: PlanBuilder, tail: Tail, node: Node) -> bool:
    """Take in the Add of a tensor of codes of the same shape; False for anything else."""
    if not is_op(node, "Add") or tail.residual is not None:
        return False
    other = node.inputs[1] if node.inputs[0] is tail.output else node.inputs[0]
    name_and_codes = builder.codes(other)
    if (
        name_and_codes is None
        or other is tail.output
        or builder.tensors[name_and_codes[0]].shape != dims_of(tail.output)
    ):
        return False
    tail.residual = name_and_codes
    tail.take(node, node.outputs[0])
    return True


def finish(
    builder: PlanBuilder,
    tail: Tail,
    scales: Sequence[NDArray[np.float32] | float],
    name: str,
    *,
    most: NDArray[np.int64] | int,
    integer_bias: NDArray[np.int32] | None = None,
    still: NDArray[np.bool_] | None = None,
) -> tuple[Epilogue, Output]:
    """Build the epilogue of `tail`, and define the tensor that it writes.

    Args:
        builder: The plan.
        tail: What stands behind the sum.
        scales: Of the two factors of the products.
        name: The constants are called after it.
        most: The largest magnitude of a sum: of all, or of each output channel.
        integer_bias: Part of the sum, int32 [channels].
        still: Output channels whose sum is 0 for any input. A scale of weights that are all 0 is a number
            that nobody measured (1 by convention), far from the others; kernels have a slow form for results
            that may be that large, and one channel would bring it upon all.
    """
    output = builder.output(tail.output)
    first, second = (np.asarray(s, np.float32) for s in scales)
    with in_range():
        multiplier = np.atleast_1d(numerics.multipliers(first, second, gain=tail.alpha))
        for numbers in (tail.bias, tail.gain, tail.shift):
            if numbers is not None:
                numerics.scale_bias(numbers)
    if still is not None and still.any():
        multiplier = np.where(still, np.float32(0), multiplier)
    low, high = _bounds(tail, output)
    if output.grid is None:
        builder.write(output, tail.output)
    else:
        ends = (None, None) if tail.activation else (int(low or 0), int(high or 0))
        builder.write(output, tail.output, *ends)
    constants, divided = _constants(tail, output, multiplier, most)
    constant_names = {
        key: builder.hold(f"{name}.{key}", np.atleast_1d(numbers))
        for key, numbers in (*constants.items(), ("integer_bias", integer_bias), ("slope", tail.slope))
        if numbers is not None
    }
    low, high = (None, None) if tail.activation else (low, high)
    residual, scale = (tail.residual[0], tail.residual[1].scale) if tail.residual else ("", 0.0)
    return Epilogue(
        **constant_names, residual=residual, residual_multiplier=scale, activation=tail.activation,
        low=low, high=high, quotient=tail.quotient, divided=divided,
    ), output  # fmt: skip


def _constants(
    tail: Tail, output: Output, multiplier: NDArray[np.float32], most: NDArray[np.int64] | int
) -> tuple[dict[str, NDArray[np.float32] | None], bool]:
    """Compute the constants of an epilogue, and whether codes are divided though only a bias precedes."""
    formula = {"multiplier": multiplier, "bias": tail.bias, "gain": tail.gain, "shift": tail.shift}
    behind = tail.residual is not None or tail.slope is not None or tail.quotient != 1
    if output.grid is None or tail.activation or behind:
        return formula, False
    bias = np.zeros((), np.float32) if tail.bias is None else tail.bias
    gain = None
    if tail.gain is not None:
        gain = numerics.Gain(tail.gain) if tail.shift is None else numerics.Gain(tail.gain, tail.shift)
    with in_range():  # of the quotients, before they are formed in float32
        numerics.multipliers(multiplier[multiplier != 0], 1.0, output.grid.scale)
    spec, zero_point = output.grid.spec, output.grid.zero_point
    steps = int(spec.qmin) - zero_point, int(spec.qmax) - zero_point
    product_form = numerics.product_form(multiplier, bias, output.grid.scale, steps, most, gain=gain)
    if product_form is None:
        return formula, tail.gain is None
    product, offset = product_form
    return {"multiplier": product, "bias": offset if offset.any() else None}, False


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
