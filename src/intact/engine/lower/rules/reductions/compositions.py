"""Operators of floats that are several steps: norms of planes, other sums, means of windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, is_float32
from intact.engine.lower.base.chain import Shape, StepChain
from intact.engine.lower.base.window import LoweredWindow, pads_of_window, window
from intact.engine.lower.rules.moves.moves import Rule
from intact.engine.lower.rules.products.gemm import as_image, image_dims
from intact.engine.lower.rules.products.volumes import average_over_volumes
from intact.engine.steps import Binary, FloatConv, Reshape
from intact.engine.steps.base.dims import Dim
from intact.engine.steps.base.window import Pair
from intact.graph import Node, ops

# -- along axes


def _reduced(builder: PlanBuilder, node: Node) -> tuple[str, Shape, tuple[int, ...], bool, Shape]:
    """What a reduction reads, its shape, the axes, whether they stay, and the shape with them as 1."""
    x, said = builder.real(node.inputs[0]), ops.Reduction.of(node)
    shape = builder.tensors[x].shape
    given = said.axes_of(node, builder.constants)
    if given is None:
        raise NoMatch("its axes is not a constant")
    everything = () if said.noop_with_empty_axes else range(len(shape))
    axes = tuple(sorted({axis % len(shape) for axis in given} or everything))
    kept: Shape = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return x, shape, axes, bool(said.keepdims), kept


def _sum_of(before: str, behind: str) -> Rule:
    """A sum of squares or magnitudes, and a function of it; "" for none."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        x, shape, axes, keepdims, _ = _reduced(builder, node)
        chain = StepChain(builder, node)
        if before == "square":
            x = chain.binary("mul", x, x, shape)
        elif before == "magnitude":
            x = chain.binary("max", x, chain.binary("mul", x, chain.number("minus", -1.0), shape), shape)
        made = dims_of(chain.value)
        found = chain.reduce("sum", x, axes, keepdims, made, "" if behind else chain.y)
        if behind:
            chain.function(behind, found, made, chain.y)

    return rule


def _log_sum_exp(builder: PlanBuilder, node: Node) -> None:
    """Of what is left below the largest one, so that no exponential overflows."""
    x, shape, axes, keepdims, kept = _reduced(builder, node)
    chain, made = StepChain(builder, node), dims_of(node.outputs[0])
    most = float(np.finfo(np.float32).max)
    largest = chain.reduce("max", x, axes, True, kept)
    # Finite, so that infinities come out of exp and log as they are, and not as inf - inf.
    largest = chain.binary("min", largest, chain.number("most", most), kept)
    largest = chain.binary("max", largest, chain.number("least", -most), kept)
    below = chain.binary("sub", x, largest, shape)
    total = chain.reduce("sum", chain.function("exp", below, shape), axes, keepdims, made)
    chain.binary("add", chain.function("log", total, made), chain.reshape(largest, made), made, chain.y)


def _log_softmax(builder: PlanBuilder, node: Node) -> None:
    x = builder.real(node.inputs[0])
    shape = builder.tensors[x].shape
    axis = ops.LogSoftmax.of(node).axis % len(shape)
    kept: Shape = (*shape[:axis], 1, *shape[axis + 1 :])
    chain = StepChain(builder, node)
    below = chain.binary("sub", x, chain.reduce("max", x, (axis,), True, kept), shape)
    total = chain.reduce("sum", chain.function("exp", below, shape), (axis,), True, kept)
    chain.binary("sub", below, chain.function("log", total, kept), shape, chain.y)


# -- of several tensors


def _sum_of_all(builder: PlanBuilder, node: Node) -> None:
    """Sum and Mean of any number of tensors, one after the other."""
    value, operands = node.outputs[0], [builder.either(x) for x in node.inputs]
    shape, mean = dims_of(value), node.op_type == "Mean"
    if len(operands) == 1 and not mean:
        raise NoMatch("it adds nothing")
    chain = StepChain(builder, node)
    total = operands[0]
    for i, other in enumerate(operands[1:], 2):
        total = chain.binary("add", total, other, shape, chain.y if i == len(operands) and not mean else "")
    if mean:
        chain.binary("div", total, chain.number("count", len(operands)), shape, chain.y)


# -- norms


def _instance_norm(builder: PlanBuilder, node: Node) -> None:
    _norm_of_groups(builder, node, None, ops.InstanceNormalization.of(node).epsilon)


def _group_norm(builder: PlanBuilder, node: Node) -> None:
    said = ops.GroupNormalization.of(node)
    _norm_of_groups(builder, node, said.num_groups, said.epsilon)


def _norm_of_groups(builder: PlanBuilder, node: Node, groups: int | None, epsilon: float) -> None:
    """Rows of all that is normalized together, as in LayerNormalization; then a factor for each channel.

    Args:
        groups: Of channels; None: each is one.
    """
    x = builder.real(node.inputs[0])
    shape = builder.tensors[x].shape
    channels = shape[1] if len(shape) > 2 else None
    if not isinstance(channels, int):
        raise NoMatch("it is no norm of a known number of channels")
    groups = channels if groups is None else groups
    scale, bias = (_by_channel(builder, node, index, channels, groups) for index in (1, 2))
    row = [channels // groups, *shape[2:]]
    known = all(isinstance(n, int) for n in row)
    if not known and not isinstance(shape[0], int):
        raise NoMatch("neither the size of a batch nor that of a plane is known")
    left = prod(n for n in row if isinstance(n, int)) if known else f"{node.outputs[0].name}.row"

    chain, rows = StepChain(builder, node), (shape[0], groups, left)
    ones, zeros = bool((scale == 1).all()), bool((bias == 0).all())
    normal = chain.layer_norm(chain.reshape(x, rows), epsilon, rows, last=ones and zeros)
    plain = chain.reshape(normal, shape, chain.y if ones and zeros else "")
    each = (channels, *[1] * (len(shape) - 2))
    if not ones:
        held = chain.hold("scale", scale.reshape(each))
        plain = chain.binary("mul", plain, held, shape, chain.y if zeros else "")
    if not zeros:
        chain.binary("add", plain, chain.hold("bias", bias.reshape(each)), shape, chain.y)


def _by_channel(
    builder: PlanBuilder, node: Node, index: int, channels: int, groups: int
) -> NDArray[np.float32]:
    """A constant of a number for each channel, or, as GroupNormalization-18 has it, for each group."""
    array = builder.constant(node.inputs[index], "its scale or bias")
    if array.dtype != np.float32 or array.size not in (channels, groups):
        raise NoMatch("its scale or bias is no float32 vector")
    return np.repeat(array.reshape(-1), channels // array.size)


def _rms_norm(builder: PlanBuilder, node: Node) -> None:
    """``x / sqrt(mean(x * x) + epsilon) * scale``."""
    x, said = builder.real(node.inputs[0]), ops.RMSNormalization.of(node)
    shape = builder.tensors[x].shape
    axes = range(said.axis % len(shape), len(shape))
    kept: Shape = tuple(1 if i in axes else n for i, n in enumerate(shape))
    scale = builder.either(node.inputs[1])
    chain = StepChain(builder, node)
    mean = chain.reduce("mean", chain.binary("mul", x, x, shape), axes, True, kept)
    deviation = chain.function(
        "sqrt", chain.binary("add", mean, chain.number("epsilon", said.epsilon), kept), kept
    )
    chain.binary("mul", chain.binary("div", x, deviation, shape), scale, shape, chain.y)


def _lrn(builder: PlanBuilder, node: Node) -> None:
    """``x / (bias + alpha / size * the squares of `size` neighbouring channels) ** beta``."""
    x, said = builder.real(node.inputs[0]), ops.LRN.of(node)
    shape = builder.tensors[x].shape
    channels = shape[1] if len(shape) == 4 else None
    if not isinstance(channels, int):
        raise NoMatch("it is no norm of images of a known number of channels")
    before = (said.size - 1) // 2
    apart = np.arange(channels)[None] - np.arange(channels)[:, None] + before
    near = ((apart >= 0) & (apart < said.size))[:, None, None]
    chain, who = StepChain(builder, node), (node.name or "", (node.name or "",))
    weight = chain.hold("neighbours", (near * (said.alpha / said.size)).astype(np.float32))
    bias = chain.hold("bias", np.full(channels, said.bias, np.float32))
    squares = chain.binary("mul", x, x, shape)
    sums = builder.scratch(f"{chain.value.name}.sums", "float32", shape)
    builder.add(FloatConv(*who, squares, sums, weight, bias, (1, 1), (1, 1), (0, 0, 0, 0), 1))
    log = chain.function("log", sums, shape)
    scale = chain.function("exp", chain.binary("mul", log, chain.number("beta", -said.beta), shape), shape)
    chain.binary("mul", x, scale, shape, chain.y)


# -- means of windows


def _average_pool(builder: PlanBuilder, node: Node) -> None:
    """Sums, by a convolution of each channel, divided by how many elements each of them counts."""
    x, said, value = builder.real(node.inputs[0]), ops.AveragePool.of(node), node.outputs[0]
    shape, made = builder.tensors[x].shape, dims_of(value)
    if len(shape) == 5:
        _average_of_volumes(builder, node, x, said)
        return
    laid, kernel = window(node, said, said.kernel_shape), (1, *said.kernel_shape)[-2:]
    channels = shape[1] if len(shape) in (3, 4) else None
    if not isinstance(channels, int) or not channels or not is_float32(value):
        raise NoMatch("it is no pool of images or sequences of a known number of channels")
    who = node.name or "", (node.name or "",)
    if flat := len(shape) == 3:
        x, before = as_image(builder, x, *who)
        for step in before:
            builder.add(step)
        shape, made = image_dims(shape), image_dims(made)
    plain = not said.ceil_mode and (bool(said.count_include_pad) or not any(laid.pads))
    weight = builder.hold(f"{node.name}.window", np.ones((channels, *kernel, 1), np.float32))

    def sums(y: str, pads: tuple[int, int, int, int]) -> str:
        conv = FloatConv(*who, x, y, weight, "", laid.strides, laid.dilations, pads, channels)
        builder.add(conv, node)
        return y

    pooled = builder.scratch(f"{value.name}.sums", "float32", made)
    counts: NDArray[np.float32] = np.array(prod(kernel), np.float32)
    pads = laid.pads
    if not plain:
        counts, pads = _counted(said, kernel, shape[2:], made[2:], laid)
    held = builder.hold(f"{node.name}.counts", np.asarray(counts, np.float32))
    if flat:
        y = builder.scratch(f"{value.name}.means", "float32", made)
    else:
        y = builder.write(builder.output(value), value)
    builder.add(Binary(*who, "div", sums(pooled, pads), held, y))
    if flat:
        builder.add(Reshape(*who, y, builder.write_plain(value, "float32")))


def _average_of_volumes(builder: PlanBuilder, node: Node, x: str, said: ops.AveragePool) -> None:
    """The same over planes; each window counts all elements under it."""
    channels, value = builder.tensors[x].shape[1], node.outputs[0]
    if not isinstance(channels, int) or not channels or not is_float32(value):
        raise NoMatch("it is no pool of volumes of a known number of channels")
    if not said.count_include_pad and any(pads_of_window(node, said, said.kernel_shape)):
        raise NoMatch("its windows reach over the rim of a volume, and count what is inside")
    part = np.float32(1 / prod(said.kernel_shape))

    def pool(image: str, made: str, kernel: Pair, laid: LoweredWindow) -> FloatConv:
        weight = builder.hold(f"{node.name}.window", np.full((channels, *kernel, 1), part, np.float32))
        who = node.name or "", (node.name or "",)
        return FloatConv(*who, image, made, weight, "", laid.strides, laid.dilations, laid.pads, channels)

    average_over_volumes(builder, node, x, builder.write_plain(value, "float32"), pool)


def _counted(
    said: ops.AveragePool,
    kernel: Sequence[int],
    sizes: Sequence[Dim],
    outputs: Sequence[Dim],
    laid: LoweredWindow,
) -> tuple[NDArray[np.float32], tuple[int, int, int, int]]:
    """How many elements each window counts, float32 [1, 1, *outputs], and the pads that all of them want."""
    found, ends = [], []
    for axis, (n, out, k) in enumerate(zip(sizes, outputs, kernel, strict=True)):
        if not isinstance(n, int) or not isinstance(out, int):
            raise NoMatch("windows reach over a rim whose place is not known")
        stride, hop, before, behind = (
            laid.strides[axis], laid.dilations[axis], laid.pads[axis], laid.pads[axis + 2],
        )  # fmt: skip
        places = np.arange(out)[:, None] * stride - before + np.arange(k) * hop
        rim = (before, behind) if said.count_include_pad else (0, 0)
        found.append(((places >= -rim[0]) & (places < n + rim[1])).sum(axis=1))
        ends.append(max(behind, int(places.max(initial=0)) - n + 1))
    counts = np.outer(*found).astype(np.float32)[None, None]
    if not counts.all():
        raise NoMatch("a window lies in its pads alone")
    return counts, (laid.pads[0], laid.pads[1], ends[0], ends[1])


COMPOSITIONS: dict[str, Rule] = {
    "AveragePool": _average_pool,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "LogSoftmax": _log_softmax,
    "Mean": _sum_of_all,
    "ReduceL1": _sum_of("magnitude", ""),
    "ReduceL2": _sum_of("square", "sqrt"),
    "ReduceLogSum": _sum_of("", "log"),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _sum_of("square", ""),
    "RMSNormalization": _rms_norm,
    "Sum": _sum_of_all,
}
"""Operator -> how it becomes steps."""
