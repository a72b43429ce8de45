"""Sessions that may optimize give what the file says."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.errors import UnsupportedError
from intact.graph import Session, load


@pytest.mark.parametrize("codes", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT8", "UINT8"])
def test_a_relu_in_front_of_codes_stays(codes: str) -> None:
    """ONNX Runtime takes it for one that the codes do themselves, those of fp8 too."""
    zero = helper.make_tensor("zero", getattr(TensorProto, codes), [], [0])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [0.01])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [9]) for name in "xy")
    model = onnx_model(nodes, [x], [y], [scale, zero], opset=19)
    feeds = {"x": np.linspace(-1, 1, 9, dtype=np.float32)}
    plain, folded = (Session(model.SerializeToString(), folded=f).run(feeds)["y"] for f in (False, True))
    np.testing.assert_array_equal(folded, plain)
    assert folded.min() == 0


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("channels", [32, 64])
def test_what_is_added_between_transposes_is_not_lost(
    channels: int, quantized: bool, rng: np.random.Generator
) -> None:
    """ONNX Runtime takes the Transposes away by transposing what is added: of 32 channels, both fit."""
    added = rng.integers(-9, 9, (1, 32, 32, channels)).astype(np.int8 if quantized else np.float32)
    constants = [
        numpy_helper.from_array(added, "added"),
        numpy_helper.from_array(np.float32(0.5), "scale"),
        numpy_helper.from_array(rng.standard_normal((channels, channels, 1, 1)).astype(np.float32), "w"),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Transpose", ["c"], ["last"], perm=[0, 2, 3, 1]),
        helper.make_node("DequantizeLinear", ["added", "scale"], ["real"]),
        helper.make_node("Sub", ["last", "real" if quantized else "added"], ["s"]),
        helper.make_node("Transpose", ["s"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["first", "w"], ["y"]),
    ]
    if not quantized:
        del nodes[2], constants[1]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, channels, 32, 32]) for n in "xy")
    model = load(onnx_model(nodes, [x], [y], constants))
    feeds = {"x": rng.standard_normal((1, channels, 32, 32)).astype(np.float32)}
    plain, folded = (Session(model, folded=f).run(feeds)["y"] for f in (False, True))
    np.testing.assert_allclose(folded, plain, rtol=1e-4, atol=1e-3)


def parts() -> bytes:
    """x, its double as it comes and as a vector of any length."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("Concat", ["x", "x"], ["both"], axis=0),
    ]
    names = ("x", "twice", "both")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in names]
    return onnx_model(nodes, values[:1], values[1:]).SerializeToString()


def test_small_outputs_come_at_once_and_large_ones_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the last run made; the numbers are the same, and what was handed over serves both ways."""
    session = Session(parts())
    ways: list[str] = []
    for way in ("run", "run_with_ort_values"):
        plain = getattr(session._session, way)
        monkeypatch.setattr(session._session, way, lambda *a, w=way, f=plain: (ways.append(w), f(*a))[1])
    for size in (8, 8, 2**17, 2**17, 8, 8):
        x = np.arange(size, dtype=np.float32)
        feeds = {"x": x} if len(ways) % 2 else session.to_ort_values({"x": x})
        outputs = session.run(feeds)
        np.testing.assert_array_equal(outputs["twice"], 2 * x)
        np.testing.assert_array_equal(outputs["both"], np.concatenate([x, x]))
        assert list(outputs) == session.outputs
    few, many = "run", "run_with_ort_values"
    assert ways == [many, few, few, many, many, few]


def test_nothing_runs_where_nothing_is_asked_for() -> None:
    session = Session(parts())
    assert dict(session.stream({"x": np.ones(3, np.float32)}, [])) == {}
    assert list(dict(session.stream({"x": np.ones(3, np.float32)}, ["both"]))) == ["both"]


def test_what_runs_have_in_common_is_given_once() -> None:
    """From several threads, with sizes that differ from run to run."""
    nodes = [helper.make_node("Mul", ["x", "s"], ["m"]), helper.make_node("Add", ["m", "t"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    stored = [helper.make_tensor(name, TensorProto.FLOAT, [], [7.0]) for name in "st"]
    model = onnx_model(nodes, [x], [y], stored)
    session = Session(model.SerializeToString(), overridable=["s", "t"])
    bound = [session.bind_inputs({"s": np.array(k, np.float32)}) for k in range(3)]
    inputs = [np.arange(n, dtype=np.float32) for n in (5, 1, 9, 0, 4)] * 8
    with ThreadPoolExecutor(4) as pool:
        for k, binding in enumerate(bound):
            outputs = list(
                pool.map(lambda x, bound_session=binding: dict(bound_session.stream({"x": x}))["y"], inputs)
            )
            for x_in, got in zip(inputs, outputs, strict=True):
                assert np.array_equal(got, k * x_in + 7)
    with pytest.raises(UnsupportedError, match="onnxruntime"):
        list(bound[0].stream({"x": np.zeros((2, 2), np.float32)}))
