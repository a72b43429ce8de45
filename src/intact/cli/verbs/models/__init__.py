"""Verbs of ``intact lm`` with a file of their own."""
