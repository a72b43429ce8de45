"""`Engine`: what goes in, what comes out, what is said about what does not fit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from onnx import TensorProto, parser

from intact.engine import engine as engines
from intact.engine.backends import make_backend
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import QuantValueError, UnsupportedError
from intact.kernels.registry import kernel_list


@pytest.fixture
def plan(qdq, lower_graph):
    """Two inputs, two outputs, an open batch size."""
    net = qdq()
    a = net.pair(net.input("a", ("n", 3, 8, 8)))
    b = net.pair(net.input("b", ("n", 3, 8, 8)))
    y = net.pair(net.node("Relu", net.conv(net.pair(net.node("Add", a, b)), 3, 6)))
    flat = net.node("Flatten", net.pair(net.node("GlobalAveragePool", y)))
    z = net.node("Gemm", flat, net.weight(4, 6), transB=1, name="z")
    return lower_graph(net, z, net.node("Relu", y, name="r"), sizes={"n": 2}).plan


@pytest.fixture
def engine(plan):
    return Engine(plan, threads=2)


def images(rng, batch=2):
    return {name: rng.standard_normal((batch, 3, 8, 8)).astype(np.float32) for name in "ab"}


def same(got, plan, feeds):
    want = evaluate(plan, feeds)
    assert list(got) == list(plan.outputs)
    for name, array in got.items():
        np.testing.assert_array_equal(array, want[name], strict=True)


def test_ports(engine):
    assert [(p.name, p.dtype, p.shape) for p in engine.inputs] == [
        ("a", "float32", ("n", 3, 8, 8)),
        ("b", "float32", ("n", 3, 8, 8)),
    ]
    assert [(p.name, p.dtype) for p in engine.outputs] == [("z", "float32"), ("r", "float32")]
    assert engine.outputs[0].shape[1] == 4


def test_run_by_name_and_by_order(engine, plan, rng):
    feeds = images(rng)
    same(engine.run(feeds), plan, feeds)
    same(dict(zip("zr", engine(feeds["a"], feeds["b"]), strict=True)), plan, feeds)


def test_batch_sizes_one_after_the_other(engine, plan, rng):
    for batch in (1, 3, 2, 1):
        feeds = images(rng, batch)
        same(engine.run(feeds), plan, feeds)


def test_only_the_last_shapes_stay_bound(engine, rng, monkeypatch):
    engine.run(images(rng, 1))
    nbytes = engines._nbytes(engine.prepare({"a": (59, 3, 8, 8), "b": (59, 3, 8, 8)}))
    monkeypatch.setenv("INTACT_LIMIT_KEPT_BYTES", str(8 * nbytes))
    for batch in range(1, 60):
        engine.run(images(rng, batch))
    first = engine.prepare({"a": (59, 3, 8, 8), "b": (59, 3, 8, 8)})
    engine.run(images(rng, 99))
    assert engine.prepare({"a": (59, 3, 8, 8), "b": (59, 3, 8, 8)}) is first
    assert 1 < len(engine._ready) < 59


def test_weights_are_packed_once(engine, rng):
    engine.run(images(rng, 1))
    packed = {key: id(array) for key, array in engine.packed_weights.items()}
    engine.run(images(rng, 2))
    assert packed and {key: id(array) for key, array in engine.packed_weights.items()} == packed


def test_given_outputs_are_written(engine, plan, rng):
    feeds, out = images(rng), np.full((2, 4), np.nan, np.float32)
    outputs = engine.run(feeds, out={"z": out})
    assert outputs["z"] is out
    same(outputs, plan, feeds)


def test_inputs_of_other_kinds(engine, plan, rng):
    torch = pytest.importorskip("torch")
    feeds = images(rng)
    strided = {k: np.asfortranarray(v) for k, v in feeds.items()}
    same(engine.run(strided), plan, feeds)
    same(engine.run({k: torch.from_numpy(v) for k, v in feeds.items()}), plan, feeds)
    for v in feeds.values():
        v.flags.writeable = False
    same(engine.run(feeds), plan, feeds)


def test_nothing_is_written_into_inputs(engine, rng):
    feeds = images(rng)
    before = {k: v.copy() for k, v in feeds.items()}
    engine.run(feeds)
    for name, array in feeds.items():
        np.testing.assert_array_equal(array, before[name])


def test_codes_in_and_out(qdq, rng):
    """A graph that starts behind Q and ends before DQ."""
    net = qdq()
    q = net.input("q", ("n", 3, 7, 7), TensorProto.INT8)
    y = net.quantize(net.conv(net.dequantize(q), 3, 5))
    engine = Engine(lower_of(net, y), threads=1)
    assert (engine.inputs[0].dtype, engine.outputs[0].dtype) == ("int8", "int8")
    codes = rng.integers(-128, 128, (2, 3, 7, 7)).astype(np.int8)
    same(engine.run({"q": codes}), engine.plan, {"q": codes})


def test_an_input_that_is_an_output(qdq, rng):
    net = qdq()
    x = net.input("x", (2, 3))
    engine = Engine(lower_of(net, net.pair(x), net.node("Identity", x, name="same")), threads=1)
    feeds = {"x": rng.standard_normal((2, 3)).astype(np.float32)}
    same(engine.run(feeds), engine.plan, feeds)


def lower_of(net, *outputs):
    from intact.engine.lower import lower

    return lower(net.proto(*outputs))


def test_stretches_run_between_native_steps(qdq, lower_graph):
    net = qdq()
    y = net.conv(net.pair(net.input("x", ("n", 3, 8, 8))), 3, 4)
    turned = net.node("LpNormalization", y)
    z = net.pair(net.conv(net.pair(turned), 4, 2))
    lowered = lower_graph(net, z, sizes={"n": 2}).exact()
    assert lowered.kinds.count("onnx") == 1
    engine = Engine(lowered.plan, threads=1)
    same(engine.run(lowered.feeds), lowered.plan, lowered.feeds)
    timings = {t.kind: t for t in engine.profile(lowered.feeds, runs=2).timings}
    assert timings["onnx"].kernels == ("onnxruntime",)


@pytest.mark.parametrize("rank", [7, 17, 30])
def test_parts_have_more_axes_than_kernels_walk(qdq, lower_graph, rank):
    net = qdq()
    turned = net.node("Transpose", net.input("x", ("n", *[1] * (rank - 3), 3, 4)), perm=[*range(rank)][::-1])
    flat = net.node("Reshape", net.node("Sin", turned), net.ints(-1, 3))
    lowered = lower_graph(net, net.node("Relu", flat), sizes={"n": 2}).agree(1e-6)
    assert {"onnx", "function"} <= set(lowered.kinds)


def test_profile_counts_multiplications_and_bytes(engine, rng):
    profile = engine.profile(images(rng), runs=2)
    by_kind = {t.kind: t for t in profile.timings}
    assert [t.name for t in profile.timings if t.kind != "copy"] == [s.name for s in engine.plan.steps]
    assert by_kind["conv"].macs == 2 * 8 * 8 * 6 * 3 * 9
    assert by_kind["linear"].macs == 2 * 4 * 6
    assert by_kind["add"].macs == 0
    assert by_kind["add"].nbytes == 3 * 2 * 3 * 8 * 8
    assert profile.seconds == pytest.approx(sum(t.seconds for t in profile.timings))
    assert str(profile).count("\n") == len(profile.timings) + 1
    assert engine.profile().timings[0].name == profile.timings[0].name


def test_profile_tells_inner_loops_apart(plan, rng, monkeypatch):
    """By the number of steps that share a sum; a kernel that does not group has one loop."""
    for kernel in (k for k in kernel_list() if k.family == "gemm" and k.available):
        monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel.name)
        engine = Engine(plan, threads=1)
        profile = engine.profile(images(rng), runs=1)
        steps = {t.kind: t for t in profile.timings}
        for kind in ("conv", "linear"):
            loops = steps[kind].loops
            assert bool(loops) == (kernel.name == "gemm_avx2"), kernel.name
            assert sum(loops.values()) == (pytest.approx(1) if loops else 0)
            assert list(loops.values()) == sorted(loops.values(), reverse=True)
        assert ("-step " in str(profile) or "words " in str(profile)) == (kernel.name == "gemm_avx2")
        assert steps["add"].loops == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"a": None}, "input 'a': got no array, want one", id="missing"),
        pytest.param({"c": np.zeros(1)}, "input 'c': got a name that no input has", id="unknown"),
        pytest.param({"a": np.zeros((2, 3, 8, 8))}, "input 'a': got dtype float64, want float32", id="dtype"),
        pytest.param({"a": np.zeros((2, 3, 8, 8), np.float16)}, "input 'a': got dtype float16", id="half"),
        pytest.param({"a": [1.0]}, "input 'a': got list, want a NumPy array", id="list"),
        pytest.param(
            {"b": np.zeros((5, 3, 8, 8), np.float32)},
            "tensor 'b': got size 5 in dimension 0 ('n'), want 2",
            id="batches differ",
        ),
        pytest.param(
            {"a": np.zeros((2, 3, 8, 9), np.float32)},
            "tensor 'a': got size 9 in dimension 3, want 8",
            id="size",
        ),
        pytest.param(
            {"a": np.zeros((2, 3, 64), np.float32)}, "tensor 'a': got 3 dimensions (2, 3, 64)", id="rank"
        ),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit(engine, rng, change, words):
    feeds = {k: v for k, v in {**images(rng), **change}.items() if v is not None}
    with pytest.raises(QuantValueError) as error:
        engine.run(feeds)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        pytest.param(np.zeros((2, 5), np.float32), "float32 array of shape (2, 5), want", id="shape"),
        pytest.param(np.zeros((2, 4)), "got a float64 array", id="dtype"),
        pytest.param(np.zeros((2, 4), np.float32).T, "float32 array of shape (4, 2), want", id="strides"),
    ],
)
def test_outputs_that_do_not_fit(engine, rng, out, words):
    with pytest.raises(QuantValueError) as error:
        engine.run(images(rng), out={"z": out})
    assert str(error.value).startswith("output 'z'") and words in str(error.value)


def test_an_unknown_output_is_refused(engine, rng):
    with pytest.raises(QuantValueError, match="output 'q': got a name that no output has"):
        engine.run(images(rng), out={"q": np.zeros(1, np.float32)})


def test_wrong_number_of_inputs(engine):
    with pytest.raises(QuantValueError, match="got 1 inputs, want 2: a, b"):
        engine(np.zeros((2, 3, 8, 8), np.float32))


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_are_at_least_one(plan, threads):
    with pytest.raises(QuantValueError, match="want at least 1"):
        Engine(plan, threads=threads)


def test_a_number_of_numpy_is_an_array_of_no_axes():
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float by) => (float[2] y)
        { y = Mul(x, by) }"""
    engine = Engine(lower(parser.parse_model(text)), threads=1)
    np.testing.assert_array_equal(engine.run({"x": np.float32([1, 2]), "by": np.float32(3)})["y"], [3, 6])
    with pytest.raises(QuantValueError, match="got dtype float64, want float32"):
        engine.run({"x": np.float32([1, 2]), "by": np.float64(3)})


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_engines_are_copied_and_pickled_with_their_options(again, plan, rng):
    engine = Engine(plan, threads=2, deterministic=True, backend="reference")
    other, feeds = again(engine), images(rng)
    assert (other.threads, other.deterministic, other.backend.name) == (engine.threads, True, "reference")
    same(other.run(feeds), plan, feeds)
    same(again(Engine(plan)).run(feeds), plan, feeds)


def test_an_engine_with_a_backend_of_ones_own_says_why_it_is_not_pickled(plan):
    engine = Engine(plan, backend=lambda options: make_backend("reference", options))
    with pytest.raises(UnsupportedError, match="a backend that is a function"):
        pickle.dumps(engine)
