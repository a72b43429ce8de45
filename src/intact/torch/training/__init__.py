"""Ranges and weights found on data: calibration, bias correction, quantization-aware training."""
