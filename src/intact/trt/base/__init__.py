"""What TensorRT's objects share: enumerations, dialects, messages, tensors."""
