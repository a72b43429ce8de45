"""Decodes image files, which may be hostile, to 8 bits per channel.

Only this module calls Pillow's readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from intact.errors import CalibrationError, IntactError, MissingExtraError
from intact.limits import IMAGE_PIXELS

FORMATS = ("BMP", "GIF", "JPEG", "MPO", "PNG", "PPM", "TIFF", "WEBP")
"""Image formats that are read, by content. Pillow has more: one of them (EPS) runs another program."""

_BITS_PER_SAMPLE, _PHOTOMETRIC, _WHITE_IS_ZERO = 258, 262, 0  # tags of TIFF


def decode_image(
    source: Path | BytesIO, where: str, mode: str, error: type[IntactError] = CalibrationError
) -> Any:
    """Return an image as Pillow's `mode` "RGB" or "L": the first one of a file that holds several.

    Greys of more than 8 bits are scaled so that their white is 255. Transparency is dropped.

    Args:
        source: The file.
        where: Its name, for errors.
        mode: "RGB" or "L".
        error: The kind of error.
    Raises:
        IntactError: The file is damaged, of another format, larger than `intact.limits` allows, or holds
            floats or 32-bit numbers, whose white nobody knows; of the kind given.
        MissingExtraError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError.of("pillow", "images", "reading images") from None
    Image.init()
    formats = [name for name in FORMATS if name in Image.OPEN]
    try:
        with _our_limit(Image):
            opened = Image.open(source, formats=formats)
        with opened as image:
            IMAGE_PIXELS.check(image.width * image.height, where, error)
            # It stands for one colour or for many; no mode that is wanted here has either.
            image.info.pop("transparency", None)
            return _eight_bits(image, where, error).convert(mode)
    except IntactError:
        raise
    # Pillow's readers raise whatever comes up over a damaged file: IndexError, struct.error, KeyError, ...
    except Exception as broken:
        message = str(broken) or type(broken).__name__
        raise error(
            where, f"'{message}'", "an image that Pillow can read", "remove or replace the file"
        ) from broken


@contextmanager
def _our_limit(module: Any) -> Iterator[None]:
    """Switch off Pillow's own pixel limit, which would warn or raise before ours is checked."""
    before, module.MAX_IMAGE_PIXELS = module.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        module.MAX_IMAGE_PIXELS = before


def _eight_bits(image: Any, where: str, error: type[IntactError]) -> Any:
    """Return `image`, or where it has more than 8 bits per channel, a grey one that has 8."""
    from PIL import Image

    # Pillow opens 16-bit PNG and PGM files as 32-bit ones in some versions; both then reach 65535.
    is_16_bit = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
    if image.mode not in ("I", "F") and not is_16_bit:
        return image
    if not is_16_bit:
        raise error(
            where,
            f"{'floats' if image.mode == 'F' else '32-bit numbers'} per pixel",
            "8 or 16 bits, whose black and white are known",
            "convert the file, or give the values as the model wants them in an .npy file",
        )
    tags = getattr(image, "tag_v2", {})
    white = 2 ** int(tags.get(_BITS_PER_SAMPLE, (16,))[0]) - 1
    pixels = np.asarray(image).astype(np.uint32)
    if tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
        pixels = white - pixels
    return Image.fromarray(((2 * 255 * pixels + white) // (2 * white)).astype(np.uint8))
