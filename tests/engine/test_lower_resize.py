"""A Resize that interpolates runs natively, as ONNX Runtime computes it."""

import numpy as np
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.errors import QuantValueError
from intact.graph import Session

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners"]


@pytest.mark.rule("N57")
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("sizes", [(12, 10), (11, 3), (1, 5), (6, 9)], ids=str)
def test_values_between_elements(qdq, lower_graph, mode, coordinates, sizes):
    g = qdq(opset=19)
    x, wanted = g.input("x", [2, 3, 6, 5]), g.constant(np.array([2, 3, *sizes]))
    how = {"mode": mode, "coordinate_transformation_mode": coordinates}
    y = g.node("Resize", x, "", "", wanted, **how)
    lowered = lower_graph(g, y).agree(1e-4)
    assert lowered.kinds == ["interpolate"] * ((sizes[0] != 6) + (sizes[1] != 5))


@pytest.mark.rule("N57")
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("sizes", [(5, 6), (12, 3), (1, 30)], ids=str)
def test_what_shrinks_is_smoothed(qdq, lower_graph, mode, coordinates, exclude, sizes):
    g = qdq(opset=19)
    x, wanted = g.input("x", [2, 3, 13, 17]), g.constant(np.array([2, 3, *sizes]))
    how = {"mode": mode, "coordinate_transformation_mode": coordinates, "exclude_outside": exclude}
    lowered = lower_graph(g, g.node("Resize", x, "", "", wanted, antialias=1, **how)).agree(1e-4)
    assert lowered.kinds == ["interpolate"] * 2


@pytest.mark.parametrize("coefficient", [-0.5, -0.75])
@pytest.mark.parametrize("exclude", [0, 1])
def test_forms_of_the_cubic_kernel(qdq, lower_graph, coefficient, exclude):
    g = qdq(opset=19)
    scales = g.constant(np.float32([1, 1, 1.7, 0.6]))
    how = {"mode": "cubic", "cubic_coeff_a": coefficient, "exclude_outside": exclude}
    y = g.node("Resize", g.input("x", [1, 2, 7, 10]), "", scales, **how)
    assert lower_graph(g, y).agree(1e-4).kinds == ["interpolate"] * 2


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_scales_of_some_axes(qdq, lower_graph, mode):
    """2.3 times 5 is 11 and a half: the scale, not the ratio of the sizes, says what is read."""
    g = qdq(opset=19)
    scales = g.constant(np.float32([2.3]))
    y = g.node("Resize", g.input("x", [1, 2, 7, 5]), "", scales, mode=mode, axes=[3])
    lowered = lower_graph(g, y).agree(1e-5)
    assert lowered.kinds == [{"nearest": "resize", "linear": "interpolate"}[mode]]


def test_three_axes_between_codes(qdq, lower_graph):
    g = qdq(opset=19)
    scales = g.constant(np.float32([1, 1, 2, 0.5, 1.5]))
    y = g.node("Resize", g.pair(g.input("x", [1, 2, 3, 4, 6])), "", scales, mode="linear")
    lowered = lower_graph(g, g.quantize(y, 0.0713)).agree()  # few sums of eighths lie between two codes
    assert lowered.kinds == ["quantize", "dequantize", *["interpolate"] * 3, "quantize"]
    assert [step.axis for step in lowered.plan.steps if step.kind == "interpolate"] == [3, 4, 2]


def test_sizes_that_stay_are_no_work(qdq, lower_graph):
    g = qdq(opset=19)
    y = g.node(
        "Resize", g.input("x", [1, 2, 3, 4]), "", "", g.constant(np.array([1, 2, 3, 4])), mode="linear"
    )
    assert lower_graph(g, y).agree().kinds == ["reshape"]


@pytest.mark.parametrize(
    "how",
    [
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        {"keep_aspect_ratio_policy": "not_larger"},
    ],
    ids=lambda how: next(iter(how)),
)
def test_what_no_step_does_stays_with_onnx_runtime(qdq, lower_graph, how):
    g = qdq(opset=19)
    x, region = g.input("x", [1, 2, 6, 8]), g.constant(np.float32([0, 0, 1, 1]))
    y = g.node("Resize", x, region, "", g.constant(np.array([3, 4])), mode="linear", axes=[2, 3], **how)
    assert lower_graph(g, y).kinds == ["onnx"]


def test_a_free_size_is_resized_when_it_is_known(qdq, lower_graph):
    g = qdq(opset=19)
    scales = g.constant(np.float32([1, 1, 2, 2]))
    y = g.node("Resize", g.input("x", [1, 2, "h", 4]), "", scales, mode="linear")
    lowered = lower_graph(g, y, sizes={"h": 3})
    engine = Engine(lowered.plan, threads=1)
    assert "onnx" not in {timing.kind for timing in engine.profile(lowered.feeds, runs=1).timings}
    np.testing.assert_allclose(engine.run(lowered.feeds)[y], lowered.expected[y], atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_scales_that_are_no_constant_are_not_guessed_from_sizes(mode):
    """The sizes that a file declares tell their ratio: of 2.4 times 3 that is 7 to 3."""
    shapes = {"x": [1, 2, 3, 4], "s": [4], "y": [1, 2, 7, 4]}
    x, s, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items())
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode)
    model = onnx_model([node], [x, s], [y], opset=19)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.random((1, 2, 3, 4), np.float32), "s": np.float32([1, 1, 2.4, 1])}
    (want,) = Session(model.SerializeToString()).run(feeds).values()
    np.testing.assert_allclose(Engine(lower(model), threads=1).run(feeds)["y"], want, atol=1e-5)


def test_places_that_are_not_there_are_refused(qdq, lower_graph):
    g = qdq(opset=19)
    scales = g.constant(np.float32([1, 1, 2, 1]))
    lowered = lower_graph(g, g.node("Resize", g.input("x", [1, 2, 3, 4]), "", scales, mode="linear"))
    (step,) = lowered.plan.steps
    lowered.plan.constants[step.places] = lowered.plan.constants[step.places] + 3
    with pytest.raises(QuantValueError, match="give rows that are there"):
        Engine(lowered.plan, threads=1).run(lowered.feeds)


RESIZES = {
    "upsample": ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, (1, 1, 2, 3)),
    "half pixel": ({}, (1, 1, 2, 1.5)),
    "shrink": ({"nearest_mode": "ceil"}, (1, 1, 0.5, 0.75)),
    "align corners": (
        {"coordinate_transformation_mode": "align_corners", "nearest_mode": "round_prefer_ceil"},
        (1, 1, 1.7, 2),
    ),
}


@pytest.mark.parametrize("name", RESIZES)
def test_resize_takes_the_nearest(qdq, lower_graph, name):
    g, (attributes, scales) = qdq(), RESIZES[name]
    x = g.pair(g.input("x", [1, 2, 6, 4]))
    y = g.node("Resize", x, "", g.constant(np.float32(scales)), mode="nearest", **attributes)
    assert lower_graph(g, g.quantize(y)).agree().kinds == ["quantize", "resize"]
