"""Models whose sizes are free: what follows from sizes is worked out once for each set of input shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser

import intact
from intact.engine.lower import lower
from intact.engine.steps import FallbackSubgraph


def model(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.checker.check_model(proto, full_check=False)
    return proto


def reals(*shape: int) -> np.ndarray:
    """From the generator that every test begins anew: no test's numbers hang on which ran before it."""
    return np.random.standard_normal(shape).astype(np.float32)


def same(source: onnx.ModelProto, feeds: dict[str, np.ndarray], atol: float = 1e-4) -> intact.Engine:
    """The engine, once it gave what ONNX Runtime gives."""
    engine = intact.compile(source, threads=1)
    wanted = ort.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    for output, want in zip(engine.run(feeds).values(), wanted, strict=True):
        np.testing.assert_allclose(output, want, atol=atol, rtol=1e-4)
    return engine


HEADS = """
heads (float[n, t, 64] x) => (float[n, t, 64] y) {
    s = Shape (x)  n1 = Gather <axis = 0> (s, zero)  t1 = Gather <axis = 0> (s, one)
    n2 = Unsqueeze (n1, first)  t2 = Unsqueeze (t1, first)
    to = Concat <axis = 0> (n2, t2, four, sixteen)
    q = MatMul (x, wq)  k = MatMul (x, wk)
    q4 = Reshape (q, to)  qt = Transpose <perm = [0, 2, 1, 3]> (q4)
    k4 = Reshape (k, to)  kt = Transpose <perm = [0, 2, 3, 1]> (k4)
    a = MatMul (qt, kt)  p = Softmax <axis = -1> (a)  o = MatMul (p, qt)
    ot = Transpose <perm = [0, 2, 1, 3]> (o)
    back = Concat <axis = 0> (n2, t2, whole)
    y = Reshape (ot, back)
}"""


def heads() -> onnx.ModelProto:
    sizes = {"zero": np.array(0), "one": np.array(1), "first": np.array([0])}
    sizes |= {"four": np.array([4]), "sixteen": np.array([16]), "whole": np.array([64])}
    return model(HEADS, wq=reals(64, 64) / 8, wk=reals(64, 64) / 8, **sizes)


def test_a_size_that_torch_expands_to_is_known() -> None:
    """x.expand(b, -1, 3): ones where the target says -1, by ConstantOfShape, Equal and Where."""
    source = model(
        """g (float[b,1,1] x) => (float[n,p,q] y) <int64[2] ends = {-1, 3}> {
            all = Shape(x)  three = Shape(all)
            first = Slice(all, zero, one)  target = Concat<axis = 0>(first, ends)
            ones = ConstantOfShape<value = int64[1] {1}>(three)
            minus = Neg(ones)  open = Equal(target, minus)  sizes = Where(open, ones, target)
            e = Expand(x, sizes)  y = Relu(e)
        }""",
        zero=np.array([0]), one=np.array([1]),
    )  # fmt: skip
    assert lower(source).tensors["e"].shape == ("b", 1, 3)


def test_attention_of_free_lengths_is_native_for_each_of_them(tmp_path: Path) -> None:
    quantized = intact.quantize(heads(), [{"x": reals(2, 7, 64)} for _ in range(4)], progress=False)
    quantized.save(tmp_path / "heads.onnx")
    engine = same(onnx.load(tmp_path / "heads.onnx"), {"x": reals(2, 7, 64)})
    for shape in ((2, 7, 64), (1, 3, 64), (3, 1, 64)):
        steps = engine.plan_for({"x": shape}).steps
        assert not [step for step in steps if isinstance(step, FallbackSubgraph)]
    x = reals(1, 5, 64)
    engine.save(tmp_path / "heads.plan")
    again = intact.load(tmp_path / "heads.plan", threads=1)
    np.testing.assert_array_equal(again(x), engine(x))
    reference = intact.compile(tmp_path / "heads.onnx", backend="reference")
    np.testing.assert_array_equal(reference(x), engine(x))


def test_weights_are_kept_once_whatever_the_sizes() -> None:
    engine = intact.compile(heads(), threads=1)
    for length in (2, 3):
        engine(reals(1, length, 64))
    plans = [engine.plan_for({"x": (1, length, 64)}) for length in (2, 3)]
    shared = plans[0].constants.keys() & plans[1].constants.keys()
    assert all(
        plans[0].constants[name] is plans[1].constants[name] for name in shared & engine.plan.constants.keys()
    )
    for name in shared:
        np.testing.assert_array_equal(plans[0].constants[name], plans[1].constants[name])


def test_a_plan_for_all_sizes_holds_no_model() -> None:
    net = model(
        "net (float[n, 3, h, w] x) => (float[n, 4, a, b] y) { c = Conv (x, w)  y = Relu (c) }",
        w=reals(4, 3, 3, 3),
    )
    quantized = intact.quantize(net, reals(4, 3, 9, 9), progress=False)
    assert not lower(quantized.model).model


def test_pixel_shuffle_behind_a_free_size() -> None:
    net = model(
        """net (float[n, 3, h, w] x) => (float[n, 1, a, b] y) {
        c = Conv (x, w)  y = DepthToSpace <blocksize = 2> (c) }""",
        w=reals(4, 3, 1, 1),
    )
    same(net, {"x": reals(2, 3, 5, 4)})


def test_images_joined_for_a_part_without_a_kernel(tmp_path: Path) -> None:
    """Both convolutions wrote into rows of a tensor that is no image."""
    net = model(
        """net (float[n, 3, h, w] x) => (float[n, 12, k] y, int64[4] s) {
        a = Conv (x, wa)  b = Conv (x, wb)  c = Concat <axis = 1> (a, b)
        y = Reshape (c, to)  s = Shape (c) }""",
        wa=reals(8, 3, 1, 1), wb=reals(4, 3, 1, 1), to=np.array([0, 12, -1]),
    )  # fmt: skip
    quantized = intact.quantize(net, reals(4, 3, 8, 8), progress=False)
    quantized.save(tmp_path / "net.onnx")
    same(onnx.load(tmp_path / "net.onnx"), {"x": reals(2, 3, 8, 8)}, atol=0.05)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_token_of_fewer_axes_is_joined(copies: int) -> None:
    net = model(
        """net (float[n, 4, 16] x) => (float[n, k, 16] y) {
        t = MatMul (x, w)  s = Shape <start = 0, end = 1> (x)  to = Concat <axis = 0> (s, count, width)
        e = Expand (token, to)  y = Concat <axis = 1> (e, t) }""",
        w=reals(16, 16), token=reals(16), count=np.array([copies]), width=np.array([16]),
    )  # fmt: skip
    same(net, {"x": reals(3, 4, 16)})


def test_pools_whose_last_window_would_begin_behind_the_image() -> None:
    """ONNX's inference counts one too many of them before opset 22.

    Padding is not counted: by what those windows are divided has changed between versions of ONNX Runtime.
    """
    net = model(
        """net (float[n, 1, h, w] x) => (float[n, 1, a, b] y) {
        p = AveragePool <ceil_mode = 1, kernel_shape = [4, 1], pads = [1, 0, 3, 0],
                         strides = [2, 2]> (x)
        y = Floor (p) }"""
    )
    for height in (4, 5, 6, 7):
        same(net, {"x": reals(2, 1, height, 1)})


def test_names_that_are_not_one_size() -> None:
    """As exporters write "?" for every size that they do not know."""
    net = model(
        """net (float[n, 3, q, q] x) => (float[n, 4] y) {
        c = Conv (x, w)  p = GlobalAveragePool (c)  y = Flatten (p) }""",
        w=reals(4, 3, 3, 3),
    )
    same(net, {"x": reals(1, 3, 5, 8)})


def test_branches_that_sizes_choose_are_taken_once() -> None:
    net = model(
        """net (float[n, 3, t] x) => (float[n, 4, k] y) {
        s = Shape <start = 2, end = 3> (x)  long = Greater (s, limit)
        z = If (long) <then_branch = yes () => (float[n, 3, a] p) { p = Relu (x) },
                       else_branch = no () => (float[n, 3, b] p2) { q = Neg (x)  p2 = Relu (q) }>
        y = Conv (z, w) }""",
        w=reals(4, 3, 1), limit=np.array([6]),
    )  # fmt: skip
    for length in (4, 9):
        x = {"x": reals(1, 3, length)}
        engine = same(net, x)
        nodes = {node for step in engine.plan_for({"x": (1, 3, length)}).steps for node in step.nodes}
        assert not any(node.startswith("If") for node in nodes)


def test_sizes_that_an_inner_operator_does_not_take(tmp_path: Path) -> None:
    """Saving tries 1 for every free size; that the model does not take it is no fault of the file."""
    net = model(
        """net (float[n, l] x) => (float[n, a] y) {
        first, second = Split <axis = 1> (x, sizes)  y = Softsign (first) }""",
        sizes=np.array([4, 0]),
    )
    engine = same(net, {"x": reals(2, 4)})
    intact.compile(net, threads=1).save(tmp_path / "net.plan")
    with pytest.raises(intact.QuantValueError, match="sizes that fit each other"):
        intact.load(tmp_path / "net.plan", threads=1)(reals(2, 1))
    with pytest.raises(intact.QuantValueError):
        engine.tap({"x": reals(2, 1)})


def test_shapes_that_the_model_does_not_take_are_refused() -> None:
    engine = intact.compile(heads(), threads=1)
    with pytest.raises(intact.IntactError, match="tensor 'x': got size 63 in dimension 2, want 64"):
        engine(reals(1, 2, 63))


def test_a_slice_whose_output_nobody_sized() -> None:
    """Inference does not follow bounds through Abs; the step took everything behind its start."""
    net = model(
        """net (float[n, 8] x) => (float[n, k] y) {
        end = Abs (bound)  s = Slice (x, start, end, one)  y = Sigmoid (s) }""",
        bound=np.array([-5]), start=np.array([2]), one=np.array([1]),
    )  # fmt: skip
    same(net, {"x": reals(2, 8)})


def test_sizes_that_the_file_fixes_are_worked_out_at_once() -> None:
    """As torch.onnx writes F.pad: nobody tells the shape behind it but who computes the sizes."""
    text = """
    padded (float[2, 3, 8, 8] x) => (float[a, b, c, d] y) {
        s = Shape (x)  rows = Gather <axis = 0> (s, two)  over = Mod (rows, five)  less = Sub (five, over)
        more = Unsqueeze (less, first)  pads = Concat <axis = 0> (zeros, more, first)
        p = Pad (x, pads)  y = Conv <kernel_shape = [3, 3]> (p, w)
    }"""
    sizes = {"two": np.array(2), "five": np.array(5), "first": np.array([0]), "zeros": np.zeros(6, np.int64)}
    engine = same(model(text, w=reals(4, 3, 3, 3), **sizes), {"x": reals(2, 3, 8, 8)})
    assert not [step for step in engine.plan.steps if isinstance(step, FallbackSubgraph)]
    assert engine.outputs[0].shape == (2, 4, 8, 6)
