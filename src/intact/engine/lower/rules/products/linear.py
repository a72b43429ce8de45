"""Lowers products of codes with a constant matrix."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.weighted_layer import lower_weighted
from intact.engine.lower.base.weights import weight_of
from intact.engine.lower.base.wide_weights import split_weight
from intact.engine.lower.rules.elements.split_quantize import codes_read
from intact.engine.steps import Epilogue, Linear, Step
from intact.graph import Node


def lower_linear(
    builder: PlanBuilder, fused: Fused, out_axis: int, alpha: float = 1.0, beta: float = 1.0
) -> list[Node]:
    """Lower a product of codes with a constant matrix.

    Args:
        out_axis: The axis of the weight along which outputs lie.
        alpha, beta: Factors of the product and of the bias.
    Raises:
        NoMatch: The weight is no constant matrix of codes, or its sums may leave int32.
    """
    node = fused.root
    read = codes_read(builder, node.inputs[0])
    value = node.inputs[1]
    if value is None or value.shape is None or len(value.shape) != 2:
        raise NoMatch("its weight is no matrix")
    read, weight = split_weight(builder, node, read, weight_of(builder, value, out_axis), -1)

    def step(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        return [Linear(name, done, read.x, y, w, epilogue, read.low)]

    return lower_weighted(builder, fused, read, weight, weight.codes, step, alpha=alpha, beta=beta)
