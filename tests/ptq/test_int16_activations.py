"""16 bits for what needs them: by the outputs, by name, and never."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, numpy_helper, parser

import intact
from intact.errors import QuantValueError, UnsupportedError
from intact.graph import load, to_bytes
from intact.ptq import GOOD_DB, POOR_DB, QuantizedModel, quantize
from intact.ptq.mixed.precision_search import Cost, PrecisionStep, UnitGroup, greedy_steps
from intact.ptq.stages.int16_activations import Unit


@pytest.fixture
def uneven(build: Any) -> onnx.ModelProto:
    return make_uneven(build)


def make_uneven(build: Any, dtype: type = np.float32, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Rows of sizes from 0.1 to 10 go through two products, before they are brought to one size."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(dtype)

    nodes = [
        ("MatMul", "x w0", "wide"), ("MatMul", "wide w1", "wider"),
        ("LayerNormalization", "wider gamma beta", "even", {"axis": -1}),
        ("Gemm", "even w2 b2", "inner"), ("Relu", "inner", "positive"), ("Gemm", "positive w3 b3", "y"),
    ]  # fmt: skip
    return build(
        nodes, {"x": ["N", 32]}, {"y": ["N", 8]}, w0=normal(32, 32), w1=normal(32, 32),
        gamma=np.ones(32, dtype), beta=np.zeros(32, dtype), w2=normal(32, 32), b2=np.zeros(32, dtype),
        w3=normal(32, 8), b3=np.zeros(8, dtype), dtype=kind,
    )  # fmt: skip


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.standard_normal((256, 32)) * 10 ** rng.uniform(-1, 1, (256, 1))).astype(np.float32)


def quiet(model: Any, data: Any, **options: Any) -> QuantizedModel:
    return quantize(model, data, progress=False, **{"equalization": False, "dynamic_ranges": False} | options)


def types(result: QuantizedModel) -> dict[str, set[int]]:
    """Element types of the codes of what each node with a weight reads, by its operator's output."""
    loaded = load(result.proto)
    results: dict[str, set[int]] = {}
    for node in loaded.graph:
        makers = [value.producer() for value in node.inputs[:2] if value is not None]
        pairs = [m for m in makers if m is not None and m.op_type == "DequantizeLinear"]
        if len(pairs) == 2:
            results[(node.name or "").removeprefix("n_")] = {int(pair.inputs[0].dtype or 0) for pair in pairs}
    return results


WIDE, NARROW = {TensorProto.UINT16, TensorProto.INT16}, {TensorProto.UINT8, TensorProto.INT8}


def test_auto_widens_what_the_outputs_need_and_nothing_else(
    uneven: onnx.ModelProto, rows: np.ndarray
) -> None:
    before, after = quiet(uneven, rows, float_budget=0), quiet(uneven, rows, bits16="auto")
    assert before.sqnr["y"] < POOR_DB and after.sqnr["y"] > before.sqnr["y"] + 20
    assert types(before) == dict.fromkeys(("wide", "wider", "inner", "y"), NARROW)
    mixed = {TensorProto.UINT16, TensorProto.INT8}
    assert types(after) == {"wide": mixed, "wider": mixed, "inner": mixed, "y": NARROW}
    onnx.checker.check_model(after.proto, full_check=True)
    assert after.proto.opset_import[0].version == 21


def test_it_says_which_tensors_and_why(uneven: onnx.ModelProto, rows: np.ndarray) -> None:
    result = quiet(uneven, rows, bits16="auto")
    assert list(result.bits16) == ["x", "wide", "even"]
    assert all("with 8 bits an output has" in w and "more time" in w for w in result.bits16.values())
    messages = {row["layer"]: (row["precision"], row["reason"]) for row in result.explain()}
    readers = {"x": "n_wide", "wide": "n_wider", "even": "n_inner"}
    for tensor, node in readers.items():
        precision, reason = messages[node]
        assert precision == "int8" and "codes of 16 bits by int8 weights" in reason
        assert reason.startswith(f"inputs of 16 bits: {result.bits16[tensor]}; ")
    assert messages["n_y"][0] == "int8" and "16 bits" not in messages["n_y"][1]
    read = intact.placement.read_placement(load(result.proto))
    assert {layer.name for layer in read.layers if "codes of 16 bits" in layer.reason} == set(
        readers.values()
    )


@pytest.mark.parametrize(
    ("dtype", "kind"), [(np.float64, TensorProto.DOUBLE), (np.float16, TensorProto.FLOAT16)]
)
def test_other_floats(build: Any, rows: np.ndarray, dtype: type, kind: int) -> None:
    result = quiet(make_uneven(build, dtype, kind), rows.astype(dtype), bits16="auto")
    before = quiet(make_uneven(build, dtype, kind), rows.astype(dtype), float_budget=0)
    assert len(result.bits16) == 3 and result.sqnr["y"] > before.sqnr["y"] + 20


def test_equal_work_gives_equal_files(uneven: onnx.ModelProto, rows: np.ndarray) -> None:
    first, second = (quiet(uneven, data, bits16="auto") for data in (rows, rows[::-1].copy()))
    assert to_bytes(first.model) == to_bytes(second.model)
    assert first.bits16 == second.bits16


def test_the_engine_runs_it(uneven: onnx.ModelProto, rows: np.ndarray, tmp_path: Any) -> None:
    result = quiet(uneven, rows, bits16="auto")
    want = intact.graph.Session(result.model).run({"x": rows[:16]})["y"]
    for engine in (
        intact.compile(result.proto, threads=1),
        intact.compile(result.proto, backend="reference"),
    ):
        got = engine.run({"x": rows[:16]})["y"]
        assert np.square(got - want).sum() < 1e-3 * np.square(want).sum()


@pytest.mark.parametrize("requested", ["never", "auto"])
def test_where_8_bits_are_enough_the_file_is_as_ever(
    cnn: onnx.ModelProto, images: np.ndarray, requested: str
) -> None:
    result = quiet(cnn, images, bits16=requested)
    assert min(result.sqnr.values()) > POOR_DB
    assert to_bytes(result.model) == to_bytes(quiet(cnn, images).model)
    assert not result.bits16 and not result.warnings


def test_never_is_the_default(uneven: onnx.ModelProto, rows: np.ndarray) -> None:
    never = quiet(uneven, rows, bits16="never")
    assert to_bytes(never.model) == to_bytes(quiet(uneven, rows).model)
    assert never.proto.opset_import[0].version == 17


@pytest.mark.parametrize(
    ("patterns", "wide"),
    [
        (["even"], {"inner"}),
        (["n_wide"], {"wide"}),
        (["Gemm"], {"inner", "y"}),
        (["w?de", "pos*"], {"wider", "y"}),
    ],
    ids=["tensor", "node", "operator", "several"],
)
def test_patterns(uneven: onnx.ModelProto, rows: np.ndarray, patterns: Sequence[str], wide: set[str]) -> None:
    calibration = intact.calibrate(uneven, rows, progress=False)
    for data in (rows, calibration):  # no trial is needed: statistics are enough
        result = quiet(uneven, data, bits16=patterns)
        assert {name for name, result in types(result).items() if result == WIDE} == wide
        assert {name for name, result in types(result).items() if result == NARROW} == (
            {"wide", "wider", "inner", "y"} - wide
        )
        assert all("bits16 names it" in why for why in result.bits16.values())


def test_a_weight_of_two_layers_has_16_bits_for_one(build: Any, images: np.ndarray) -> None:
    weight = np.random.default_rng(2).standard_normal((3, 3, 1, 1)).astype(np.float32)
    model = build(
        [("Conv", "x w", "a"), ("Relu", "a", "r"), ("Conv", "r w", "y")],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 3, 8, 8]}, w=weight,
    )  # fmt: skip
    result = quiet(model, images, bits16=["r"])
    assert types(result) == {"a": NARROW, "y": WIDE}
    assert result.sqnr["y"] > quiet(model, images).sqnr["y"]


def test_codes_that_are_moved_first_are_widened_with_their_layer(
    cnn: onnx.ModelProto, images: np.ndarray
) -> None:
    result = quiet(cnn, images, bits16=["n_y"])
    assert list(result.bits16) == ["pool"]
    weights = {tensor.name: tensor.data_type for tensor in result.proto.graph.initializer}
    assert weights["w4.codes"] == TensorProto.INT16


def test_a_method_that_was_asked_for_holds_for_16_bits(uneven: onnx.ModelProto, rows: np.ndarray) -> None:
    free = quiet(uneven, rows, bits16=["x"])
    assert free.methods["x"] == "max"
    requested = quiet(uneven, rows, bits16=["x"], method="percentile", percentile=90)
    assert requested.methods["x"] == "percentile" and requested.ranges["x"][1] < free.ranges["x"][1] / 2


def test_other_formats_that_were_asked_for_stay(uneven: onnx.ModelProto, rows: np.ndarray) -> None:
    remaining: dict[str, Any] = {"n_wide": {"format": "int4"}, "even": {"activations": "fp8e4m3"}}
    result = quiet(uneven, rows, bits16=["*"], overrides=remaining)
    assert set(result.bits16) == {"wide", "positive"}
    assert types(result)["inner"] == {TensorProto.FLOAT8E4M3FN, TensorProto.INT8}


def test_what_16_bits_do_not_help_keeps_8(build: Any) -> None:
    """Weights of 4 bits were asked for, and lose more than 16 bits for what they multiply bring."""
    rng = np.random.default_rng(3)
    model = build(
        [("MatMul", "x w", "y")], {"x": ["N", 64]}, {"y": ["N", 16]},
        w=rng.standard_normal((64, 16)).astype(np.float32),
    )  # fmt: skip
    data = rng.standard_normal((64, 64)).astype(np.float32)
    result = quiet(model, data, bits16="auto", overrides={"MatMul": {"weights": "int4"}}, activations="int8")
    assert result.sqnr["y"] < POOR_DB and not result.bits16
    nothing, useless = result.warnings
    assert nothing.startswith("bits16: 'auto' widens nothing: it would bring the outputs from")
    assert "is of little use" in useless


def test_a_pattern_that_fits_nothing_quantized_is_a_warning(
    uneven: onnx.ModelProto, rows: np.ndarray
) -> None:
    result = quiet(uneven, rows, bits16=["LayerNormalization", "even"])
    assert result.warnings[:-1] == ["bits16: 'LayerNormalization' fits nothing that is quantized to 8 bits"]
    assert "is of little use" in result.warnings[-1]
    assert list(result.bits16) == ["even"]


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "word": ({"bits16": "always"}, QuantValueError, "bits16: got 'always', want 'never', 'auto', or a list"),
    "no pattern": ({"bits16": []}, QuantValueError, "bits16: got"),
    "number": ({"bits16": 16}, QuantValueError, "bits16: got 16"),
    "not a name": ({"bits16": [16]}, QuantValueError, "bits16: got"),
    "fits nothing": ({"bits16": ["nothing*"]}, QuantValueError, "bits16: 'nothing\\*': got no node"),
    "tensorrt": (
        {"bits16": "auto", "profile": "tensorrt"}, UnsupportedError,
        "bits16: got 'auto' for tensorrt, want 'never': tensorrt does not read codes of 16 bits",
    ),
    "tensorrt, by name": ({"bits16": ["x"], "profile": "tensorrt"}, UnsupportedError, "for tensorrt"),
    "old opset": ({"bits16": "auto", "opset": 17}, UnsupportedError, "bits16: .* opset 17, want opset 21"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "error", "output"), WRONG.values(), ids=list(WRONG))
def test_what_cannot_be_is_refused_before_data_are_read(
    uneven: onnx.ModelProto, options: dict[str, Any], error: type[Exception], output: str
) -> None:
    with pytest.raises(error, match=output):
        quiet(uneven, "never read", **options)


def test_auto_wants_data(uneven: onnx.ModelProto, rows: np.ndarray) -> None:
    calibration = intact.calibrate(uneven, rows, progress=False)
    with pytest.raises(QuantValueError, match="bits16: got 'auto' with statistics instead of data"):
        quiet(uneven, calibration, bits16="auto")


NET = """<ir_version: 8, opset_import: ["" : 17]>
net (float[n, 32] x, int64 rate) => (float[n, 32] y) {
    first = MatMul (x, w0)
    fast = Equal (rate, sixteen)
    y = If (fast) <
        then_branch = uneven_net () => (a) {
            inner = MatMul (first, w1)  a = LayerNormalization (inner, gamma)
        },
        else_branch = even_net () => (b) { level = Tanh (first)  b = MatMul (level, w1) }
    >
}"""


@pytest.fixture
def branching() -> onnx.ModelProto:
    rng = np.random.default_rng(4)
    result = parser.parse_model(NET)
    arrays = {name: rng.standard_normal((32, 32)).astype(np.float32) / 6 for name in ("w0", "w1")}
    for name, array in (arrays | {"gamma": np.ones(32, np.float32), "sixteen": np.array(16)}).items():
        result.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(result, full_check=True)
    return result


def formats_of_names(rows: np.ndarray) -> list[dict[str, np.ndarray]]:
    return [{"x": part, "rate": np.array(rate)} for rate in (16, 8) for part in np.split(rows, 8)]


def test_each_branch_has_what_it_needs(branching: onnx.ModelProto, rows: np.ndarray) -> None:
    result = quiet(branching, formats_of_names(rows), bits16="auto")
    then, other = result.branches.values()
    assert list(then.bits16) == ["first"] and then.sqnr["a"] > GOOD_DB
    assert not other.bits16
    onnx.checker.check_model(result.proto, full_check=True)
    engine = intact.compile(result.proto, threads=1)
    for feeds in formats_of_names(rows)[::8]:
        want = intact.graph.Session(branching.SerializeToString()).run(feeds)["y"]
        assert np.square(engine.run(feeds)["y"] - want).sum() < 10 ** (-POOR_DB / 10) * np.square(want).sum()


def test_patterns_may_be_about_one_branch(branching: onnx.ModelProto, rows: np.ndarray) -> None:
    result = quiet(branching, formats_of_names(rows), bits16=["level"])
    assert [list(part.bits16) for part in result.parts.values()] == [[], [], ["level"]]
    assert not any("bits16" in line or "stays in float" in line for line in result.warnings)


def group(name: str, error: float, **forms: tuple[float, float]) -> UnitGroup:
    """Forms, `wide` and `floats`, by (error that is left, time)."""
    names = {"wide": "16 bits", "floats": "float"}
    unit = Unit((0, name, True), (name,), ())
    return UnitGroup((unit,), error, {names[form]: Cost(*cost) for form, cost in forms.items()})


def reasons(steps: Sequence[PrecisionStep]) -> list[tuple[str, str]]:
    return [(step.item.units[0].tensors[0], step.choice) for step in steps]


def test_what_takes_most_error_off_for_its_time_is_raised_first() -> None:
    groups = [
        group("a", 0.4, wide=(0.1, 0.1), floats=(0.0, 0.5)),
        group("b", 0.5, wide=(0.0, 0.1), floats=(0.0, 0.3)),
        group("c", 0.1, floats=(0.0, 0.01)),
    ]  # fmt: skip
    assert reasons(greedy_steps(groups)) == [
        ("c", "float"),
        ("b", "16 bits"),
        ("a", "16 bits"),
        ("a", "float"),
    ]
    assert reasons(greedy_steps(groups, 0.15)) == [("c", "float"), ("b", "16 bits")]
    assert sum(greedy_step.gain for greedy_step in greedy_steps(groups)) == pytest.approx(1.0)
    assert sum(greedy_step.price for greedy_step in greedy_steps(groups)) == pytest.approx(0.01 + 0.1 + 0.5)
    assert greedy_steps([]) == []


def test_a_form_that_gains_nothing_is_not_taken() -> None:
    assert (
        reasons(greedy_steps([group("a", 0.4, wide=(0.4, 0.01)), group("b", 0.0, floats=(0.0, 0.1))])) == []
    )


def test_by_turns_16_bits_come_before_float() -> None:
    cheap = [group("a", 0.4, wide=(0.1, 0.2), floats=(0.0, 0.2)), group("b", 0.1, floats=(0.0, 0.2))]
    assert reasons(greedy_steps(cheap)) == [("a", "float"), ("b", "float")]
    assert reasons(greedy_steps(cheap, by_turns=True)) == [("a", "16 bits"), ("a", "float"), ("b", "float")]


def test_a_bias_beside_16_bits_fits_into_int32(build: Any, images: np.ndarray) -> None:
    """ONNX Runtime stores it so, in steps of the scales' product, unless it is told not to."""
    weight = np.random.default_rng(5).standard_normal((4, 3, 1, 1)).astype(np.float32)
    weight[1] *= 1e-7  # as in a channel that training has given up
    again = weight[:, :1].repeat(4, 1)
    bias = np.array([0.5, 3, -0.1, 0], np.float32)
    model = build(
        [("Conv", "x w b", "a"), ("Relu", "a", "r"), ("Transpose", "r", "t", {"perm": [0, 1, 3, 2]}),
         ("Conv", "t w2 b", "c"), ("Relu", "c", "r2"), ("Conv", "r2 w2", "y")],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 4, 8, 8]}, w=weight, b=bias, w2=again,
    )  # fmt: skip
    result = quiet(model, images, bits16=["*"])
    session = ort.InferenceSession(result.proto.SerializeToString(), providers=["CPUExecutionProvider"])
    want = intact.graph.Session(model.SerializeToString()).run({"x": images})["y"]
    assert np.square(session.run(None, {"x": images})[0] - want).sum() < 1e-5 * np.square(want).sum()
