"""Lowers GroupNormalization and InstanceNormalization."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.chain import StepChain
from intact.engine.lower.base.rule import product_of_sizes
from intact.graph import Node, ops


def lower_instance_norm(builder: PlanBuilder, node: Node) -> None:
    """Lower InstanceNormalization: each channel of each sample is normalized by itself."""
    _norm_of_groups(builder, node, None, ops.InstanceNormalization.of(node).epsilon)


def lower_group_norm(builder: PlanBuilder, node: Node) -> None:
    """Lower GroupNormalization: the channels of a group are normalized together."""
    op = ops.GroupNormalization.of(node)
    _norm_of_groups(builder, node, op.num_groups, op.epsilon)


def _norm_of_groups(builder: PlanBuilder, node: Node, groups: int | None, epsilon: float) -> None:
    """Write rows of all that is normalized together, as in LayerNormalization.

    Then a factor for each channel.

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
    is_static = all(isinstance(n, int) for n in row)
    left = product_of_sizes(tuple(row), f"{node.outputs[0].name}.row")
    if not is_static and not isinstance(shape[0], int) and not builder.is_told(left):
        raise NoMatch("neither the size of a batch nor that of a plane is known")

    chain, rows = StepChain(builder, node), (shape[0], groups, left)
    ones, zeros = bool((scale == 1).all()), bool((bias == 0).all())
    normal = chain.layer_norm(chain.reshape(x, rows), epsilon, rows, last=ones and zeros)
    plain = chain.reshape(normal, shape, chain.y if ones and zeros else "")
    each = (channels, *[1] * (len(shape) - 2))
    if not ones:
        scale_name = chain.hold("scale", scale.reshape(each))
        plain = chain.binary("mul", plain, scale_name, shape, chain.y if zeros else "")
    if not zeros:
        chain.binary("add", plain, chain.hold("bias", bias.reshape(each)), shape, chain.y)


def _by_channel(
    builder: PlanBuilder, node: Node, index: int, channels: int, groups: int
) -> NDArray[np.float32]:
    """Return a constant with a number for each channel, or, as GroupNormalization-18 has it, for each
    group."""
    array = builder.constant(node.inputs[index], "its scale or bias")
    if array.dtype != np.float32 or array.size not in (channels, groups):
        raise NoMatch("its scale or bias is no float32 vector")
    return np.repeat(array.reshape(-1), channels // array.size)
