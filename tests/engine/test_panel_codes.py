"""Plan files hold codes of weights in blocks once: in the panels that kernels read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.loaders.seeds import plan_file, plan_parts
from tests.onnx_models import onnx_model

import intact
from intact.engine import Engine
from intact.engine.files.panel_codes import PanelCodes
from intact.engine.files.verified import Verified
from intact.errors import FileFormatError
from intact.kernels import unpack_block_codes

K, BLOCK = 96, 32
RNG = np.random.default_rng(5)
Content = dict[str, Any]


def product(bits: int, outputs: int = 40, inputs: int = K) -> onnx.ModelProto:
    """x times codes of the runtime's own product."""
    blocks = -(-inputs // BLOCK)
    codes = RNG.integers(0, 256, (outputs, blocks, BLOCK * bits // 8), np.uint8)
    scales = (RNG.random((outputs, blocks)) + 0.5).astype(np.float16).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=inputs, N=outputs, bits=bits,
        block_size=BLOCK, accuracy_level=4,
    )  # fmt: skip
    ports = {"x": ["rows", inputs]}, {"y": ["rows", outputs]}
    return onnx_model([node], *ports, {"w": codes, "s": scales}, opset=21, domains={"com.microsoft": 1})


def save(folder: Path, model: onnx.ModelProto) -> tuple[Engine, Path]:
    engine, path = intact.compile(model, threads=1), folder / "blocks.plan"
    engine.save(path)
    return engine, path


def rows(count: int, inputs: int = K) -> np.ndarray:
    return RNG.standard_normal((count, inputs)).astype(np.float32)


@pytest.mark.parametrize("outputs", [16, 40])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_codes_are_in_the_file_once(tmp_path: Path, bits: int, outputs: int) -> None:
    engine, path = save(tmp_path, product(bits, outputs))
    content, arrays = plan_parts(path.read_bytes())
    (entry,) = content["panels"]
    assert (entry["inputs"], entry["bits"]) == (K, bits)
    assert f"constant/{entry['constant']}" not in arrays
    loaded = intact.load(path, threads=1)
    reference = intact.load(path, backend="reference")
    for count in (1, 40):
        x = {"x": rows(count)}
        expected = engine.run(x)["y"]
        np.testing.assert_array_equal(loaded.run(x)["y"], expected)
        np.testing.assert_array_equal(reference.run(x)["y"], expected)
    for name, array in engine.plan.constants.items():
        np.testing.assert_array_equal(loaded.plan.constants[name], array, strict=True)
    loaded.save(tmp_path / "again.plan")
    assert (tmp_path / "again.plan").read_bytes() == path.read_bytes()


def test_an_engine_reads_what_it_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, path = save(tmp_path, product(4))
    x, borrow = {"x": rows(3)}, Verified.borrow
    expected, unpacked = engine.run(x)["y"], []

    def record(arrays: Verified, key: Any) -> np.ndarray:
        if key in arrays._stored and key not in arrays._arrays:
            unpacked.append(key)
        return borrow(arrays, key)

    monkeypatch.setattr(Verified, "borrow", record)
    np.testing.assert_array_equal(intact.load(path, threads=1).run(x)["y"], expected)
    assert unpacked == [], "neither scales nor codes are made of what the file has"


@pytest.mark.parametrize("inputs", [8, 40, 96, 130])
@pytest.mark.parametrize("bits", range(2, 9))
def test_codes_come_back_from_panels(bits: int, inputs: int) -> None:
    from intact.numerics import join_stream

    outputs = 19
    codes = RNG.integers(0, 2**bits, (outputs, inputs), np.uint8)
    panels = reference_panels(codes, bits)
    stream = unpack_block_codes(panels, outputs, inputs, bits)
    np.testing.assert_array_equal(stream.reshape(outputs, -1), join_stream(codes, bits, 1))
    with pytest.raises(FileFormatError, match="of panels"):
        unpack_block_codes(panels[:-1], outputs, inputs, bits)


def reference_panels(codes: np.ndarray, bits: int) -> np.ndarray:
    """Panels of 16 outputs, in units of 8 inputs: 4 bits, 8 bits, and groups of 5 and 6 bits."""
    outputs, inputs = codes.shape
    units = -(-inputs // 8)
    packed = next(
        width for width, each in ((4, 1), (5, 32), (6, 16), (8, 1)) if bits <= width and inputs % each == 0
    )
    whole = np.zeros((-(-outputs // 16) * 16, units * 8), np.uint8)
    whole[:outputs, :inputs] = codes
    # [panel, unit, half, output, neighbour]
    parts = whole.reshape(-1, 16, units, 2, 4).transpose(0, 2, 3, 1, 4)
    if packed == 8:
        return np.ascontiguousarray(parts).reshape(-1)
    low = (parts[:, :, 0] & 15) | (parts[:, :, 1] & 15) << 4
    low = low.reshape(len(low), units, 64)
    if packed == 4:
        return low.reshape(-1)
    each = packed - 4
    group = 4 if packed == 5 else 2
    high = (parts >> 4).reshape(len(parts), units // group, group * 2, 64)
    shifts = (np.arange(group * 2, dtype=np.uint8) * each)[:, None]
    heads = np.bitwise_or.reduce(high << shifts, axis=2)
    tails = low.reshape(len(low), units // group, group * 64)
    return np.concatenate([heads, tails], axis=-1).reshape(-1)


CHANGES: dict[str, Callable[[Content], object]] = {
    "another width": lambda content: content["panels"][0].update(bits=8),
    "no such width": lambda content: content["panels"][0].update(bits=9),
    "other inputs": lambda content: content["panels"][0].update(inputs=K - 8),
    "inputs below 0": lambda content: content["panels"][0].update(inputs=-K),
    "many inputs": lambda content: content["panels"][0].update(inputs=2**62),
    "no such constant": lambda content: content["panels"][0].update(constant="nobody"),
    "a constant of another dtype": lambda content: next(
        entry for entry in content["constants"] if entry["name"] == content["panels"][0]["constant"]
    ).update(dtype="int8"),
    "more outputs": lambda content: next(
        entry for entry in content["constants"] if entry["name"] == content["panels"][0]["constant"]
    ).update(shape=[2**23, K // 2]),
    "nothing packed": lambda content: content.update(
        packed=[entry for entry in content["packed"] if not entry["kernel"].startswith("block_codes")]
    ),
    "no panels": lambda content: content.update(panels=[]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_other_panels_are_refused(tmp_path: Path, change: Callable[[Content], object]) -> None:
    _, path = save(tmp_path, product(4))
    content, arrays = plan_parts(path.read_bytes())
    change(content)
    path.write_bytes(plan_file(content, arrays))
    with pytest.raises(FileFormatError):
        intact.load(path, backend="reference").run({"x": rows(1)})


def test_forms_of_other_kernels_are_no_panels() -> None:
    empty = np.zeros(0, np.uint8)
    for form in ("block_codes_96x9", "block_codes_x4", "block_codes_96x4_more", "gemm", ""):
        assert PanelCodes.of(form, empty) is None
