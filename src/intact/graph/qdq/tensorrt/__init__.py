"""TensorRT's quantization by scales of blocks that each run computes."""
