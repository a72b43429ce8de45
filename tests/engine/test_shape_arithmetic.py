"""Arithmetic with free sizes is part of the plan: nothing is lowered again for another length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser

import intact
from intact.engine import engine as engines
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import CumSum, Expand, FallbackSubgraph, SizeVector
from intact.engine.steps.base.dims import expression, is_never_negative, names_in, value_of
from intact.errors import IntactError, QuantValueError

SIZES = ((1, 5), (2, 9), (3, 1), (1, 17), (2, 9))

TEXT = """
text (int64[batch, words] ids, int64[batch, words] mask) => (float[batch, words, 32] y) {
    e = Gather (table, ids)
    s = Shape (ids)  n = Gather (s, one)  ends = Unsqueeze (n, first)  b = Gather (s, zero)
    places = Slice (all, first, ends, axis)  p = Gather (positions, places)
    mean = ReduceMean <axes = [1]> (e)  es = Shape (e)  wide = Expand (mean, es)
    large = Expand (bias, es)  biased = Add (e, large)  shifted = Add (biased, wide)
    x = Add (shifted, p)
    q = MatMul (x, wq)  k = MatMul (x, wk)
    row = Range (zero, n, one)  r1 = Unsqueeze (row, axis)  r2 = Unsqueeze (row, first)
    later = Greater (r2, r1)  far = Cast <to = 1> (later)  causal = Mul (far, low)
    m = Cast <to = 1> (mask)  m4 = Unsqueeze (m, middle)  open = Sub (whole, m4)  padded = Mul (open, low)
    bs = Unsqueeze (b, first)  to = Concat <axis = 0> (bs, ends, heads, depth)
    q4 = Reshape (q, to)  qt = Transpose <perm = [0, 2, 1, 3]> (q4)
    k4 = Reshape (k, to)  kt = Transpose <perm = [0, 2, 3, 1]> (k4)
    a = MatMul (qt, kt)  a1 = Add (a, causal)  a2 = Add (a1, padded)
    w = Softmax <axis = -1> (a2)  o = MatMul (w, qt)
    ot = Transpose <perm = [0, 2, 1, 3]> (o)
    back = Concat <axis = 0> (bs, ends, width)  o3 = Reshape (ot, back)
    y = MatMul (o3, wo)
}"""


def model(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items())
    onnx.checker.check_model(proto, full_check=False)
    return proto


def text_model() -> onnx.ModelProto:
    """Attention with positions, a causal mask of the length, and a mask of padding."""
    rng = np.random.default_rng(3)

    def reals(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 4).astype(np.float32)

    return model(
        TEXT, table=reals(50, 32), positions=reals(20, 32), bias=reals(1, 1, 32), wq=reals(32, 32),
        wk=reals(32, 32), wo=reals(32, 32), all=np.arange(20)[None], zero=np.array(0), one=np.array(1),
        first=np.array([0]), axis=np.array([1]), middle=np.array([1, 2]), heads=np.array([4]),
        depth=np.array([8]), width=np.array([32]), low=np.float32(-1e4), whole=np.float32(1),
    )  # fmt: skip


def feeds(batch: int, words: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch * 100 + words)
    mask = np.ones((batch, words), np.int64)
    mask[0, words // 2 + 1 :] = 0
    return {"ids": rng.integers(0, 50, (batch, words)), "mask": mask}


@pytest.fixture(scope="module")
def quantized_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sizes") / "text.onnx"
    intact.quantize(text_model(), [feeds(2, 7), feeds(1, 12)], progress=False).save(path)
    return path


def check_every_code(engine: intact.Engine, batch: int, words: int) -> None:
    inputs = feeds(batch, words)
    wanted = evaluate(engine.plan_for({n: a.shape for n, a in inputs.items()}), inputs)
    for name, array in engine.tap(inputs).items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    np.testing.assert_array_equal(engine.run(inputs)["y"], wanted["y"])


def test_one_plan_is_for_all_sizes(quantized_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = lower(quantized_path)
    assert not plan.model and not any(isinstance(step, FallbackSubgraph) for step in plan.steps)
    assert {CumSum, Expand} <= {type(step) for step in plan.steps}
    engine = intact.compile(plan, threads=1)
    monkeypatch.setattr("intact.engine.lower.lower", None)
    for sizes in SIZES:
        check_every_code(engine, *sizes)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_code_of_every_size_after_a_file(quantized_path: Path, tmp_path: Path, threads: int) -> None:
    intact.compile(quantized_path, threads=threads).save(tmp_path / "text.plan")
    engine = intact.load(tmp_path / "text.plan", threads=threads)
    for sizes in SIZES:
        check_every_code(engine, *sizes)


def test_floats_are_those_of_onnx_runtime() -> None:
    source = text_model()
    session = ort.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    engine = intact.compile(source, threads=2)
    assert not engine.plan.model
    for sizes in SIZES:
        (wanted,) = session.run(None, feeds(*sizes))
        np.testing.assert_allclose(engine.run(feeds(*sizes))["y"], wanted, atol=1e-5, rtol=1e-4)


def test_codes_are_those_of_a_plan_for_known_sizes(quantized_path: Path) -> None:
    engine = intact.compile(quantized_path, threads=1)
    for batch, words in SIZES[:3]:
        inputs = feeds(batch, words)
        fixed_engine = intact.compile(
            quantized_path, threads=1, shapes={n: a.shape for n, a in inputs.items()}
        )
        np.testing.assert_array_equal(engine.run(inputs)["y"], fixed_engine.run(inputs)["y"])


def test_sizes_that_do_not_fit_are_refused(quantized_path: Path) -> None:
    inputs = feeds(1, 25)  # more places than there are positions
    with pytest.raises(IntactError):
        intact.compile(quantized_path, threads=1).run(inputs)


def test_sizes_themselves_are_outputs() -> None:
    source = model(
        """g (float[b, n] x) => (int64[2] s, int64[n] places, float[b, n] y) {
            s = Shape (x)  n1 = Gather (s, one)  places = Range (zero, n1, one)  y = Relu (x)
        }""",
        zero=np.array(0), one=np.array(1),
    )  # fmt: skip
    engine = intact.compile(source, threads=1)
    assert not engine.plan.model
    for shape in ((2, 3), (1, 6), (4, 1)):
        outputs = engine.run({"x": np.ones(shape, np.float32)})
        assert outputs["s"].tolist() == list(shape) and outputs["places"].tolist() == list(range(shape[1]))


def test_a_constant_of_a_free_size() -> None:
    """A first state of zeros, as recurrent networks have it, and a Reshape behind a product of sizes."""
    source = model(
        """g (float[b, n, 4] x) => (float[m, 4] y) {
            s = Shape (x)  zeros = ConstantOfShape (s)  e = Add (x, zeros)
            ends = Slice (s, first, two)  b = Gather (s, zero)  n = Gather (s, one)
            m = Mul (b, n)  m1 = Unsqueeze (m, first)  to = Concat <axis = 0> (m1, four)
            y = Reshape (e, to)
        }""",
        zero=np.array(0), one=np.array(1), first=np.array([0]), two=np.array([2]), four=np.array([4]),
    )  # fmt: skip
    engine = intact.compile(source, threads=1)
    assert not engine.plan.model
    for shape in ((2, 3, 4), (1, 1, 4), (3, 5, 4)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(engine.run({"x": x})["y"], x.reshape(-1, 4))


def test_hostile_arithmetic_is_refused(quantized_path: Path) -> None:
    source = model("g (float[batch, n] x) => (int32[2] m) { s = Shape (x)  m = Cast <to = 6> (s) }")
    plan = lower(source)
    index, step = next((i, s) for i, s in enumerate(plan.steps) if isinstance(s, SizeVector))

    def run(**changes: object) -> None:
        steps = (*plan.steps[:index], replace(step, **changes), *plan.steps[index + 1 :])
        intact.compile(replace(plan, steps=steps), threads=1).run({"x": np.ones((2, 3), np.float32)})

    for size in ("nobody", '=["/",4,["-","batch","batch"]]', "=" + "[" * 900 + "]" * 900):
        with pytest.raises(QuantValueError, match="the size"):
            run(sizes=(size, size))
    with pytest.raises(IntactError):
        run(sizes=(2, 3, 4))


def test_expressions_compute_what_they_say() -> None:
    sizes_by_name = {"a": 7, "b": 3}
    functions = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
        "/": lambda a, b: int(a / b), "max": max, "min": min, "broadcast": lambda a, b: a if b == 1 else b,
    }  # fmt: skip
    sizes = ("a", "b", 1, 2, 5, expression("*", "a", 3), expression("-", "b", 9), expression("min", "a", 512))
    for name, function in functions.items():
        for a in sizes:
            for b in sizes:
                product = expression(name, a, b)
                x, y = value_of(a, sizes_by_name), value_of(b, sizes_by_name)
                if name == "broadcast" and 1 not in (x, y) and x != y:
                    continue  # no such sizes broadcast
                assert value_of(product, sizes_by_name) == function(x, y), (name, a, b, product)


def test_expressions_are_short_where_they_can_be() -> None:
    twelve = expression("*", "a", 12)
    assert expression("/", twelve, 12) == "a" and expression("-", "a", "a") == 0
    assert expression("*", expression("*", "a", 3), 4) == twelve and expression("*", 12, "a") == twelve
    assert expression("broadcast", "a", expression("min", "a", 512)) == "a"
    assert names_in(expression("+", twelve, "b")) == {"a", "b"} and names_in(12) == frozenset()
    assert is_never_negative(twelve) and not is_never_negative(expression("-", "a", "b"))
    assert value_of('=["*","a"]', {"a": 2}) is None and value_of("a", {}) is None


def test_what_is_kept_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    source = model("g (float[b, n] x) => (float[b, n] y) { e = Exp (x)  y = Relu (e) }")
    engine = intact.compile(source, threads=1)
    lengths = range(1, 40)
    for n in lengths:
        engine.run({"x": np.zeros((1, n), np.float32)})
    assert len(engine._ready) == len(lengths)
    first = engine.prepare({"x": (1, 1)})  # is used last now
    nbytes = engines._nbytes(first)
    monkeypatch.setenv("INTACT_LIMIT_KEPT_BYTES", str(6 * nbytes))
    engine.prepare({"x": (1, 50)})
    assert 1 < len(engine._ready) <= 6 and engine.prepare({"x": (1, 1)}) is first
    monkeypatch.setenv("INTACT_LIMIT_KEPT_BYTES", "1")
    engine.prepare({"x": (1, 51)})
    assert len(engine._ready) == 1


def with_inner_shapes(source: onnx.ModelProto, **shapes: tuple[int | str, ...]) -> onnx.ModelProto:
    """With sizes of inner values, as a file says them."""
    source.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    return source


@pytest.mark.parametrize("inner", [True, False])
def test_a_name_that_the_file_gives_to_another_size_is_not_believed(inner: bool) -> None:
    """Half of the elements, which the file says to be as many as the input's: inside, or of an output."""
    ends = "float[b, 2, k] y" if inner else "float[b, 2, k] y, float[b, n] z"
    source = model(
        f"""g (float[b, n] x) => ({ends}) {{
            h = Slice (x, zero, all, one, two)  z = Relu (h)
            s = Shape (z)  ends = Slice (s, zero, one)  count = Slice (s, one, two)
            half = Div (count, two)  to = Concat <axis = 0> (ends, two, half)  y = Reshape (z, to)
        }}""",
        zero=np.array([0]), one=np.array([1]), two=np.array([2]),
        all=np.array([2**31 - 1]),
    )  # fmt: skip
    if inner:
        with_inner_shapes(source, z=("b", "n"))
    engine = intact.compile(source, threads=1)
    for columns in (16, 8):
        x = np.random.default_rng(0).standard_normal((3, columns)).astype(np.float32)
        wanted = np.maximum(x[:, ::2], 0).reshape(3, 2, columns // 4)
        np.testing.assert_array_equal(engine.run({"x": x})["y"], wanted)


def test_tensors_may_be_called_as_anything() -> None:
    """Names that binding reserves are never taken for a tensor's."""
    source = model(
        """g (float[b, 2, h, 3] images) => (float[b, 2, h, 3] epilogue) {
            layout = Conv <pads = [1, 1, 1, 1]> (images, w)  halos = Relu (layout)
            memory = Conv <pads = [1, 1, 1, 1]> (halos, w)  epilogue = Relu (memory)
        }""",
        w=np.ones((2, 2, 3, 3), np.float32) / 8,
    )  # fmt: skip
    session = ort.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    engine = intact.compile(source, threads=1)
    for height in (4, 7, 1):
        x = np.random.default_rng(0).standard_normal((2, 2, height, 3)).astype(np.float32)
        (wanted,) = session.run(None, {"images": x})
        np.testing.assert_allclose(engine.run({"images": x})["epilogue"], wanted, atol=1e-5)
