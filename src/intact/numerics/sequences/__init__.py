"""Layers of language models over sequences of tokens."""
