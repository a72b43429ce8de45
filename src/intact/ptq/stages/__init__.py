"""The stages of quantization: each proposes a new state, which is scored, and kept or dropped."""

from intact.ptq.stages.dynamic_operators import write_dynamic_operators
from intact.ptq.stages.embedding_tables import write_block_gathers
from intact.ptq.stages.int16_activations import Unit, readers_behind, with_reason
from intact.ptq.stages.prepare_model import NothingToQuantizeError

__all__ = [
    "NothingToQuantizeError", "Unit", "readers_behind", "with_reason", "write_block_gathers",
    "write_dynamic_operators",
]  # fmt: skip
