"""Steps that move elements."""
