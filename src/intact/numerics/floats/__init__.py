"""Floats with the same bits on every machine."""
