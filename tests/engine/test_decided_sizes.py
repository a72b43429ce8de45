"""Sizes that values of the inputs decide: outputs follow the values, whatever the file declares of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import intact
from intact.engine.steps import FallbackSubgraph
from intact.errors import QuantValueError
from intact.graph import Session

X = "float[4,6] x"
BODIES = {
    "Expand": (f"{X}, int64[3] n", "float[2,4,6] y", "y = Expand(x, n)", [[2, 4, 6], [1, 1, 1], [3, 1, 6]]),
    "Expand-scalar": ("float s, int64[2] n", "float[2,2] y", "y = Expand(s, n)", [[2, 2], [1, 1], [3, 4]]),
    "Reshape": (f"{X}, int64[2] n", "float[3,8] y", "y = Reshape(x, n)", [[3, 8], [8, 3], [2, 12]]),
    "Reshape-rest": (f"{X}, int64[2] n", "float[3,8] y", "y = Reshape(x, n)", [[-1, 8], [2, -1], [0, 6]]),
    "ConstantOfShape": ("int64[2] n", "float[2,3] y", "y = ConstantOfShape(n)", [[2, 3], [1, 1], [4, 2]]),
    "behind": ("int64[2] n", "float[2,3] y", "z = ConstantOfShape(n) y = Exp(z)", [[2, 3], [4, 2]]),
    "Slice": (f"{X}, int64[2] n", "float[2,3] y", "s = Constant<value_ints = [0, 0]>() y = Slice(x, s, n)",
              [[2, 3], [4, 6], [1, 5]]),
    "Tile": (f"{X}, int64[2] n", "float[8,6] y", "y = Tile(x, n)", [[2, 1], [1, 3]]),
    "NonZero": ("int64[5] n", "int64[1,2] y", "y = NonZero(n)", [[0, 1, 1, 0, 0], [1, 1, 0, 1, 0]]),
    "TopK": (f"{X}, int64[1] n", "float[4,2] y", "y, i = TopK(x, n)", [[2], [5]]),
    "computed": (f"{X}, int64[2] n", "float[4,6] y",
                 "one = Constant<value_ints = [1, 1]>() m = Mul(n, one) y = Reshape(x, m)",
                 [[4, 6], [12, 2]]),
}  # fmt: skip


def model(inputs: str, output: str, body: str) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({output}) {{ {body} }}'
    return onnx.parser.parse_model(text)


def without_output_shape(proto: onnx.ModelProto) -> bytes:
    bare = onnx.ModelProto.FromString(proto.SerializeToString())
    bare.graph.output[0].type.tensor_type.ClearField("shape")
    return bytes(bare.SerializeToString())


def feeds(proto: onnx.ModelProto, n: list[int], rng: np.random.Generator) -> dict[str, np.ndarray]:
    inputs = {"n": np.array(n, np.int64)}
    for info in proto.graph.input:
        if info.name != "n":
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            inputs[info.name] = np.asarray(rng.standard_normal(shape), np.float32)
    return inputs


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", BODIES)
def test_an_output_follows_the_values(name: str, backend: str, rng: np.random.Generator) -> None:
    inputs, output, body, values = BODIES[name]
    proto = model(inputs, output, body)
    engine = intact.compile(proto, backend=backend, threads=1)
    runtime = Session(without_output_shape(proto))
    for n in (*values, *reversed(values)):
        run_feeds = feeds(proto, n, rng)
        want, got = runtime.run(run_feeds)["y"], engine.run(run_feeds)["y"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_sizes_that_are_read_within_stay_as_declared_or_are_refused(rng: np.random.Generator) -> None:
    """Nodes behind them are lowered for the sizes that the file declares."""
    proto = model(f"{X}, int64[2] n", "float[3,3] y", "z = Reshape(x, n) t = Transpose(z) y = MatMul(z, t)")
    declared = onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [3, 8])
    proto.graph.value_info.append(declared)
    engine = intact.compile(proto, threads=1)
    inputs = feeds(proto, [3, 8], rng)
    rows = inputs["x"].reshape(3, 8)
    np.testing.assert_allclose(engine.run(inputs)["y"], rows @ rows.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(QuantValueError, match=r"'z'.*values of the inputs decide sizes"):
        engine.run(inputs | {"n": np.array([8, 3])})


def test_sizes_of_the_inputs_are_no_values(rng: np.random.Generator) -> None:
    body = """
        at = Constant<value_int = 0>() one = Constant<value_ints = [-1]>() zero = Constant<value_ints = [0]>()
        all = Shape(x) rows = Gather(all, at) first = Unsqueeze(rows, zero) n = Concat<axis = 0>(first, one)
        y = Reshape(x, n)
    """
    proto = model("float[b,4,6] x", "float[b,24] y", body)
    engine = intact.compile(proto, threads=1)
    x = rng.standard_normal((3, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(engine.run({"x": x})["y"], x.reshape(3, 24))
    assert not any(isinstance(step, FallbackSubgraph) for step in engine.plan.steps)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("output", ["float[1,4,11] y", "float[1,4,four] y", "float[n,4,1] y"])
def test_declared_sizes_of_an_output_bind_nobody(output: str, backend: str, rng: np.random.Generator) -> None:
    """Exporters declare those of the run that they saw, and names that mean another size."""
    body = "r = Relu(x) y = Transpose<perm = [0, 2, 1]>(r)"
    proto = model("float[1,n,four] x", output, body)
    engine = intact.compile(proto, backend=backend, threads=1)
    for n in (11, 12, 9):
        x = rng.standard_normal((1, n, 4)).astype(np.float32)
        outputs, tapped = engine.run({"x": x}), engine.tap({"x": x})
        np.testing.assert_array_equal(outputs["y"], np.maximum(x, 0).transpose(0, 2, 1))
        np.testing.assert_array_equal(tapped["y"], outputs["y"])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_declared_sizes_of_an_output_that_is_read_bind_nobody(backend: str, rng: np.random.Generator) -> None:
    """Nodes behind it follow its actual sizes: attention weights that a decoder shows, declared in one
    run."""
    body = """
        all = Shape(x) y = Softmax(x) t = Transpose<perm = [0, 2, 1]>(y)
        p = MatMul(y, t) sizes = Shape(y) n = ReduceProd<keepdims = 0>(sizes) f = Cast<to = 1>(n)
        z = Mul(p, f)
    """
    proto = model("float[1,n,4] x", "float[1,11,4] y, float[1,n,n] z", body)
    engine, runtime = intact.compile(proto, backend=backend, threads=1), Session(without_output_shape(proto))
    for n in (11, 12, 9):
        x = {"x": rng.standard_normal((1, n, 4)).astype(np.float32)}
        want, got, tapped = runtime.run(x), engine.run(x), engine.tap(x)
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5)
            np.testing.assert_array_equal(tapped[name], got[name])


def test_a_quantized_file_follows_what_an_output_has(rng: np.random.Generator) -> None:
    """Pairs behind an output that is read take its sizes from the run, too."""
    body = "y = MatMul(x, w) r = Relu(y) z = MatMul(r, v)"
    proto = model("float[1,n,16] x", "float[1,11,16] y, float[1,n,8] z", body)
    for name, columns in (("w", 16), ("v", 8)):
        weight = rng.standard_normal((16, columns)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    feeds = [{"x": rng.standard_normal((1, n, 16)).astype(np.float32)} for n in (11, 12, 9)]
    quantized_model = intact.quantize(proto, feeds, progress=False).model
    engines = [
        intact.compile(quantized_model, backend=backend, threads=1) for backend in ("cpu", "reference")
    ]
    for x in feeds:
        got, same = (engine.run(x) for engine in engines)
        assert got["y"].shape == (1, x["x"].shape[1], 16)
        for name in got:
            np.testing.assert_array_equal(got[name], same[name])
