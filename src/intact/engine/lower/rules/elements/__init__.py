"""Lowering rules for operators that work element by element, and for the borders between codes and floats."""
