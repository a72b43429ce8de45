"""Builds, explicit and implicit: calibrators in TensorRT's order, ranges, pins, times, plans as bytes."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import numpy as np
import pytest

import intact.trt as trt
from intact.calib import TrtCache

CALIBRATORS = [
    trt.IInt8EntropyCalibrator2, trt.IInt8EntropyCalibrator, trt.IInt8MinMaxCalibrator,
    trt.IInt8LegacyCalibrator,
]  # fmt: skip


def calibrator(kind: type[trt.IInt8Calibrator], batches: int = 2, cache: bytes | None = None) -> Any:
    """A calibrator as scripts write it; `calls` is the order in which it was asked."""

    class Mine(kind):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            kind.__init__(self)
            self.calls: list[str] = []
            self.written: bytes | None = None
            self.left = batches
            self.rng = np.random.default_rng(5)

        def get_batch_size(self) -> int:
            self.calls.append("size")
            return 4

        def get_batch(self, names: list[str]) -> list[int] | None:
            self.calls.append("batch")
            assert names == ["x"]
            if not self.left:
                return None
            self.left -= 1
            self.batch = self.rng.standard_normal((4, 16, 8, 8)).astype(np.float32)
            return [self.batch.ctypes.data]

        def read_calibration_cache(self) -> bytes | None:
            self.calls.append("read")
            return cache

        def write_calibration_cache(self, cache: bytes) -> None:
            self.calls.append("write")
            self.written = bytes(cache)

    return Mine()


def config_of(log, int8: Any = None, times: bytes = b"") -> trt.IBuilderConfig:
    config = trt.Builder(log).create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = int8
    config.set_timing_cache(config.create_timing_cache(times), False)
    return config


def layers_of(serialized: bytes, log) -> dict[str, dict[str, Any]]:
    engine = trt.Runtime(log).deserialize_cuda_engine(serialized)
    text = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    return {entry["Name"]: entry for entry in json.loads(text)["Layers"]}


@pytest.mark.parametrize("kind", CALIBRATORS, ids=lambda k: k.__name__)
def test_calibrates_in_tensorrts_order_and_again_from_its_cache(small, log, kind) -> None:
    first = calibrator(kind)
    config = config_of(log, first)
    serialized = trt.Builder(log).build_serialized_network(small, config)
    assert serialized is not None, log.messages
    assert first.calls == ["size", "read", "batch", "batch", "batch", "write"]
    second = calibrator(kind, cache=first.written)
    again = trt.Builder(log).build_serialized_network(
        small, config_of(log, second, config.get_timing_cache().serialize())
    )
    assert second.calls == ["size", "read"]
    assert again == serialized


def test_min_max_scales_are_the_largest_magnitude_by_127(small, log) -> None:
    calibrator_used = calibrator(trt.IInt8MinMaxCalibrator)
    trt.Builder(log).build_serialized_network(small, config_of(log, calibrator_used))
    rng = np.random.default_rng(5)
    largest = max(np.abs(rng.standard_normal((4, 16, 8, 8)).astype(np.float32)).max() for _ in range(2))
    assert TrtCache.parse(calibrator_used.written.decode()).scales["x"] == np.float32(largest) / np.float32(
        127
    )


def test_a_cache_of_another_algorithm_is_refused_and_calibrated_anew(small, log) -> None:
    cache = TrtCache({"x": np.float32(1)}, algorithm="MinMaxCalibration").to_text().encode()
    calibrator_used = calibrator(trt.IInt8EntropyCalibrator2, cache=cache)
    assert trt.Builder(log).build_serialized_network(small, config_of(log, calibrator_used)) is not None
    assert "Calibration table does not match calibrator algorithm type." in log.of("WARNING")
    assert calibrator_used.calls.count("batch") == 3


def test_without_a_batch_nothing_is_built(small, log) -> None:
    assert trt.Builder(log).build_serialized_network(
        small, config_of(log, calibrator(trt.IInt8EntropyCalibrator2, batches=0))
    ) is None  # fmt: skip
    assert "no batch" in log.of("ERROR")[0]


def test_ranges_of_the_user_override_and_missing_ones_warn(small, log) -> None:
    small.inputs[0].set_dynamic_range(-4, 2)
    serialized = trt.Builder(log).build_serialized_network(small, config_of(log))
    assert serialized is not None
    missing = [m for m in log.of("WARNING") if m.startswith("Missing scale and zero-point for tensor ")]
    assert missing
    engine = trt.Runtime(log).deserialize_cuda_engine(serialized).engine
    scales = {t.codes.scale for t in engine.plan.tensors.values() if t.codes is not None}
    assert scales == {float(np.float32(4) / np.float32(127))}


def test_a_pinned_layer_is_where_the_user_put_it(small, log) -> None:
    pinned = next(layer for layer in small.layers if layer.name == "second")
    pinned.precision = trt.float32
    config = config_of(log, calibrator(trt.IInt8EntropyCalibrator2))
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    layers = layers_of(trt.Builder(log).build_serialized_network(small, config), log)
    assert layers["second"]["Precision"] == "FP32"


@pytest.mark.parametrize(
    ("flag", "is_built"),
    [
        (trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS, False),
        (trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS, True),
    ],
    ids=["obey", "prefer"],
)
def test_a_pin_that_cannot_be_met_fails_or_warns_by_flag(small, log, flag, is_built: bool) -> None:
    next(layer for layer in small.layers if layer.name == "second").precision = trt.int8
    config = trt.Builder(log).create_builder_config()  # float: nothing can be int8
    config.set_flag(flag)
    plan = trt.Builder(log).build_serialized_network(small, config)
    assert (plan is not None) == is_built
    said_so = log.of("WARNING" if is_built else "ERROR")
    assert any("layer 'second' is pinned to INT8 and runs in float" in m for m in said_so)


@pytest.mark.parametrize("kind", [trt.ActivationType.SIGMOID, trt.ActivationType.RELU])
@pytest.mark.parametrize("flag", ["OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS"])
def test_an_activation_pinned_to_float_between_int8_layers_reads_floats(log, kind, flag) -> None:
    """SiLU's Sigmoid, as Ultralytics pins it: the convolution's own step computes it, before it rounds."""
    builder = trt.Builder(log)
    network = builder.create_network()
    rng, x = np.random.default_rng(0), network.add_input("x", trt.float32, (1, 16, 8, 8))
    for name in ("first", "second"):
        kernel = rng.standard_normal((16, 16, 3, 3)).astype(np.float32) / 12
        conv = network.add_convolution_nd(x, 16, (3, 3), kernel)
        conv.padding_nd, conv.name = (1, 1), name
        gate = network.add_activation(conv.get_output(0), kind)
        gate.name, gate.precision = f"{name}.gate", trt.float32
        product = trt.ElementWiseOperation.PROD
        x = network.add_elementwise(conv.get_output(0), gate.get_output(0), product).get_output(0)
    network.mark_output(x)
    config = config_of(log, calibrator(trt.IInt8MinMaxCalibrator))
    config.set_flag(trt.BuilderFlag[flag])
    layers = layers_of(builder.build_serialized_network(network, config), log)
    assert "INT8" in {layer["Precision"] for layer in layers.values()}
    assert not [m for _, m in log.messages if "is pinned to" in m]


def test_the_inspector_shows_both_times(small, log, clock) -> None:
    config = config_of(log, calibrator(trt.IInt8EntropyCalibrator2))
    layers = layers_of(trt.Builder(log).build_serialized_network(small, config), log)
    entry = layers["first"]
    assert entry["Int8Ms"] > 0 and entry["FloatMs"] > 0
    assert "engine is fastest" in entry["Choice"]


@pytest.mark.parametrize("best", ["int8", "mixed", "float"])
def test_the_fastest_candidate_is_taken(small, log, set_times, best: str) -> None:
    """Of "mixed": the layer that is slower in int8 is float there, the others stay int8."""
    slow = {"int8 second": 3.0, f"plan {best}": 1.0}
    set_times(lambda name: slow.get(name, 2.0))
    config = config_of(log, calibrator(trt.IInt8EntropyCalibrator2))
    layers = layers_of(trt.Builder(log).build_serialized_network(small, config), log)
    precisions = {name: entry["Precision"] for name, entry in layers.items() if name in ("first", "second")}
    want = {"int8": ("INT8", "INT8"), "mixed": ("INT8", "FP32"), "float": ("FP32", "FP32")}[best]
    assert precisions == dict(zip(("first", "second"), want, strict=True))


def test_a_calibrator_is_ignored_where_there_are_pairs(network, log) -> None:
    x = network.add_input("x", trt.float32, (1, 4, 8, 8))
    scale = network.add_constant((), np.float32([0.1])).get_output(0)
    pair = network.add_dequantize(network.add_quantize(x, scale).get_output(0), scale)
    network.mark_output(pair.get_output(0))
    calibrator_used = calibrator(trt.IInt8EntropyCalibrator2)
    assert trt.Builder(log).build_serialized_network(network, config_of(log, calibrator_used)) is not None
    assert calibrator_used.calls == []
    assert any(
        m.startswith("Calibrator won't be used in explicit precision mode.") for m in log.of("WARNING")
    )


def test_a_network_without_outputs_is_refused(network, log) -> None:
    network.add_input("x", trt.float32, (1,))
    assert trt.Builder(log).build_serialized_network(network, config_of(log)) is None
    assert "Network must have at least one output" in log.of("ERROR")


def test_a_legacy_calibrators_histograms_serve_another_quantile_without_data(small, log) -> None:
    class Legacy(trt.IInt8LegacyCalibrator):
        statistics: bytes | None = None

        def __init__(self, quantile: float, batches: int) -> None:
            super().__init__()
            self.quantile, self.source = quantile, calibrator(trt.IInt8MinMaxCalibrator, batches)
            self.cache = b""

        def get_batch_size(self) -> int:
            return 4

        def get_batch(self, names: list[str]) -> list[int] | None:
            return self.source.get_batch(names)

        def get_quantile(self) -> float:
            return self.quantile

        def read_histogram_cache(self, length: int) -> bytes | None:
            return self.statistics

        def write_histogram_cache(self, ptr: int, length: int) -> None:
            Legacy.statistics = ctypes.string_at(ptr, length)

        def write_calibration_cache(self, cache: bytes) -> None:
            self.cache = bytes(cache)

    first, second = Legacy(1.0, 2), Legacy(0.9, 0)
    for calibrator_used in (first, second):
        assert trt.Builder(log).build_serialized_network(small, config_of(log, calibrator_used)) is not None
    scales = [
        TrtCache.parse(calibrator_used.cache.decode()).scales["x"] for calibrator_used in (first, second)
    ]
    assert scales[1] < scales[0]
    assert second.source.calls == []
