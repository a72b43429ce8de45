"""Modules, batches and processes: what every recipe does with a user's model."""
