"""The stages of quantization: each proposes another state, is scored, and is kept or dropped."""
