"""What a builder is told, and what it reads: configuration, calibrators, ONNX files."""
