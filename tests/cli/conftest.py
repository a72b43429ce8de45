"""The command as a user types it, and a small network to type it about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.cli import main

NODES = (
    ("Conv", "x w1 b1", "c1", "/conv1", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Relu", "c1", "r1", "/relu1", {}),
    ("MaxPool", "r1", "p1", "/pool1", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("Conv", "p1 w2 b2", "c2", "/conv2", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Add", "c2 p1", "sum", "/add", {}),
    ("Relu", "sum", "r2", "/relu2", {}),
    ("GlobalAveragePool", "r2", "pooled", "/gap", {}),
    ("Flatten", "pooled", "flat", "/flatten", {}),
    ("Gemm", "flat w3 b3", "logits", "/fc", {"transB": 1}),
    ("Softmax", "logits", "prob", "/softmax", {}),
)
WEIGHTS = {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (16, 16, 3, 3), "b2": (16,), "w3": (10, 16), "b3": (10,)}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Runs ``intact <words>`` and gives its exit status, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")

    def intact_command(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        out, err = capfd.readouterr()
        return int(stopped.value.code or 0), out, err

    return intact_command


@pytest.fixture(scope="session")
def net_proto() -> onnx.ModelProto:
    """A residual block with a pool before it and a classifier behind, 16x16 pixels."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.standard_normal(shape) * 0.3).astype(np.float32), name)
        for name, shape in WEIGHTS.items()
    ]
    nodes = [
        helper.make_node(op, ins.split(), outs.split(), name=name, **attributes)
        for op, ins, outs, name, attributes in NODES
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, 16, 16])
    prob = helper.make_tensor_value_info("prob", onnx.TensorProto.FLOAT, ["n", 10])
    return onnx_model(nodes, [x], [prob], weights)


@pytest.fixture
def net(net_proto: onnx.ModelProto, tmp_path: Path) -> Path:
    """The network as a file."""
    onnx.save(net_proto, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def samples(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Sixteen samples for it."""
    np.save(tmp_path / "samples.npy", rng.standard_normal((16, 3, 16, 16)).astype(np.float32))
    return tmp_path / "samples.npy"


@pytest.fixture(scope="session")
def int8_bytes(net_proto: onnx.ModelProto) -> bytes:
    """The network with Q/DQ pairs, as a file's bytes."""
    from intact.ptq import quantize

    data = np.random.default_rng(0).standard_normal((8, 3, 16, 16)).astype(np.float32)
    return quantize(
        net_proto, data, method="max", activations="int8", progress=False
    ).proto.SerializeToString()


@pytest.fixture
def int8(int8_bytes: bytes, tmp_path: Path) -> Path:
    """The quantized network as a file."""
    (tmp_path / "int8.onnx").write_bytes(int8_bytes)
    return tmp_path / "int8.onnx"
