"""What quantization_config of config.json says of layers, checked against their tensors."""
