"""What quantization does to a model, measured on a few held runs."""
