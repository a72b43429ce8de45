"""PP-OCRv4 of RapidOCR on text that Pillow renders: detection, recognition, and which way up."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from zoo_models.network import Feeds, Network, Run, Work, f1, fetch

PACKAGE = "rapidocr_onnxruntime==1.4.4"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CALIBRATION, TEST = 48, 120


def words(rng: np.random.Generator, count: int) -> str:
    """Such as a reader would take for a language: some capitals, some numbers."""
    result = []
    for _ in range(count):
        if rng.random() < 0.15:
            result.append(str(rng.integers(0, 10000)))
            continue
        word = "".join(rng.choice(list(LETTERS), rng.integers(3, 9)))
        result.append(word.capitalize() if rng.random() < 0.3 else word)
    return " ".join(result)


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    result = ImageFont.load_default(size)
    assert isinstance(result, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return result


def line(rng: np.random.Generator) -> tuple[Image.Image, str]:
    """One line of text, dark on light or the reverse, with noise."""
    text, size = words(rng, int(rng.integers(1, 4))), int(rng.integers(24, 48))
    left, top, right, bottom = font(size).getbbox(text)
    paper, ink = sorted(rng.integers(0, 256, (2, 3)).tolist(), key=sum, reverse=rng.random() < 0.7)
    if abs(sum(paper) - sum(ink)) < 240:
        paper, ink = (235, 235, 230), (25, 25, 40)
    image = Image.new("RGB", (int(right - left) + 16, int(bottom - top) + 12), tuple(paper))
    ImageDraw.Draw(image).text((8 - left, 6 - top), text, tuple(ink), font(size))
    return noisy(image, rng), text


def noisy(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    pixels = np.asarray(image, np.float32)
    pixels = pixels + rng.normal(0, rng.uniform(0, 12), pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def normalize(image: Image.Image, width: int, height: int, padded: bool = False) -> np.ndarray:
    """float32 [1, 3, height, width] in -1 to 1; padded with 0 at the right where the image is narrower."""
    wide = min(width, max(1, round(image.width * height / image.height))) if padded else width
    pixels = np.asarray(image.resize((wide, height), Image.Resampling.BILINEAR), np.float32)
    out = np.zeros((1, 3, height, width), np.float32)
    out[0, :, :, :wide] = (pixels[:, :, ::-1].transpose(2, 0, 1) / 255 - 0.5) / 0.5
    return out


def detection(folder: Path) -> Work:
    model = fetch(folder, PACKAGE) / "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"
    rng = np.random.default_rng(0)

    def page() -> Feeds:
        image = Image.new("RGB", (640, 480), tuple(rng.integers(160, 256, 3).tolist()))
        draw = ImageDraw.Draw(image)
        for top in range(16, 440, 64):
            if rng.random() < 0.75:
                size = int(rng.integers(14, 40))
                place = (int(rng.integers(8, 240)), top)
                draw.text(
                    place,
                    words(rng, int(rng.integers(1, 5))),
                    tuple(rng.integers(0, 90, 3).tolist()),
                    font(size),
                )
        return {"x": normalize(noisy(image, rng), 640, 480)}

    calibration, test = [page() for _ in range(24)], [page() for _ in range(24)]

    def score(run: Run, float_run: Run) -> float:
        return f1(*(np.stack([each(x)[0][0, 0] > 0.3 for x in test]) for each in (run, float_run)))

    return Work(model, calibration, score, test[0])


def recognition(folder: Path) -> Work:
    model = fetch(folder, PACKAGE) / "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
    rng = np.random.default_rng(0)
    lines = [line(rng) for _ in range(CALIBRATION + TEST)]
    feeds = [{"x": normalize(image, 320, 48, padded=True)} for image, _ in lines]

    def score(run: Run, float_run: Run) -> float:
        """Lines read as the float network reads them."""
        same = [decode(run(x)[0]) == decode(float_run(x)[0]) for x in feeds[CALIBRATION:]]
        return 100.0 * float(np.mean(same))

    return Work(model, feeds[:CALIBRATION], score, feeds[CALIBRATION])


def decode(scores: np.ndarray) -> list[int]:
    """CTC's greedy reading of [1, T, letters]: repeated letters once, blanks (0) left out."""
    best = np.argmax(scores[0], -1)
    return [int(a) for a, before in zip(best, [0, *best[:-1]], strict=True) if a not in (0, before)]


def direction(folder: Path) -> Work:
    model = fetch(folder, PACKAGE) / "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
    rng = np.random.default_rng(0)
    feeds, turned = [], []
    for _ in range(CALIBRATION + 2 * TEST):
        image, _ = line(rng)
        turned.append(int(rng.random() < 0.5))
        feeds.append({"x": normalize(image.rotate(180) if turned[-1] else image, 192, 48, padded=True)})

    def score(run: Run, float_run: Run) -> float:
        """Lines whose direction is found as the float network finds it."""
        same = [np.argmax(run(x)[0]) == np.argmax(float_run(x)[0]) for x in feeds[CALIBRATION:]]
        return 100.0 * float(np.mean(same))

    return Work(model, feeds[:CALIBRATION], score, feeds[CALIBRATION])


NETWORKS = (
    Network("ppocr4-detection", (PACKAGE,), "F1 of float's pixels", detection),
    Network("ppocr4-recognition", (PACKAGE,), "lines read as float's", recognition),
    Network("ppocr2-direction", (PACKAGE,), "directions as float's", direction),
)
