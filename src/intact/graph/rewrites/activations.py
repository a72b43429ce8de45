"""Write activations that several operators of ONNX Runtime share in ONNX's own operators."""

from __future__ import annotations

from math import pi, sqrt

import onnx_ir as ir

from intact.graph.core.build import Writer


def write_tanh_gelu(write: Writer, x: ir.Value) -> ir.Value:
    """Write ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``."""
    cube = write("Mul", write("Mul", x, write("Mul", x, x)), write.constant(0.044715))
    inner = write("Mul", write("Add", x, cube), write.constant(sqrt(2 / pi)))
    curve = write("Add", write("Tanh", inner), write.constant(1))
    return write("Mul", write("Mul", x, write.constant(0.5)), curve)


def write_swish(write: Writer, x: ir.Value, alpha: float = 1.0) -> ir.Value:
    """Write ``x * sigmoid(alpha * x)``."""
    scaled = x if alpha == 1 else write("Mul", x, write.constant(alpha))
    return write("Mul", x, write("Sigmoid", scaled))
