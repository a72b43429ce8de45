"""Lowers ReduceLogSumExp."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.engine.lower.rules.reductions.reduce import reduction_of
from intact.graph import Node


def lower_reduce_log_sum_exp(builder: PlanBuilder, node: Node) -> None:
    """Lower with the largest element subtracted first, so that no exponential overflows."""
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
