"""Verbs for people who deploy with TensorRT."""
