"""Sizes stay free through whatever works with them: one plan, natively, for all sizes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser

import intact
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import FallbackSubgraph
from intact.errors import IntactError

Feeds = Mapping[str, np.ndarray]


def model(text: str, opset: int = 18, **constants: object) -> onnx.ModelProto:
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    arrays = {name: np.asarray(array) for name, array in constants.items()}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return proto


def reals(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def check(source: onnx.ModelProto, feeds: Sequence[Feeds], tolerance: float = 0.0) -> None:
    """Compare one plan with the reference and with ONNX Runtime, for all inputs in turn and again."""
    plan = lower(source)
    assert not plan.model and not any(isinstance(step, FallbackSubgraph) for step in plan.steps), plan.notes
    session = ort.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    engine = intact.compile(plan, threads=2)
    for inputs in (*feeds, *feeds):
        outputs, codes = engine.run(inputs), evaluate(plan, inputs)
        for name, wanted in zip(outputs, session.run(None, dict(inputs)), strict=True):
            np.testing.assert_array_equal(outputs[name], codes[name], err_msg=name)
            np.testing.assert_allclose(outputs[name], wanted, atol=tolerance, rtol=1e-5)
    for inputs in feeds:
        tensors, codes = engine.tap(inputs), evaluate(plan, inputs)
        for name, array in tensors.items():
            np.testing.assert_array_equal(array, codes[name], err_msg=name)


IMAGES = [(1, 3, 8, 8), (2, 3, 6, 7), (1, 3, 2, 9), (1, 3, 8, 8)]


def images(*shapes: tuple[int, ...]) -> list[Feeds]:
    return [{"x": reals(*shape)} for shape in shapes]


@pytest.mark.rule("N57")
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 0.5, 3)])
def test_resize(mode: str, coordinates: str, scales: Sequence[float]) -> None:
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_floor"
    source = model(
        f"""g (float[b, 3, h, w] x) => (float[b, 3, p, q] y) {{
            y = Resize <mode = "{mode}", coordinate_transformation_mode = "{coordinates}",
                        nearest_mode = "{rounding}", exclude_outside = {int(mode == "cubic")}> (x, , scales)
        }}""",
        scales=np.array(scales, np.float32),
    )
    check(source, images(*IMAGES), 1e-4)


def test_resize_to_the_size_of_another_image() -> None:
    source = model(
        """g (float[b, 3, h, w] x, float[b, 3, H, W] z) => (float[b, 3, H, W] y) {
            zs = Shape (z)  r = Resize <mode = "linear"> (x, , , zs)  y = Add (r, z)
        }"""
    )
    shapes = [((1, 3, 5, 6), (1, 3, 9, 11)), ((2, 3, 4, 4), (2, 3, 8, 3)), ((1, 3, 5, 6), (1, 3, 5, 6))]
    check(source, [{"x": reals(*a), "z": reals(*b)} for a, b in shapes], 1e-4)


@pytest.mark.parametrize("mode", ["nearest", "cubic"])
def test_resize_of_a_constant(mode: str) -> None:
    """Vision transformers stretch their table of positions to the size of each image."""
    source = model(
        f"""g (float[b, 4, h, w] x) => (float[b, 4, h, w] y) {{
            s = Shape <start = 2> (x)  to = Concat <axis = 0> (ends, s)
            r = Resize <mode = "{mode}", coordinate_transformation_mode = "asymmetric",
                        nearest_mode = "floor"> (table, , , to)
            y = Add (x, r)
        }}""",
        table=reals(1, 4, 5, 5), ends=np.array([1, 4]),
    )  # fmt: skip
    check(source, [{"x": reals(*shape)} for shape in ((1, 4, 5, 5), (2, 4, 7, 3), (1, 4, 10, 12))], 1e-4)


@pytest.mark.rule("N57")
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_rounds_as_onnx_runtime(rounding: str) -> None:
    source = model(
        f"""g (float[b, 1, h, w] x, float[b, 1, H, W] z) => (float[b, 1, H, W] y) {{
            zs = Shape (z)
            y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
                        nearest_mode = "{rounding}"> (x, , , zs)
        }}"""
    )
    sizes = [(7, 5, 12, 9), (3, 11, 4, 13), (9, 9, 5, 3), (1, 6, 4, 17)]
    check(source, [{"x": reals(1, 1, h, w), "z": reals(1, 1, a, b)} for h, w, a, b in sizes])


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_with_elements(mode: str) -> None:
    source = model(
        f'g (float[b, 3, h, w] x) => (float[b, 3, p, q] y) {{ y = Pad <mode = "{mode}"> (x, pads) }}', 19,
        pads=np.array([0, 0, 1, 2, 0, 0, 0, 3]),
    )  # fmt: skip
    check(source, images((1, 3, 8, 8), (2, 3, 5, 7), (1, 3, 4, 9)))


def test_pads_with_more_than_there_is_are_refused() -> None:
    source = model(
        'g (float[b, n] x) => (float[b, m] y) { y = Pad <mode = "reflect"> (x, pads) }',
        pads=np.array([0, 3, 0, 3]),
    )
    with pytest.raises(IntactError):
        intact.compile(source, threads=1).run({"x": reals(2, 3)})


def test_pads_to_whole_windows() -> None:
    """Pads as PyTorch lists them, the last axis first, turned round: Swin has them."""
    source = model(
        """g (float[b, h, w] x) => (float[b, p, q] y) {
            s = Shape <start = 1> (x)  rest = Mod (s, four)  less = Sub (four, rest)  pads = Mod (less, four)
            h1 = Gather (pads, zero1)  w1 = Gather (pads, one1)
            flat = Concat <axis = 0> (none, w1, none, h1, none2)
            pairs = Reshape (flat, two_columns)  behind = Slice (pairs, last, before, rows, back)
            turned = Transpose <perm = [1, 0]> (behind)
            line = Reshape (turned, all)  y = Pad (x, line)
        }""",
        four=np.array([4]), zero1=np.array([0]), one1=np.array([1]), none=np.array([0]),
        none2=np.array([0, 0]), two_columns=np.array([-1, 2]), last=np.array([-1]),
        before=np.array([-(2**62)]), rows=np.array([0]), back=np.array([-1]), all=np.array([-1]),
    )  # fmt: skip
    check(source, [{"x": reals(1, 5, 8)}, {"x": reals(2, 4, 3)}, {"x": reals(1, 1, 1)}])


def test_ranges() -> None:
    source = model(
        """g (float[n, m] x) => (int64[a] up, int64[c] down, float[n] floats) {
            s = Shape (x)  n = Gather (s, zero)  m = Gather (s, one)  real = Cast <to = 1> (n)
            up = Range (one, m, three)  down = Range (n, least, back)  floats = Range (first, real, step)
        }""",
        zero=np.array(0), one=np.array(1), three=np.array(3), least=np.array(-4), back=np.array(-2),
        first=np.float32(0), step=np.float32(1),
    )  # fmt: skip
    check(source, [{"x": reals(2, 9)}, {"x": reals(5, 1)}, {"x": reals(1, 4)}, {"x": reals(0, 2)}])


def test_slices_from_a_size() -> None:
    source = model(
        """g (float[b, h] x, float[k] z) => (float[b, r] y, float[2, k] places) {
            s = Shape (z)  y = Slice (x, s, end, axis)
            q = Shape <start = 1> (x)  far = Add (s, q)  places = Slice (table, q, far, axis)
        }""",
        end=np.array([2**62]), axis=np.array([1]), table=reals(2, 30),
    )  # fmt: skip
    sizes = [(2, 9, 3), (1, 4, 4), (1, 4, 6), (3, 5, 0)]
    check(source, [{"x": reals(b, h), "z": reals(k)} for b, h, k in sizes])


def test_tiles_triangles_and_fills() -> None:
    source = model(
        """g (float[h, w] x, float[k] z)
          => (float[p, q] tiles, float[h, w] high, float[h, w] low, int64[h, w] n) {
            s = Shape (z)  repeats = Concat <axis = 0> (s, two)  tiles = Tile (x, repeats)
            high = Trilu <upper = 1> (x, up)  low = Trilu <upper = 0> (x)
            size = Shape (x)  n = ConstantOfShape <value = int64[1] {7}> (size)
        }""",
        two=np.array([2]), up=np.array(1),
    )  # fmt: skip
    sizes = [(2, 9, 3), (1, 4, 4), (3, 1, 1), (5, 5, 0)]
    check(source, [{"x": reals(h, w), "z": reals(k)} for h, w, k in sizes])


def test_rows_by_tuples() -> None:
    source = model(
        """g (float[n, m, k] x, int64[t, 2] index, float[t, k] rows) => (float[t, k] y, float[n, m, k] z) {
            y = GatherND (x, index)  z = ScatterND (x, index, rows)
        }"""
    )
    feeds = [
        {"x": reals(4, 5, 2), "index": np.array([[0, -1], [3, 4]]), "rows": reals(2, 2)},
        {"x": reals(2, 7, 3), "index": np.array([[-2, 6]]), "rows": reals(1, 3)},
    ]
    check(source, feeds)
    engine = intact.compile(source, threads=1)
    with pytest.raises(IntactError, match="index"):
        engine.run({**feeds[0], "index": np.array([[0, 5], [0, 0]])})


def test_sizes_that_a_file_calls_alike_may_differ() -> None:
    """PaddlePaddle's exporter writes "?" for whatever it does not know."""
    source = model(
        "g (float[k, 3, k, k] x) => (float[k, 4, k, k] y) { c = Conv <pads = [1, 1, 1, 1]> (x, w)"
        "  y = Relu (c) }",
        w=reals(4, 3, 3, 3),
    )
    check(source, images(*IMAGES), 1e-4)


def test_quotients_of_floats_are_no_quotients_of_sizes() -> None:
    source = model(
        """g (float[n, m] x) => (int64[k] y) {
            s = Shape (x)  n = Gather (s, zero)  m = Gather (s, one)
            a = Cast <to = 1> (n)  b = Cast <to = 1> (m)
            q = Div (a, b)  twice = Add (q, q)  k = Cast <to = 7> (twice)  y = Range (zero, k, one)
        }""",
        zero=np.array(0), one=np.array(1),
    )  # fmt: skip
    for n, m, wanted in ((7, 2, 7), (5, 2, 5), (4, 2, 4)):
        assert len(intact.compile(source, threads=1).run({"x": reals(n, m)})["y"]) == wanted


@pytest.mark.parametrize(
    ("nodes", "exact"),
    [
        ("q = Div (n, three)  k = Ceil (q)", True),
        ("q = Div (n, three)  k = Floor (q)", True),
        ("q = Div (n, three)  k = Identity (q)", True),
        ("k = Mul (n, half)", True),
        ("p = Mul (n, half)  q = Add (p, half)  k = Floor (q)", True),
        ("p = Div (n, half)  q = Sub (p, half)  k = Ceil (q)", False),  # of a size less than nothing
        ("p = Mul (n, half)  q = Div (p, three)  k = Ceil (q)", True),
        ("p = Div (n, three)  q = Mul (p, three)  k = Floor (q)", False),  # rounded in between
        ("k = Mul (n, most)", False),  # 0.7 is no short fraction
        ("q = Div (three, n)  k = Ceil (q)", False),
    ],
)
def test_sizes_computed_in_floats(nodes: str, exact: bool) -> None:
    """Sizes are those of ONNX Runtime, also where float32 rounds on the way."""
    source = model(
        f"""g (float[batch, width] x) => (int64[length] y) {{
            s = Shape (x)  w = Gather (s, one)  n = Cast <to = 1> (w)
            {nodes}
            whole = Cast <to = 7> (k)  y = Range (zero, whole, one)
        }}""",
        zero=np.array(0), one=np.array(1), three=np.float32(3), half=np.float32(0.5), most=np.float32(0.7),
    )  # fmt: skip
    assert (not lower(source).model) == exact
    session = ort.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    engine = intact.compile(source, threads=1)
    for width in (1, 2, 3, 10, 11, 12, 100, 4097):
        feeds = {"x": np.zeros((1, width), np.float32)}
        np.testing.assert_array_equal(engine.run(feeds)["y"], session.run(None, feeds)[0])


def test_splits() -> None:
    source = model(
        """g (float[b, h] x) => (float[b, p] a, float[b, q] y, float[b, r] c, float[b, s] d, float[b, t] z) {
            divisor = Constant <value_ints = [2]> ()
            shape = Shape <start = 1> (x)  half = Div (shape, divisor)  rest = Sub (shape, half)
            parts = Concat <axis = 0> (half, rest)  a, y = Split <axis = 1> (x, parts)
            c, d, z = Split <axis = -1, num_outputs = 3> (x)
        }"""
    )
    check(source, [{"x": reals(*shape)} for shape in [(2, 7), (1, 6), (3, 9), (2, 3)]])


def test_sizes_as_types_that_do_not_hold_them() -> None:
    source = model(
        """g (float[batch, width] x) => (int64[length] y, int64[1] z) {
            s = Shape (x)  n = Gather (s, one)  b = Cast <to = 9> (n)  u = Cast <to = 2> (n)
            flag = Cast <to = 7> (b)  low = Cast <to = 7> (u)  y = Range (zero, flag, one)
            z = Unsqueeze (low, front)
        }""",
        zero=np.array(0), one=np.array(1), front=np.array([0]),
    )  # fmt: skip
    engine = intact.compile(source, threads=1)
    for width in (1, 3, 300):
        outputs = engine.run({"x": np.zeros((1, width), np.float32)})
        assert outputs["y"].tolist() == [0]
        assert outputs["z"].tolist() == [width % 256]


def test_grids_of_anchors() -> None:
    """Points of a grid, as detectors compute them of the size of each image."""
    source = model(
        """g (float[b, 3, h, w] x) => (float[b, 2, n] y) {
            c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w0)
            s = Shape (c)  h1 = Gather (s, two)  w1 = Gather (s, three)  hf = Cast <to = 1> (h1)
            wf = Cast <to = 1> (w1)
            across = Range (zero, wf, one)  xs = Add (across, half)  down = Range (zero, hf, one)
            ys = Add (down, half)
            y2 = Reshape (ys, column)  x2 = Reshape (xs, row)  ysize = Shape (ys)  xsize = Shape (xs)
            both = Concat <axis = 0> (ysize, xsize)  ye = Expand (y2, both)  xe = Expand (x2, both)
            yf = Reshape (ye, flat)  xf = Reshape (xe, flat)  grid = Concat <axis = 0> (xf, yf)
            points = Unsqueeze (grid, first)
            n = Mul (h1, w1)  n1 = Unsqueeze (n, first)  b = Gather (s, zero_index)  b1 = Unsqueeze (b, first)
            to = Concat <axis = 0> (b1, channels, n1)  boxes = Reshape (c, to)  y = Add (boxes, points)
        }""",
        w0=reals(2, 3, 3, 3), two=np.array(2), three=np.array(3), zero=np.float32(0), one=np.float32(1),
        half=np.float32(0.5), column=np.array([-1, 1]), row=np.array([1, -1]), flat=np.array([1, -1]),
        first=np.array([0]), zero_index=np.array(0), channels=np.array([2]),
    )  # fmt: skip
    check(source, images((1, 3, 8, 8), (2, 3, 6, 7), (1, 3, 3, 9)), 1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_images_a_few_at_a_time_read_what_is_held(threads: int) -> None:
    """Planes of a free size beside images that threads share out."""
    source = model(
        """g (float[n, 16, h, w] x) => (float[n, 16, h, w] y) {
            s = Shape (x)  planes = Expand (channels, s)  a = Relu (x)  b = Add (a, planes)
            c = Conv <pads = [1, 1, 1, 1], group = 16> (b, w1)  d = Relu (c)  e = Mul (d, planes)
            y = Sigmoid (e)
        }""",
        channels=reals(1, 16, 1, 1), w1=reals(16, 1, 3, 3),
    )  # fmt: skip
    plan = lower(source)
    engine = intact.compile(plan, threads=threads)
    for shape in ((4, 16, 96, 96), (6, 16, 64, 80), (1, 16, 200, 200)):
        inputs = {"x": reals(*shape)}
        np.testing.assert_array_equal(engine.run(inputs)["y"], evaluate(plan, inputs)["y"])
