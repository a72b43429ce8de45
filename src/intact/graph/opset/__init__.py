"""Versions of the ONNX domain: nodes against their schema, and graphs moved from one opset to another."""
