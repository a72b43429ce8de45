"""Decides what is quantized and how: the user's settings, and the grid of every tensor."""
