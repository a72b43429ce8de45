"""Mixed precision: gives 16 bits or float to the layers that need it, within a time budget."""
