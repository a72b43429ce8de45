"""The graph in memory: reading and changing onnx-ir's Model, constants, and runs in ONNX Runtime."""

from intact.graph.core.edit import static_sizes

__all__ = [
    "static_sizes",
]  # fmt: skip
