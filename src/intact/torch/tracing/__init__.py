"""Trace a model's code to a graph: work around code that a trace cannot follow, and simplify the graph."""
