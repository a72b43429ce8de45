"""The quantization_config of config.json, checked against the tensors of layers."""
