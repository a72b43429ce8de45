"""Sizes of model files."""

from __future__ import annotations

from pathlib import Path


def size_with_data(model: Path) -> int | None:
    """Return the bytes of a file and of its weights beside it; None of a pipe or a device."""
    from intact.graph import data_files

    if not model.is_file():
        return None

    return sum(file.stat().st_size for file in (model, *data_files(model)))
