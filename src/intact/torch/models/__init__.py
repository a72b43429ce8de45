"""Modules, batches and processes: shared helpers that run a user's model."""

from intact.torch.models.array_runner import Runner
from intact.torch.models.checkpoint_ranges import CheckpointLayer, read_checkpoint_ranges

__all__ = [
    "CheckpointLayer", "Runner", "read_checkpoint_ranges",
]  # fmt: skip
