"""What shapes, types and sizes a graph's values have, and what decides them."""
