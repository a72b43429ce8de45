"""Lowers LinearAttention of ONNX, and of com.microsoft, to a step over a state."""

from __future__ import annotations

from math import sqrt

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import who
from intact.engine.steps import Function, LinearAttention
from intact.graph import Node, input_of, ops, set_shape

_DECAY, _BETA = ("gated", "gated_delta"), ("delta", "gated_delta")
"""Rules that have factors of the state, and those that add differences."""


def lower_linear_attention(builder: PlanBuilder, node: Node) -> None:
    """Lower a LinearAttention: factors are the exponentials of its decays."""
    form = ops.LinearAttention.of(node) if not node.domain else ops.RuntimeLinearAttention.of(node)
    if form.update_rule not in ("linear", *_DECAY, *_BETA):
        raise NoMatch(f"its rule is '{form.update_rule}'")
    q, k, v = (builder.real(value) for value in node.inputs[:3])
    past, decay, beta = (
        builder.real(value) if value is not None else "" for value in (input_of(node, at) for at in (3, 4, 5))
    )
    needs = ((decay, _DECAY, "decays"), (beta, _BETA, "rates"))
    for operand, rules, what in needs:
        if bool(operand) != (form.update_rule in rules):
            raise NoMatch(
                f"its rule is '{form.update_rule}', and {what} are {'' if operand else 'not '}there"
            )
    heads, kv_heads = form.q_num_heads, form.kv_num_heads
    size, value_size = (_size(builder, x, kv_heads) for x in (k, v))
    if beta and builder.tensors[beta].shape[2] != kv_heads:
        raise NoMatch("heads share one rate")
    factors = ""
    if decay:
        factors = builder.scratch(f"{node.name}.factors", "float32", builder.tensors[decay].shape)
        builder.add(Function(*who(node), decay, factors, "exp"))
    shape = builder.tensors[q].shape
    set_shape(node.outputs[0], (*shape[:2], heads * value_size))
    y = builder.write_plain(node.outputs[0], "float32")
    state_shape = (shape[0], kv_heads, size, value_size)
    if len(node.outputs) > 1 and node.outputs[1].name:
        set_shape(node.outputs[1], state_shape)
        state = builder.write_plain(node.outputs[1], "float32")
    else:
        state = builder.scratch(f"{node.name}.state", "float32", state_shape)
    scale = form.scale or 1 / sqrt(size)
    step = LinearAttention(*who(node), q, k, v, y, state, heads, kv_heads, scale, past, factors, beta)
    builder.add(step, node)


def _size(builder: PlanBuilder, x: str, heads: int) -> int:
    """Return the size of a head of x [batch, tokens, heads * size]."""
    shape = builder.tensors[x].shape
    if len(shape) != 3 or not isinstance(shape[2], int) or heads < 1 or shape[2] % heads:
        raise NoMatch(f"'{x}' has shape {shape}, not {heads} heads of a known size")
    return shape[2] // heads
