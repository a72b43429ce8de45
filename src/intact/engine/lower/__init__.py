"""From a Q/DQ graph to a Plan, through named passes that say what they did and what they could not do."""

from intact.engine.lower.pipeline import PASSES, lower
from intact.engine.lower.shapes import fold_sizes

__all__ = ["PASSES", "fold_sizes", "lower"]
