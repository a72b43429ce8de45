"""Lowers LRN."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.chain import StepChain
from intact.engine.steps import FloatConv
from intact.graph import Node, ops


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
