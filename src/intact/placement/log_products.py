"""Finds products whose logarithm is taken, as in spectrograms, because codes lose their small results.

Codes stand at even distances: what lies below half a step becomes 0. A logarithm makes large numbers of such
small ones, and of 0 the least that it can tell: a spectrogram, whose bins are 60 dB apart and more, is noise.
"""

from __future__ import annotations

from intact.graph import Value, ops
from intact.placement.placement_graph import Op, View

_SCALED = frozenset({
    "Abs", "Add", "Cast", "Clip", "Conv", "ConvTranspose", "Div", "Gemm", "MatMul", "Max", "Mean", "Mul",
    "Neg", "Pow", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare",
    "Sqrt", "Sub", "Sum", "Where",
})  # fmt: skip
"""Operators through which a factor of the data reaches a Log, which magnifies the smallest results.

Not so behind an activation, a normalization or an exponential, where a network has begun, or ended.
"""


REASON = "the logarithm of its results is taken: even steps have no codes for the small ones"


def before_logarithms(view: View) -> frozenset[Op]:
    """Find operators whose results reach a Log with their magnitude preserved."""
    products: set[Op] = set()
    ahead: list[Value | None] = [op.inputs[0] for op in view.ops if op.op_type == "Log" and op.inputs]
    while ahead:
        op = view.producer(ahead.pop())
        if op is None or op in products or op.domain:
            continue
        if ops.may_move(op.node) or op.op_type in _SCALED:
            products.add(op)
            ahead += [op.inputs[i] for i in ops.data_inputs(op.node) if i < len(op.inputs)]
    return frozenset(products)
