"""`pytorch_quantization.nn.modules`."""
