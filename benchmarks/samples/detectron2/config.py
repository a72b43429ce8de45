"""Sizes of a test image."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def get_cfg() -> Any:
    sizes = SimpleNamespace(MIN_SIZE_TEST=64, MAX_SIZE_TEST=64, FORMAT="BGR")
    mean = SimpleNamespace(PIXEL_MEAN=[103.5, 116.3, 123.7], PIXEL_STD=[1.0, 1.0, 1.0])
    return SimpleNamespace(INPUT=sizes, MODEL=mean, merge_from_file=lambda file: None, freeze=lambda: None)
