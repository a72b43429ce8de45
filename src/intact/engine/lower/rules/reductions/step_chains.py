"""Lowers norms and reductions that no kernel has, to several steps."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import Shape, StepChain
from intact.engine.lower.rules.reductions.reduce import reduction_of
from intact.engine.steps import FloatConv
from intact.graph import Node, ops


def lower_log_softmax(builder: PlanBuilder, node: Node) -> None:
    """Lower LogSoftmax: x less the largest one, less the logarithm of the sum of exponentials."""
    x = builder.real(node.inputs[0])
    shape = builder.tensors[x].shape
    axis = ops.LogSoftmax.of(node).axis % len(shape)
    reduced: Shape = (*shape[:axis], 1, *shape[axis + 1 :])
    chain = StepChain(builder, node)
    below = chain.binary("sub", x, chain.reduce("max", x, (axis,), True, reduced), shape)
    total = chain.reduce("sum", chain.function("exp", below, shape), (axis,), True, reduced)
    chain.binary("sub", below, chain.function("log", total, reduced), shape, chain.y)


def lower_lrn(builder: PlanBuilder, node: Node) -> None:
    """Lower LRN: ``x / (bias + alpha / size * the squares of `size` neighbouring channels) ** beta``."""
    x, op = builder.real(node.inputs[0]), ops.LRN.of(node)
    shape = builder.tensors[x].shape
    channels = shape[1] if len(shape) == 4 else None
    if not isinstance(channels, int):
        raise NoMatch("it is no norm of images of a known number of channels")
    before = (op.size - 1) // 2
    apart = np.arange(channels)[None] - np.arange(channels)[:, None] + before
    near = ((apart >= 0) & (apart < op.size))[:, None, None]
    chain, step_names = StepChain(builder, node), (node.name or "", (node.name or "",))
    weight = chain.hold("neighbours", (near * (op.alpha / op.size)).astype(np.float32))
    bias = chain.hold("bias", np.full(channels, op.bias, np.float32))
    squares = chain.binary("mul", x, x, shape)
    sums = builder.scratch(f"{chain.value.name}.sums", "float32", shape)
    builder.add(FloatConv(*step_names, squares, sums, weight, bias, (1, 1), (1, 1), (0, 0, 0, 0), 1))
    log = chain.function("log", sums, shape)
    scale = chain.function("exp", chain.binary("mul", log, chain.number("beta", -op.beta), shape), shape)
    chain.binary("mul", x, scale, shape, chain.y)


def lower_reduce_log_sum_exp(builder: PlanBuilder, node: Node) -> None:
    """Lower ReduceLogSumExp, less the largest element first, so that no exponential overflows."""
    x, shape, axes, keepdims, reduced = reduction_of(builder, node)
    chain, output_dims = StepChain(builder, node), dims_of(node.outputs[0])
    most = float(np.finfo(np.float32).max)
    largest = chain.reduce("max", x, axes, True, reduced)
    # Finite, so that infinities come out of exp and log as they are, and not as inf - inf.
    largest = chain.binary("min", largest, chain.number("most", most), reduced)
    largest = chain.binary("max", largest, chain.number("least", -most), reduced)
    below = chain.binary("sub", x, largest, shape)
    total = chain.reduce("sum", chain.function("exp", below, shape), axes, keepdims, output_dims)
    chain.binary(
        "add",
        chain.function("log", total, output_dims),
        chain.reshape(largest, output_dims),
        output_dims,
        chain.y,
    )


def lower_rms_norm(builder: PlanBuilder, node: Node) -> None:
    """Lower RMSNormalization: ``x / sqrt(mean(x * x) + epsilon) * scale``."""
    x, op = builder.real(node.inputs[0]), ops.RMSNormalization.of(node)
    shape = builder.tensors[x].shape
    axes = range(op.axis % len(shape), len(shape))
    reduced: Shape = tuple(1 if i in axes else n for i, n in enumerate(shape))
    scale = builder.either(node.inputs[1])
    chain = StepChain(builder, node)
    mean = chain.reduce("mean", chain.binary("mul", x, x, shape), axes, True, reduced)
    deviation = chain.function(
        "sqrt", chain.binary("add", mean, chain.number("epsilon", op.epsilon), reduced), reduced
    )
    chain.binary("mul", chain.binary("div", x, deviation, shape), scale, shape, chain.y)
