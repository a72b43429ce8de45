"""The sentences on a quantized file count what a comparison on samples found, or say why none ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact.engine import Engine
from intact.engine.compare import MOST_SAMPLES, compare_file
from intact.graph import load
from intact.ptq import quantize

FILE = "intact.engine.compare.file_comparison"


@pytest.fixture
def batch(rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    return {"x": rng.standard_normal((6, 3, 8, 8)).astype(np.float32)}


@pytest.fixture
def model(qdq: Any) -> Any:
    net = qdq()
    x = net.pair(net.input("x", ("n", 3, 8, 8)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 8), name="relu"))
    flat = net.node("Flatten", net.pair(net.node("GlobalAveragePool", y)))
    net.node("Softmax", net.node("Gemm", flat, net.weight(10, 8), transB=1), name="prob")
    return net.proto("prob")


class Wrong(Engine):
    """An engine that errs in one code of one tensor."""

    def tap(self, inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        outputs = super().tap(inputs)
        outputs["relu"] = outputs["relu"].copy()
        outputs["relu"].flat[0] ^= 1
        return outputs


def test_an_equal_engine_is_counted_on_a_few_samples(model: Any, batch: Any) -> None:
    comparison = compare_file(load(model), [batch])
    codes = MOST_SAMPLES * (3 * 64 + 8 * 64 + 8 + 8)
    assert comparison.reference.equal and comparison.reference.codes == codes
    assert comparison.sentences[0] == (
        f"engine = integer reference on all {codes:,} codes and {10 * MOST_SAMPLES} outputs of "
        f"{MOST_SAMPLES} samples"
    )
    assert comparison.file.codes == codes and comparison.file.values == 10 * MOST_SAMPLES


def test_a_wrong_engine_is_named_and_not_called_equal(
    model: Any, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_wrong(source: Any, **options: Any) -> Engine:
        return Wrong(intact.compile(source, **options).plan, threads=1)

    monkeypatch.setattr(f"{FILE}.build", compile_wrong)
    reference = compare_file(load(model), [batch]).reference
    assert not reference.equal and reference.codes_differing == 1
    assert reference.sentence.startswith(
        f"engine and integer reference differ on {MOST_SAMPLES} samples: 1 of "
    )
    assert f"first in 'relu': 1 of {MOST_SAMPLES * 512:,} codes, by at most 1" in reference.sentence


def test_a_file_that_rounds_otherwise_is_measured_by_output(qdq: Any, rng: np.random.Generator) -> None:
    net = qdq()
    x = net.pair(net.input("x", (64, 32)))
    norm = net.node("LayerNormalization", x, net.floats(32), name="norm")
    net.node("MatMul", net.pair(norm, 0.02), net.weight(32, 8, axis=1), name="y")
    model = load(net.proto("y", "norm"))
    feeds = {"x": rng.standard_normal((64, 32)).astype(np.float32)}
    comparison = compare_file(model, [feeds])
    assert comparison.reference.equal and comparison.reference.samples == 64, "the file fixes its batch"
    file = comparison.file
    assert file.values_differing and "norm" in file.decibels and file.decibels["norm"] > 100
    assert f"norm {file.decibels['norm']:.1f} dB" in file.sentence
    assert "; first in 'norm': " in file.sentence and " floats, by at most " in file.sentence


@pytest.mark.parametrize(
    ("bound", "reason"), [("MOST_PARAMETERS", "parameters"), ("MOST_PRODUCTS", "products")]
)
def test_bounds_are_kept_and_told(
    model: Any, batch: Any, bound: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{FILE}.{bound}", 100)
    comparison = compare_file(load(model), [batch])
    (sentence,) = comparison.sentences
    assert sentence.startswith("engine and integer reference were not compared: ") and reason in sentence
    assert not comparison.reference.equal and not comparison.file.equal


def test_what_cannot_run_says_why(model: Any, batch: Any) -> None:
    (sentence,) = compare_file(load(model), [{"x": batch["x"][:, :2]}]).sentences
    assert sentence.startswith("engine and integer reference were not compared: ") and "shape" in sentence


def test_reports_without_data_or_engine_claim_nothing(rng: np.random.Generator) -> None:
    weight = rng.standard_normal((16, 16)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Tanh", ["y"], ["z"])]
    float_net = onnx_model(nodes, {"x": (1, ["n", 16])}, {"z": (1, None)}, {"w": weight}, opset=18)
    batches = [{"x": rng.standard_normal((4, 16)).astype(np.float32)}]
    options: dict[str, Any] = {"method": "max", "progress": False}
    alone = quantize(float_net, batches, **options)
    assert "engine and integer reference were not compared: `intact.quantize`" in repr(alone)
    of_statistics = intact.quantize(
        float_net, intact.calibrate(float_net, batches, progress=False), **options
    )
    assert "were not compared: there are no samples" in of_statistics.agreement
    result = intact.quantize(float_net, batches, **options)
    saved = result.proto.SerializeToString()
    assert "engine = integer reference on all " in repr(result)
    assert result.proto.SerializeToString() == saved, "comparing does not change the model"
