"""Operators that PyTorch sees: fake-quantization with its gradient, recurrent layers, grouped products."""
