"""The packed image files of the shared data: JPEG files one after the other, and where each begins."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image


def read_packed_images(path: Path, count: int, first: int = 0) -> list[Image.Image]:
    """Images `first`, `first + 1`, ..., RGB."""
    with np.load(path) as packed:
        jpeg, offsets = packed["jpeg"], packed["offsets"]
    spans = (jpeg[offsets[i] : offsets[i + 1]].tobytes() for i in range(first, first + count))
    return [Image.open(io.BytesIO(span)).convert("RGB") for span in spans]
