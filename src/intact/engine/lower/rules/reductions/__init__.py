"""Lowering rules for operators that read along axes or over windows."""
