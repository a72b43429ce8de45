"""Inputs of a builder: configuration, calibrators, ONNX files."""

from intact.trt.building.calibrators import TABLES

__all__ = [
    "TABLES",
]  # fmt: skip
