"""Find ranges and weights from data: calibration, bias correction, quantization-aware training."""
