"""Steps that work element by element, and the borders between codes and floats."""
