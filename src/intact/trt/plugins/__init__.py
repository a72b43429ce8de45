"""TensorRT's plugins in Python, in networks and in ONNX files."""
