"""The graph in memory: reading and changing onnx-ir's Model, constants, and runs in ONNX Runtime."""
