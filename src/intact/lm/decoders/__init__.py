"""Decoders as ONNX models with a cache: of weight files, with chosen codes, and of exported graphs."""
