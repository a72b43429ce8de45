"""Inputs for packages: pages, photographs, captchas, sounds and sentences, each drawn by a seed."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

WORDS = [
    "invoice", "total", "amount", "date", "paper", "water", "2024", "signal", "noise", "winter", "garden",
    "17:45", "model", "river",
]  # fmt: skip
SENTENCES: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("sentences.json").read_text(encoding="utf-8")
)
"""Plain sentences by language, and names."""


def text_image(seed: int, width: int = 480, height: int = 160, lines: int = 3) -> np.ndarray:
    """Return an image [height, width, 3] in uint8 with lines of random words."""
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng(seed)
    shade = int(rng.integers(200, 256))
    image = Image.new("RGB", (width, height), (shade, shade, shade))
    draw = ImageDraw.Draw(image)
    for line in range(lines):
        font = ImageFont.load_default(int(rng.integers(20, 34)))
        words = " ".join(rng.choice(WORDS, 3))
        draw.text((int(rng.integers(5, 30)), 6 + line * height // lines), words, fill=(0, 0, 0), font=font)
    return np.asarray(image)


@cache
def _photographs() -> list[np.ndarray]:
    from skimage import data
    from sklearn.datasets import load_sample_images

    images = list(load_sample_images().images)
    for name in ("astronaut", "chelsea", "coffee", "rocket", "cat"):
        try:
            images.append(getattr(data, name)())
        except Exception:  # some versions of scikit-image would have to download it
            continue
    return images


def photograph(seed: int, height: int = 320, width: int = 320) -> np.ndarray:
    """Return a cut of a photograph of scikit-learn or scikit-image, [height, width, 3] in uint8."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    photographs = _photographs()
    source = Image.fromarray(photographs[seed % len(photographs)][..., :3])
    size = int(min(source.size) * rng.uniform(0.6, 1.0))
    left, top = (int(rng.integers(0, side - size + 1)) for side in source.size)
    image = source.crop((left, top, left + size, top + size)).resize((width, height))
    array = np.asarray(image, np.float32) * rng.uniform(0.7, 1.2)
    return np.clip(array[:, ::-1] if seed % 2 else array, 0, 255).astype(np.uint8)


def blobs(seed: int, size: int) -> np.ndarray:
    """Return an image [size, size, 3] in uint8 with smooth bright patches."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size] / size
    image = 20 + 5 * rng.standard_normal((size, size, 3))
    for _ in range(6):
        x, y, width = rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.9), rng.uniform(0.03, 0.25)
        patch = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * width**2))
        image += rng.uniform(40, 200, 3) * patch[:, :, None]
    return np.clip(image, 0, 255).astype(np.uint8)


@cache
def captcha(seed: int, letters: str, count: int, width: int = 160, height: int = 60) -> np.ndarray:
    """Return an image [height, width, 3] in uint8 of bent letters under noise, by the package captcha.

    It bends them as the system's random numbers say: an image is drawn once in a process.
    """
    import random

    from captcha.image import ImageCaptcha

    random.seed(seed)
    text = "".join(random.choice(letters) for _ in range(count))
    return np.asarray(ImageCaptcha(width, height).generate_image(text).convert("RGB"))


def finger_ridges(seed: int, size: int = 256) -> np.ndarray:
    """Return an image [size, size] in uint8 of dark ridges around a core, as those of a finger."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size] - size / 2
    phases = 2 * np.pi * (np.hypot(columns, 1.3 * rows) + 25 * field(seed, size, 1)[..., 0]) / 9
    for x, y in rng.uniform(-0.35 * size, 0.35 * size, (24, 2)):  # a ridge begins or ends here
        phases += rng.choice([-1, 1]) * np.arctan2(rows - y, columns - x)
    waves = np.cos(phases)
    inside = np.hypot(columns / 0.4, rows / 0.48) < size
    image = np.where(inside, 130 - 100 * waves, 255) + 8 * rng.standard_normal((size, size))
    return np.clip(image, 0, 255).astype(np.uint8)


def png(array: np.ndarray) -> bytes:
    """Return an image's bytes as PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def sound(seed: int, seconds: float, rate: int = 16000) -> np.ndarray:
    """Return samples of bursts of harmonics over noise, float32 between -1 and 1."""
    rng = np.random.default_rng(seed)
    moments = np.arange(int(rate * seconds)) / rate
    pitch = rng.uniform(90, 250)
    voice = sum(np.sin(2 * np.pi * pitch * k * moments + rng.uniform(0, 6)) / k for k in range(1, 12))
    gate = np.sin(2 * np.pi * rng.uniform(0.5, 1.5) * moments) > 0
    noise = rng.standard_normal(len(moments))
    return (0.1 * voice * gate + 0.01 * noise).astype(np.float32)


def melody(seed: int, seconds: float, rate: int = 22050) -> np.ndarray:
    """Return samples of plucked notes one after the other, float32 between -1 and 1."""
    rng = np.random.default_rng(seed)
    samples = np.zeros(int(rate * seconds), np.float32)
    for start in np.arange(0, seconds, 0.25):
        moments = np.arange(int(0.5 * rate)) / rate
        frequency = 220 * 2 ** (rng.integers(0, 24) / 12)
        note = sum(np.sin(2 * np.pi * frequency * k * moments) / k**1.5 for k in range(1, 7))
        begin = int(start * rate)
        piece = (0.2 * note * np.exp(-5 * moments)).astype(np.float32)[: len(samples) - begin]
        samples[begin : begin + len(piece)] += piece
    return np.clip(samples + 0.001 * rng.standard_normal(len(samples)), -1, 1).astype(np.float32)


@cache
def _speaker() -> tuple[Any, Any, int]:
    """Return (espeak-ng's library, the type of its callback, samples a second)."""
    import ctypes

    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    folder = espeakng_loader.get_data_path().encode()
    rate = library.espeak_Initialize(2, 0, folder, 0)  # 2: samples go to the callback before Synth returns
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    return library, callback, rate


def speech(seed: int, phrases: Sequence[str], seconds: float, rate: int = 16000) -> np.ndarray:
    """Return samples of two of the phrases, spoken by espeak-ng, float32 between -1 and 1."""
    rng = np.random.default_rng(seed)
    library, callback, spoken_rate = _speaker()
    pieces: list[np.ndarray] = []

    def keep(samples: Any, count: int, _: Any) -> int:
        if samples and count > 0:
            pieces.append(np.ctypeslib.as_array(samples, (count,)).astype(np.float32) / 32768)
        return 0

    for parameter, value in ((1, rng.integers(140, 190)), (3, rng.integers(30, 70))):  # speed, pitch
        library.espeak_SetParameter(parameter, int(value), 0)
    function = callback(keep)
    library.espeak_SetSynthCallback(function)
    for phrase in rng.choice(list(phrases), 2, replace=False):
        text = str(phrase).encode() + b"\0"
        library.espeak_Synth(text, len(text), 0, 1, 0, 1, None, None)
        pieces.append(np.zeros(int(rng.uniform(0.3, 0.6) * spoken_rate), np.float32))
    sound = np.concatenate(pieces)
    moments = np.arange(int(seconds * rate)) * spoken_rate / rate
    samples = np.interp(moments, np.arange(len(sound)), sound, right=0.0)
    return (samples + 0.002 * rng.standard_normal(len(samples))).astype(np.float32)


def pick(seed: int, sentences: Sequence[str], count: int) -> list[str]:
    """Return some of the sentences, in a random order."""
    return [str(text) for text in np.random.default_rng(seed).choice(list(sentences), count, replace=False)]


def field(seed: int, size: int, channels: int) -> np.ndarray:
    """Return a smooth random field [size, size, channels] between 0 and 1, float32."""
    coarse = np.random.default_rng(seed).random((9, 9, channels))
    places = np.linspace(0, 7.999, size)
    low, share = places.astype(int), (places % 1)[:, None, None]
    rows: Any = coarse[low] * (1 - share) + coarse[low + 1] * share
    share = (places % 1)[None, :, None]
    return np.asarray(rows[:, low] * (1 - share) + rows[:, low + 1] * share, np.float32)
