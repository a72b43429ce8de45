"""Fixtures for TensorRT's vocabulary: a logger that remembers, small networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import intact.trt as trt
from intact.trt.base import dialects
from intact.trt.building import implicit_quantization

Seconds = Callable[[str], float]
"""The seconds of "int8 LAYER", "float LAYER" and "plan CANDIDATE"."""


class KeptLog(trt.ILogger):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[str, str]] = []

    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        self.messages.append((severity.name, msg))

    def of(self, severity: str) -> list[str]:
        return [message for name, message in self.messages if name == severity]


@pytest.fixture
def log() -> KeptLog:
    return KeptLog()


@pytest.fixture(autouse=True)
def set_times(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seconds], None]:
    """Make implicit mode read the times that a test gives, int8 the faster, instead of measured ones.

    For every test: none may hang on what a busy machine takes for one thing or another.
    """
    look_up = implicit_quantization._Times.of

    def give(seconds: Seconds) -> None:
        monkeypatch.setattr(
            implicit_quantization._Times,
            "of",
            lambda self, names, measure: look_up(self, names, lambda: {n: seconds(n) for n in names}),
        )

    give(lambda name: 1.0 if "int8" in name else 2.0)
    return give


@pytest.fixture
def clock(set_times: Callable[[Seconds], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let implicit mode measure after all, for a test that holds whatever the times are."""
    monkeypatch.undo()


@pytest.fixture
def network(log: KeptLog) -> Iterator[trt.INetworkDefinition]:
    yield trt.Builder(log).create_network()
    dialects._chosen.clear()


@pytest.fixture
def small(network: trt.INetworkDefinition) -> trt.INetworkDefinition:
    """Two convolutions with a residual addition, a pool and a product, in float."""
    rng = np.random.default_rng(0)

    def conv(x: trt.ITensor, out: int, name: str) -> trt.ITensor:
        kernel = rng.standard_normal((out, x.shape[1], 3, 3), np.float32) / 12
        layer = network.add_convolution_nd(x, out, (3, 3), kernel, rng.standard_normal(out, np.float32))
        layer.padding_nd, layer.name = (1, 1), name
        relu = network.add_activation(layer.get_output(0), trt.ActivationType.RELU)
        relu.name = f"{name}.relu"
        return relu.get_output(0)

    x = network.add_input("x", trt.float32, (-1, 16, 8, 8))
    first = conv(x, 16, "first")
    second = conv(first, 16, "second")
    total = network.add_elementwise(second, first, trt.ElementWiseOperation.SUM)
    pool = network.add_pooling_nd(total.get_output(0), trt.PoolingType.AVERAGE, (8, 8))
    flat = network.add_shuffle(pool.get_output(0))
    flat.reshape_dims = (-1, 16)
    weights = network.add_constant((16, 5), rng.standard_normal((16, 5), np.float32))
    product = network.add_matrix_multiply(
        flat.get_output(0), trt.MatrixOperation.NONE, weights.get_output(0), trt.MatrixOperation.NONE
    )
    product.name = "product"
    product.get_output(0).name = "y"
    network.mark_output(product.get_output(0))
    return network
