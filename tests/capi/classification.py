"""A small network that classifies an image, and what every example program prints of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq

from intact.engine.lower import lower


@dataclass(frozen=True)
class Classification:
    """Files for a program, and the lines that it prints."""

    plan: Path
    image: Path
    lines: list[str]


def classification(folder: Path, rng: np.random.Generator, codes: bool = False) -> Classification:
    """A plan and an image in `folder`; `codes`: the network's output is codes, and programs get floats."""
    net = Qdq()
    x = net.pair(net.input("image", (1, 3, 16, 16)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 8, strides=[2, 2])))
    y = net.node("Flatten", net.pair(net.node("GlobalAveragePool", y)))
    scores = net.node("MatMul", y, net.weight(8, 10, axis=None), name="scores")
    plan = lower(net.proto(net.quantize(scores, 2.0**-9) if codes else scores))
    engine = save_plan(plan, folder / "model.plan")
    pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)
    (folder / "image.ppm").write_bytes(b"P6\n16 16\n255\n" + pixels.tobytes())
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    image = ((pixels.astype(np.float32) / np.float32(255) - mean) / deviation).transpose(2, 0, 1)[None]
    (output,) = engine.run({"image": image}).values()
    floats = output[0] * np.float32(2.0**-9) if codes else output[0]
    order = np.argsort(-floats, kind="stable")[:5]
    lines = [f"class {i}: {floats[i]:.6f}" for i in order]
    return Classification(folder / "model.plan", folder / "image.ppm", lines)
