"""Tools with which lowering rules build a plan from values of the graph."""
