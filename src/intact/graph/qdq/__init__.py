"""Quantization as ONNX says it: Q/DQ pairs, QOperators and markers, read, written and taken away."""
