"""Operators that INTact registers with PyTorch: fake-quantization, recurrent layers and grouped matrix
products.
"""
