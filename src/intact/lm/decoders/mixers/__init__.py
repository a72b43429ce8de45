"""Layers of decoders that have states in place of keys and values."""
