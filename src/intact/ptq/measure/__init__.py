"""Measures what quantization does to a model on a few hold-out samples."""
