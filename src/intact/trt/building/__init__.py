"""Inputs of a builder: configuration, calibrators, ONNX files."""

from intact.trt.building.calibrators import calibrator_of_cache

__all__ = [
    "calibrator_of_cache",
]  # fmt: skip
