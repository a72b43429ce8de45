"""Shapes and types of the outputs of ONNX Runtime's operators with states of fixed size."""

from __future__ import annotations

from intact.graph.infer.runtime_shapes import InferenceNode, Info, Outputs, Rule
from intact.graph.ops import MICROSOFT


def _causal_conv(node: InferenceNode) -> Outputs:
    """Describe the sums, and the last tokens, which are fewer than there are taps."""
    x, taps = node.input(0), node.input(1).size(2)
    return [x, Info(x.dtype, (x.size(0), x.size(1), taps - 1 if isinstance(taps, int) else None))]


def _linear_attention(node: InferenceNode) -> Outputs:
    """Describe what queries read, and the state."""
    q, k, v = (node.input(at) for at in range(3))
    heads, kv_heads = node.integer("q_num_heads"), node.integer("kv_num_heads")
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{heads} heads of queries for {kv_heads} of keys")
    size, value_size = (
        width // kv_heads if isinstance(width, int) else None for width in (k.size(2), v.size(2))
    )
    columns = None if value_size is None else value_size * heads
    state = Info(q.dtype, (q.size(0), kv_heads, size, value_size))
    return [Info(q.dtype, (q.size(0), q.size(1), columns)), state]


STATE_RULES: dict[tuple[str, str], Rule] = {
    (MICROSOFT, "CausalConvWithState"): _causal_conv,
    (MICROSOFT, "LinearAttention"): _linear_attention,
}
"""By domain and operator."""
