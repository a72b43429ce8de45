"""How steps that work on each element by itself become native."""
