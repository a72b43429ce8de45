"""The stages of quantization: each proposes a new state, which is scored, and kept or dropped."""
