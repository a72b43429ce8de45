"""Weights with a scale for each block, activations with ranges of their own, and their product."""
