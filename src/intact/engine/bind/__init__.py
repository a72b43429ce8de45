"""From a plan to native calls, for one set of input shapes.

    shapes   the sizes of every tensor
    layout   the order in which its bytes lie, and its halo
    memory   its place in the arena
    core     `Binding`, what the functions that make native steps are given, and their registry

`sums`, `planes` and `floats` hold those functions, one for each kind of step.
"""
