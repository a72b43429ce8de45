"""From a Q/DQ graph to a Plan, through named passes that say what they did and what they could not do."""

from intact.engine.lower.base.block_constants import has_block_codes
from intact.engine.lower.passes.fold_sizes import fold_sizes
from intact.engine.lower.stages import lower

__all__ = ["fold_sizes", "has_block_codes", "lower"]
