"""Modules, batches and processes: shared helpers that run a user's model."""

from intact.torch.models.array_runner import Runner

__all__ = [
    "Runner",
]  # fmt: skip
