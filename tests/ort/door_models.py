"""Small models and a policy whose decisions do not depend on the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

WIDTH = 32


def save_layers(path: Path, *, layers: int = 2, is_score: bool = False, location: str = "") -> Path:
    """Write a chain of Gemm and Relu [n, 32] -> [n, 32]; `location`: of a file for its weights."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for index in range(layers):
        weight = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / np.float32(np.sqrt(WIDTH))
        weights.append(numpy_helper.from_array(weight, f"w{index}"))
        nodes.append(helper.make_node("Gemm", [last, f"w{index}"], [f"g{index}"], name=f"gemm{index}"))
        nodes.append(helper.make_node("Relu", [f"g{index}"], [f"r{index}"], name=f"relu{index}"))
        last = f"r{index}"
    nodes.append(helper.make_node("Softmax" if is_score else "Neg", [last], ["y"], name="last"))
    nodes.append(helper.make_node("Neg", ["g0"], ["early"], name="early"))
    sizes = ["n", WIDTH]
    model = onnx_model(nodes, {"x": sizes}, {"y": sizes, "early": sizes}, weights, name="layers")
    onnx.save(
        model, path, save_as_external_data=bool(location), location=location or None, size_threshold=0
    )  # fmt: skip
    return path


def batches(count: int, *, seed: int = 1, rows: int = 16, scale: float = 1.0) -> list[NDArray[np.float32]]:
    """Return different inputs [rows, 32]."""
    rng = np.random.default_rng(seed)
    return [np.float32(scale) * rng.standard_normal((rows, WIDTH)).astype(np.float32) for _ in range(count)]


def decibels(reference: NDArray[Any], values: NDArray[Any]) -> float:
    """Return signal to noise in dB."""
    noise = float(np.sum((reference - values) ** 2))
    return float(10 * np.log10(float(np.sum(reference**2)) / noise)) if noise else float("inf")
