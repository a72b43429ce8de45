"""Reasons why operators stay in float, by kind and by name."""

from __future__ import annotations

from intact.graph.ops import BOOK, Kind

_SUMS = "its sums and roots need float"
_ORDER = "it compares or sorts floats, and close ones would become equal"
_CONTROL = "its subgraphs run in float"
_STATE = "its state feeds back into itself, so that every step would add error"

_BY_KIND: dict[Kind, str] = {"norm": _SUMS, "order": _ORDER, "control": _CONTROL, "recurrent": _STATE}
_BY_NAME = {
    "Softmax": "its exponentials need float; what reads it may quantize it",
    "LogSoftmax": "its exponentials need float; what reads it may quantize it",
    "GroupQueryAttention": "its exponentials need float",
    "CausalConvWithState": _STATE,
    "LinearAttention": _STATE,
    "GatherBlockQuantized": "it reads rows of codes, and writes them as floats",
    "BatchNormalization": "no convolution in front of it takes it in",
    "Cast": "it changes the type",
    "If": "what its branches hold is decided node by node",
    "Attention": "sizes of its heads are not known, or several nodes cannot say what it does",
}
"""Operators of which more is to be said than of their kind."""

DEFAULT_REASON = "no rule runs it in int8"


def float_reason(op_type: str, domain: str) -> str:
    """Return why an operator without a rule stays in float."""
    domain = "" if domain == "ai.onnx" else domain
    record = BOOK.get((domain, op_type))
    if record is None and domain:
        return f"an operator of the domain '{domain}', whose meaning is not known here"
    by_kind = _BY_KIND.get(record.kind, DEFAULT_REASON) if record is not None else DEFAULT_REASON
    return _BY_NAME.get(op_type, by_kind)
