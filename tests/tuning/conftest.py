"""A network whose layers differ in what they cost, and a clock that does not tick."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.onnx_models import uneven_products

WIDTH, LAYERS = 32, 4


@pytest.fixture(scope="session")
def net() -> onnx.ModelProto:
    return uneven_products(WIDTH, LAYERS)


@pytest.fixture(scope="session")
def data() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((64, WIDTH)).astype(np.float32)
