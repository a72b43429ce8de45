"""What a builder is told, and what it reads: configuration, calibrators, ONNX files."""

from intact.trt.building.calibrators import TABLES

__all__ = [
    "TABLES",
]  # fmt: skip
