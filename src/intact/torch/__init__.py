"""The PyTorch face of INTact, in the vocabulary of `pytorch_quantization` 2.2.1."""
