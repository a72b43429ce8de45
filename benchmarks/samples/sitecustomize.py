"""Names that old samples use and that Pillow no longer has."""

from __future__ import annotations

from PIL import Image, ImageFont

Image.ANTIALIAS = Image.LANCZOS
for kind in (ImageFont.FreeTypeFont, ImageFont.ImageFont):
    kind.getsize = lambda self, text: self.getbbox(text)[2:]
