"""Types that TensorRT's objects share: enumerations, dialects, messages, tensors."""
