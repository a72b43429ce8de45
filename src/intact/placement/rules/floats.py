"""What stays in float, and why; one line for each operator that users ask about."""

from __future__ import annotations

_SUMS = "its sums and roots need float"
_ORDER = "it compares or sorts floats, and close ones would become equal"
_CONTROL = "its subgraphs run in float"
_STATE = "its state feeds back into itself, so that every step would add error"

FLOAT_REASONS = {
    "Softmax": "its exponentials need float; what reads it may quantize it",
    "LogSoftmax": "its exponentials need float; what reads it may quantize it",
    "LayerNormalization": _SUMS,
    "RMSNormalization": _SUMS,
    "GroupNormalization": _SUMS,
    "InstanceNormalization": _SUMS,
    "LpNormalization": _SUMS,
    "LRN": _SUMS,
    "BatchNormalization": "no convolution in front of it takes it in",
    "ArgMax": _ORDER,
    "ArgMin": _ORDER,
    "TopK": _ORDER,
    "NonMaxSuppression": _ORDER,
    "NonZero": _ORDER,
    "If": _CONTROL,
    "Loop": _CONTROL,
    "Scan": _CONTROL,
    "SequenceMap": _CONTROL,
    "LSTM": _STATE,
    "GRU": _STATE,
    "RNN": _STATE,
    "Cast": "it changes the type",
    "Attention": "it is one node; write it as MatMul, Softmax and MatMul to run its products in int8",
}
"""Operator -> why none of the rules applies to it."""

DEFAULT_REASON = "no rule runs it in int8"


def float_reason(op_type: str, domain: str) -> str:
    """Why an operator without a rule stays in float."""
    if domain not in ("", "ai.onnx"):
        return f"an operator of the domain '{domain}', whose meaning is not known here"
    return FLOAT_REASONS.get(op_type, DEFAULT_REASON)
