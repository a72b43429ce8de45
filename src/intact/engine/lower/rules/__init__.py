"""Rules for groups of nodes: which steps do what they compute."""
