"""MNIST, drawn with Pillow's font: 28 x 28, a little moved, scaled and noisy."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont


class MNIST:
    """Pairs of an image and its digit."""

    def __init__(self, root: str, train: bool = True, transform: Any = None, **_: Any) -> None:
        self.count, self.seed, self.transform = 3000 if train else 500, int(train), transform

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if index >= self.count:
            raise IndexError(index)
        random = np.random.default_rng((self.seed, index))
        digit = int(random.integers(10))
        picture = Image.new("L", (28, 28))
        font = ImageFont.load_default(size=int(random.integers(20, 26)))
        ImageDraw.Draw(picture).text(
            tuple(random.integers(4, 9, 2) - (0, 4)), str(digit), fill=255, font=font
        )
        noisy = np.asarray(picture, np.float32) + random.normal(0, 12, (28, 28))
        return self.transform(noisy.clip(0, 255).astype(np.uint8)), digit
