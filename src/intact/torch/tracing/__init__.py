"""A model's code as a graph: what stands in the way of a trace, and what becomes of it."""
