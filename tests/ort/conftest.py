"""The door in this process, with a cache folder of its own, decisions that no clock takes, and no process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ort.door_models import save_layers

import intact.ort
from intact.ort import policies
from intact.ort.session_methods import registry

RULES = {"speed": 0.0, "accuracy": 20.0, "watch": 6, "isolate": False, "clock": lambda: 0.0}
"""Speed and the costs of watching decide nothing."""


@pytest.fixture
def door(tmp_path: Path) -> Iterator[None]:
    """Sessions of onnxruntime are watched."""
    intact.ort.install()
    intact.ort.policy(**RULES, cache=tmp_path / "cache")
    yield
    assert intact.ort.wait()
    intact.ort.uninstall()
    policies._explicit.clear()
    registry.clear()


@pytest.fixture
def quantization() -> Iterator[None]:
    """Functions of onnxruntime.quantization quantize with INTact."""
    intact.ort.policy(quantization="intact", mode="off")  # sessions are ONNX Runtime's own
    intact.ort.install()
    yield
    intact.ort.uninstall()
    policies._explicit.clear()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A float model of two layers."""
    return save_layers(tmp_path / "layers.onnx")
