"""Lowering rules for functions of floats that become several steps."""
