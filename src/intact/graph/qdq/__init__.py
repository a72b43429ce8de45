"""Quantization in ONNX: reading, writing and removing Q/DQ pairs, QOperators and markers."""
