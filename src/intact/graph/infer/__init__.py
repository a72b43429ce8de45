"""Inference of shapes, types and sizes of a graph's values, and of the inputs that decide them."""
