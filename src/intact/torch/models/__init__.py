"""Modules, batches and processes: shared helpers that run a user's model."""
