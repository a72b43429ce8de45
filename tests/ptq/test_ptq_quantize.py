"""`quantize` from end to end on small models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.calib import METHODS, Calibration, ZeroRangeWarning
from intact.errors import CalibrationError, QuantValueError, UnsupportedError
from intact.ptq import QuantizedModel, calibrate, quantize
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.output_errors import Errors, Evaluator, parts_of, relative_error, sqnr


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def quiet(model: Any, data: Any, **options: Any) -> QuantizedModel:
    return quantize(model, data, progress=False, **options)


def save(result: QuantizedModel, folder: Path, name: str) -> bytes:
    result.save(folder / name)
    return (folder / name).read_bytes()


def initializers(result: QuantizedModel) -> dict[str, np.ndarray]:
    return {i.name: onnx.numpy_helper.to_array(i) for i in result.proto.graph.initializer}


def formats(result: QuantizedModel) -> dict[str, int]:
    """Element type of each zero point, by the tensor's name."""
    return {i.name.removesuffix(".zero_point"): i.data_type for i in result.proto.graph.initializer
            if i.name.endswith(".zero_point")}  # fmt: skip


def test_the_quantized_model_answers_as_the_float_one(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    result = quiet(cnn, images)
    (want,), (got,) = run(cnn, x=images), run(result.proto, x=images)
    decided = np.sort(want, axis=1)[:, -1] - np.sort(want, axis=1)[:, -2] > 0.05
    assert decided.sum() > 12
    assert (want.argmax(1) == got.argmax(1))[decided].all()
    assert result.sqnr["y"] > 35
    assert [row["fused"] for row in result.explain()][:3] == ["Conv+Relu", "Conv+Relu", "Conv+Add+Relu"]


def test_weights_are_stored_as_codes_and_batchnorm_is_gone(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    result = quiet(cnn, images, scale_bits=None)
    assert "BatchNormalization" not in {node.op_type for node in result.proto.graph.node}
    assert result.notes == ["fold BatchNormalization: n_bn: folded into Conv 'n_c1'"]
    codes = initializers(result)["w2.codes"]
    assert codes.dtype == np.int8
    assert (np.abs(codes.astype(int)).max(axis=(1, 2, 3)) == 127).all()


def test_the_float_model_is_left_alone(cnn: onnx.ModelProto, images: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "float.onnx"
    onnx.save(cnn, path)
    before, file = cnn.SerializeToString(), path.read_bytes()
    quiet(cnn, images[:8])
    quiet(path, images[:8])
    assert cnn.SerializeToString() == before
    assert path.read_bytes() == file


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_the_file_does_not_depend_on_batches_or_their_order(
    cnn: onnx.ModelProto, images: np.ndarray, tmp_path: Path, method: str
) -> None:
    whole = save(quiet(cnn, images, method=method), tmp_path, "a.onnx")
    shuffled = images[np.random.default_rng(5).permutation(len(images))]
    pieces = [shuffled[:1], shuffled[1:11], shuffled[11:]]
    assert save(quiet(cnn, pieces, method=method), tmp_path, "b.onnx") == whole


def test_a_path_bytes_and_proto_give_the_same_file(
    cnn: onnx.ModelProto, images: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "float.onnx"
    onnx.save(cnn, path)
    files = {
        save(quiet(m, images[:16]), tmp_path, "q.onnx") for m in (cnn, path, str(path), path.read_bytes())
    }
    assert len(files) == 1


def test_auto_takes_whole_ranges_unless_others_halve_the_error(
    cnn: onnx.ModelProto, images: np.ndarray
) -> None:
    result = quiet(cnn, images, bias_correction=False)
    assert set(result.errors) == {"least expected error", *METHODS}
    assert 10 ** (-result.sqnr["y"] / 10) == pytest.approx(result.errors[result.chosen])
    assert result.errors["max"] < 2 * min(result.errors.values())
    assert result.errors[result.chosen] == result.errors["max"]


@pytest.mark.parametrize("error, chosen", [(0.6, "max"), (0.4, "mse")])
def test_a_candidate_must_halve_the_error(monkeypatch: pytest.MonkeyPatch, error: float, chosen: str) -> None:
    monkeypatch.setattr(Evaluator, "__init__", lambda self: setattr(self, "_runs", (None,) * 8))
    monkeypatch.setattr(
        Evaluator, "_each", lambda self, item, runs: (Errors({"y": (item["s"], np.ones(1))}) for _ in runs)
    )
    inputs = {
        "max": {"s": np.array([1.0])},
        "mse": {"s": np.array([error])},
        "entropy": {"s": np.ones(1)},
    }
    assert Evaluator().best(inputs, unless_halved="max")[0] == chosen


def test_whole_ranges_are_measured_on_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that they are bad for do not rule them out: over all eight nothing halves their error."""
    by_run = {"max": [4.5, 4.5, *[0.0] * 6], "mse": [0.75] * 8, "entropy": [0.8] * 8}

    def each(self: Evaluator, item: Any, runs: Any) -> Any:
        name = list(by_run)[int(item["s"][0])]
        return (Errors({"y": (np.array([by_run[name][i]]), np.ones(1))}) for i in runs)

    monkeypatch.setattr(Evaluator, "__init__", lambda self: setattr(self, "_runs", tuple(range(8))))
    monkeypatch.setattr(Evaluator, "_each", each)
    inputs = {name: {"s": np.array([float(i)])} for i, name in enumerate(by_run)}
    assert Evaluator().best(inputs, unless_halved="max")[0] == "max"
    assert Evaluator().best(inputs)[0] == "mse"


def test_boxes_do_not_hide_scores(build: Any) -> None:
    """An output that is a Concat counts part by part."""
    join = ("Concat", "boxes scores", "y", {"axis": 1})
    nodes = [("Mul", "x k", "boxes"), ("Sigmoid", "x", "scores"), join]
    result = build(nodes, {"x": ["N", 4, 6]}, {"y": ["N", 8, 6]}, k=np.array([1000], np.float32))
    model = graph.load(result)
    assert parts_of(model) == {"y": (1, (4, 4))}
    x = np.random.default_rng(0).standard_normal((2, 4, 6)).astype(np.float32)
    y = graph.Session(model).run({"x": x})["y"]
    y[:, 4:] *= 2
    errors = Evaluator(model, [HoldoutSample(b"", {"x": x}, {"y": y})]).errors()
    assert relative_error(errors) == pytest.approx(0.25 / 2)
    assert sqnr(errors)["y"] > 60


def test_the_largest_score_of_a_row_is_compared_with_floats(build: Any) -> None:
    """Ties in float are as good as each other; rows and outputs that say nothing do not count."""
    nodes = [("Identity", "x", "y"), ("Slice", "x s e a", "one"), ("Unsqueeze", "x a", "cube")]
    result = build(
        nodes, {"x": ["N", 3]}, {"y": ["N", 3], "one": ["N", 1], "cube": ["N", 1, 3]},
        s=np.array([0]), e=np.array([1]), a=np.array([1]),
    )  # fmt: skip
    got = np.array([[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, np.nan, 3]], np.float32)
    want = np.array([[0, 0, 1], [0, 1, 0], [5, 4, 5], [0, 0, np.inf], [0, 0, 1]], np.float32)
    outputs = {"y": want, "one": want[:, :1], "cube": want[:, None]}
    samples = [HoldoutSample(b"", {"x": got}, outputs), HoldoutSample(b"", {"x": got[:1]}, {"y": want[:1]})]
    model = graph.load(result)

    def same_answers(*runs: HoldoutSample) -> dict[str, tuple[int, int]]:
        answers = Evaluator(model, runs).errors().answers
        return {name: (item.same, item.rows) for name, item in answers.items()}

    assert same_answers(*samples) == {"y": (3, 5)}
    assert same_answers(HoldoutSample(b"", {"x": got}, {"y": want[:4, :2]})) == {"y": (0, 4)}
    assert same_answers(HoldoutSample(b"", {"x": got}, {"one": want[:, :1]})) == {}


def test_statistics_serve_every_method_without_data(
    cnn: onnx.ModelProto, images: np.ndarray, tmp_path: Path
) -> None:
    calibration = calibrate(cnn, images, progress=False)
    calibration.save(tmp_path / "stats.calib")
    for inputs in (calibration, tmp_path / "stats.calib"):
        for method in ("max", "entropy"):
            direct = quiet(cnn, images, method=method, bias_correction=False, rounding=False)
            stored = quiet(cnn, inputs, method=method)
            assert save(stored, tmp_path, "a.onnx") == save(direct, tmp_path, "b.onnx")
            assert stored.errors == {}
    assert set(quiet(cnn, calibration).methods.values()) <= set(METHODS)


def test_runs_on_parts_of_the_data_merge_to_one(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    parts = [calibrate(cnn, images[i : i + 12], progress=False) for i in (0, 12)]
    whole = calibrate(cnn, images, progress=False)
    merged = parts[0].merge(parts[1])
    assert {name: merged[name] for name in merged} == {name: whole[name] for name in whole}


def test_statistics_of_another_model_name_the_missing_tensor(cnn: onnx.ModelProto) -> None:
    with pytest.raises(CalibrationError, match=r"tensor 'x': got no statistics"):
        quiet(cnn, Calibration())


@pytest.mark.parametrize("switch", ["bias_correction", "equalization"])
def test_what_needs_data_says_so(cnn: onnx.ModelProto, switch: str) -> None:
    with pytest.raises(QuantValueError, match=rf"{switch}: got True with statistics instead of data"):
        quiet(cnn, Calibration(), **{switch: True})
    with pytest.raises(QuantValueError, match=rf"{switch}: got 'yes', want True, False or 'auto'"):
        quiet(cnn, Calibration(), **{switch: "yes"})


def test_uint8_has_zero_points_only_where_values_are_negative(
    cnn: onnx.ModelProto, images: np.ndarray
) -> None:
    result = quiet(cnn, images)
    zero_points = {n: a for n, a in initializers(result).items() if n.endswith(".zero_point")}
    assert zero_points["r1.zero_point"].dtype == np.uint8 and zero_points["r1.zero_point"] == 0
    assert 100 < zero_points["x.zero_point"] < 156
    assert result.sqnr["y"] > quiet(cnn, images, activations="int8").sqnr["y"]


@pytest.mark.parametrize("profile", ["tensorrt", "onnxruntime", "openvino"])
def test_other_engines_keep_symmetric_int8(cnn: onnx.ModelProto, images: np.ndarray, profile: str) -> None:
    zero_points = initializers(quiet(cnn, images, profile=profile))["x.zero_point"]
    assert zero_points.dtype == np.int8 and zero_points == 0


def significant_bits(scale: np.ndarray) -> int:
    """Of the scale that needs the most."""
    mantissa = np.frexp(np.atleast_1d(scale).astype(np.float64))[0]
    return next(bits for bits in range(1, 25) if (mantissa * 2**bits % 1 == 0).all())


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("method", ["auto", "max"])
def test_scales_are_short(cnn: onnx.ModelProto, images: np.ndarray, method: str, symmetric: bool) -> None:
    result = quiet(cnn, images, method=method, symmetric=symmetric)
    scales = {n: s for n, s in initializers(result).items() if n.endswith(".scale")}
    assert len(scales) > 8
    assert {n: significant_bits(s) for n, s in scales.items() if significant_bits(s) > 4} == {}


def test_scales_are_those_of_the_methods_where_asked(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    signed: dict[str, Any] = {"method": "max", "activations": "int8"}
    exact = initializers(quiet(cnn, images, **signed, scale_bits=None))
    short = initializers(quiet(cnn, images, **signed))
    assert exact["x.scale"] == np.abs(images).max() / np.float32(127)
    for name in ("x.scale", "r1.scale", "w2.scale", "w4.scale"):
        growth = short[name] / exact[name]
        assert (growth >= 1).all() and (growth < 1.125).all() and (growth > 1).any()


@pytest.mark.parametrize("bits", [0, 9, 2.5])
def test_scale_bits_are_checked_before_calibration(cnn: onnx.ModelProto, bits: Any) -> None:
    with pytest.raises(QuantValueError, match=rf"scale_bits: got {bits}, want 1..8, or None"):
        quiet(cnn, "never read", scale_bits=bits)


def test_asymmetric_int8_uses_all_codes(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    signed: dict[str, Any] = {"method": "max", "activations": "int8"}
    result = quiet(cnn, images, symmetric=False, **signed)
    assert initializers(result)["r1.zero_point"] == -128
    assert result.sqnr["y"] > quiet(cnn, images, **signed).sqnr["y"]


def test_one_scale_per_weight_where_asked(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    result = quiet(cnn, images[:8], per_channel=False)
    assert initializers(result)["w2.scale"].shape == ()
    assert initializers(quiet(cnn, images[:8]))["w2.scale"].shape == (16,)


def test_exclude_keeps_layers_in_float(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    result = quiet(cnn, images[:8], exclude=["Gemm"])
    assert "w4" in initializers(result)
    (row,) = [row for row in result.explain() if row["op_type"] == "Gemm"]
    assert row["precision"] == "float"


OVERRIDES = {
    "float by type": ({"Gemm": {"format": "float"}}, {"w4", "pool", "r3"}, {}),
    "int16 by name": ({"n_c2": {"format": "int16"}}, set(), {"r1.int16": TensorProto.INT16}),
    "fp8": ({"n_y": {"format": "fp8"}}, set(), {"w4": TensorProto.FLOAT8E4M3FN}),
    "by tensor": ({"r2": {"activations": "uint8"}}, set(), {"r2": TensorProto.UINT8}),
}


@pytest.mark.parametrize("overrides, gone, added", OVERRIDES.values(), ids=OVERRIDES)
def test_overrides_change_single_layers(
    cnn: onnx.ModelProto, images: np.ndarray, overrides: Any, gone: set[str], added: dict[str, int]
) -> None:
    plain, changed = quiet(cnn, images[:8]), quiet(cnn, images[:8], overrides=overrides)
    before, after = formats(plain), formats(changed)
    assert before.keys() - after.keys() == gone
    assert (
        added.items() <= after.items()
        or {n.split(".")[0]: t for n, t in added.items()}.items() <= after.items()
    )
    assert np.isfinite(run(changed.proto, x=images)[0]).all()


def test_int4_weights_come_in_blocks_at_opset_21(build: Any, images: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((192, 24)).astype(np.float32)
    model = build(
        [("Flatten", "x", "f"), ("MatMul", "f w", "m"), ("Relu", "m", "r"), ("MatMul", "r v", "y")],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 5]}, w=w, v=rng.standard_normal((24, 5)).astype(np.float32),
    )  # fmt: skip
    result = quiet(model, images, overrides={"n_m": {"format": "int4"}})
    assert result.proto.opset_import[0].version == 21
    scale = initializers(result)["w.scale"]
    assert scale.shape == (6, 24)
    assert np.array_equal(scale, np.abs(w).reshape(6, 32, 24).max(axis=1) / np.float32(7))
    assert "x.scale" not in initializers(result), "4-bit layers keep their activations in float"
    assert result.sqnr["y"] > 10


def test_weights_alone_need_no_activations(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    result = quiet(cnn, images, activations="float")
    ops = [node.op_type for node in result.proto.graph.node]
    assert ops.count("DequantizeLinear") == 4 and "QuantizeLinear" not in ops
    assert len(result.calibration) == 0 and result.sqnr["y"] > 40


BAD_OVERRIDES = {
    "pattern": (
        {"nothing*": {"format": "float"}},
        r"overrides: 'nothing\*': got no node, operator or tensor",
    ),
    "key": (
        {"Conv": {"formats": "int8"}},
        r"overrides\['Conv'\]: got 'formats', want keys among format, act",
    ),
    "method": ({"Conv": {"method": "best"}}, r"overrides\['Conv'\]: method: got 'best', want one of max"),
    "width": (
        {"Conv": {"activations": "int5"}},
        r"overrides\['Conv'\]: activations: got 'int5', want one of int8",
    ),
}


@pytest.mark.parametrize("overrides, message", BAD_OVERRIDES.values(), ids=BAD_OVERRIDES)
def test_wrong_overrides_name_the_pattern(
    cnn: onnx.ModelProto, images: np.ndarray, overrides: Any, message: str
) -> None:
    with pytest.raises(QuantValueError, match=message):
        quiet(cnn, images, overrides=overrides)


def test_an_opset_that_cannot_write_a_format_is_refused_before_calibration(cnn: onnx.ModelProto) -> None:
    with pytest.raises(UnsupportedError, match="int16 at opset 17, want opset 21"):
        quiet(cnn, "never read", activations="int16", opset=17)
    with pytest.raises(UnsupportedError, match="opset: got 13, want 17 or newer"):
        quiet(cnn, "never read", opset=13)


def test_the_opset_rises_where_asked(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    assert quiet(cnn, images[:8], opset=21).proto.opset_import[0].version == 21


def test_float16_models_stay_float16_outside_their_pairs(images: np.ndarray) -> None:
    model = make("N", np.float16)
    result = quiet(model, images.astype(np.float16))
    (want,), (got,) = (run(m, x=images.astype(np.float16)) for m in (model, result.proto))
    assert got.dtype == np.float16
    assert result.sqnr["y"] > 30 and np.abs(want - got).max() < 0.2


def make(batch: int | str, dtype: type = np.float32) -> onnx.ModelProto:
    from importlib import util

    spec = util.spec_from_file_location("ptq_models", Path(__file__).with_name("conftest.py"))
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_cnn(batch, dtype)  # type: ignore[no-any-return]


@pytest.mark.parametrize("batch", [1, 4])
def test_a_fixed_batch_size_gets_batches_of_that_size(images: np.ndarray, batch: int) -> None:
    result = quiet(make(batch), [images[:5], images[5:12]])
    assert result.calibration.provenance[0]["samples"] == 12 // batch
    assert int(result.calibration["x"].count) == 12 * 3 * 64


def test_too_few_samples_for_a_fixed_batch_are_named(images: np.ndarray) -> None:
    with pytest.raises(QuantValueError, match="data: got 3 samples, want 16, the model's fixed batch size"):
        quiet(make(16), images[:3])


def test_inputs_that_share_one_scale_are_calibrated_together(build: Any) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 4, 1, 1)).astype(np.float32)
    v = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    model = build(
        [("Conv", "a w", "ca"), ("Conv", "b w", "cb"), ("Concat", "ca cb", "cat", {"axis": 1}),
         ("Conv", "cat v", "y")],
        {"a": ["N", 4, 6, 6], "b": ["N", 4, 6, 6]}, {"y": ["N", 8, 4, 4]}, w=w, v=v,
    )  # fmt: skip
    a = rng.standard_normal((16, 4, 6, 6)).astype(np.float32)
    result = quiet(model, {"a": a, "b": 5 * a}, method="max")
    stored = initializers(result)
    grouped = [stored[n] for n in stored if n in ("ca.scale", "cb.scale", "cat.scale")]
    assert len(grouped) >= 2
    assert len({float(s) for s in grouped}) == 1
    assert result.sqnr["y"] > 30


def test_a_first_axis_that_is_no_batch_runs_whole(build: Any) -> None:
    """Sums over the first axis: samples cannot run alone."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 64)).astype(np.float32)
    model = build(
        [("Transpose", "x", "t", {"perm": [1, 0]}), ("Softmax", "t", "s"), ("MatMul", "s x", "g"),
         ("MatMul", "g w", "y")],
        {"x": ["T", 64]}, {"y": [64, 64]}, w=w,
    )  # fmt: skip
    batches = [rng.standard_normal((n, 64)).astype(np.float32) for n in (5, 9)]
    result = quiet(model, batches)
    assert result.calibration.provenance[0]["samples"] == 2


def test_lengths_may_differ_from_batch_to_batch(build: Any) -> None:
    rng = np.random.default_rng(0)
    model = build(
        [("MatMul", "x w", "m"), ("Relu", "m", "r"), ("MatMul", "r v", "y")],
        {"x": ["N", "T", 64]}, {"y": ["N", "T", 32]},
        w=rng.standard_normal((64, 64)).astype(np.float32),
        v=rng.standard_normal((64, 32)).astype(np.float32),
    )  # fmt: skip
    result = quiet(model, [rng.standard_normal((2, n, 64)).astype(np.float32) for n in (3, 7)])
    assert int(result.calibration["x"].count) == 2 * (3 + 7) * 64
    assert result.sqnr["y"] > 30


def test_nan_names_tensor_and_batch(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    images[20, 0, 0, 0] = np.nan
    with pytest.raises(
        CalibrationError, match=r"batch 2 of data \(.*\): tensor 'x': x: got 1 NaN and 0 infinities"
    ):
        quiet(cnn, images)


def test_a_tensor_without_values_is_named(build: Any, images: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    model = build(
        [("Slice", "x zero zero", "e"), ("Sigmoid", "e", "s"), ("Conv", "s w", "c"), ("Conv", "x w", "y")],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 4, 8, 8], "c": [None, 4, 8, 8]},
        zero=np.zeros(1, np.int64), w=rng.standard_normal((4, 3, 1, 1)).astype(np.float32),
    )  # fmt: skip
    with pytest.raises(CalibrationError, match=r"tensor 's': got no value in any batch \(1 of"):
        quiet(model, images)


def test_a_tensor_of_zeros_is_reported(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    with pytest.warns(ZeroRangeWarning, match="tensor 'x': every value is zero or almost; its scale is 1"):
        result = quiet(cnn, images * 0)
    assert result.warnings == ["tensor 'x': every value is zero or almost; its scale is 1"]


def test_nothing_to_quantize_is_an_error(build: Any, images: np.ndarray) -> None:
    model = build([("Relu", "x", "y")], {"x": ["N", 3, 8, 8]}, {"y": ["N", 3, 8, 8]})
    with pytest.raises(QuantValueError, match="model: got no layer that can be quantized"):
        quiet(model, images)


def test_a_model_that_is_quantized_while_it_runs_is_told_from_one_without_layers(images: np.ndarray) -> None:
    codes = onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    reals = onnx.helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    infos = [onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, images.shape) for name in "xy"]
    model = onnx_model([codes, reals], infos[:1], infos[1:])
    with pytest.raises(QuantValueError, match=r"quantized already \(DynamicQuantizeLinear"):
        quiet(model, images)


def test_the_front_door_takes_onnx_models(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    calibration = intact.calibrate(cnn, images[:8], progress=False)
    result = intact.quantize(cnn, calibration, method="max")
    assert isinstance(calibration, Calibration) and isinstance(result, QuantizedModel)


def test_printing_a_result_tells_what_became_of_the_model_and_no_weights(
    cnn: onnx.ModelProto, images: np.ndarray
) -> None:
    shown = str(quiet(cnn, images))
    assert "layers in int8" in shown and "SQNR of" in shown
    assert len(shown) < 2000
