"""ConvInteger and what makes floats of its sums are one native step, with the numbers of the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import DynamicConv, Tensor
from intact.errors import QuantValueError
from intact.graph import Session
from intact.kernels import kernel_list

MULTIPLY = [k.name for k in kernel_list() if k.family in ("block_gemm", "dynamic_depthwise") and k.available]


def conv_model(
    rng: np.random.Generator,
    *,
    channels: int = 6,
    outputs: int = 8,
    kernel: tuple[int, ...] = (3, 3),
    dtype: str = "uint8",
    weight_zero: int | None = 3,
    per_channel: bool = False,
    bias: bool = True,
    is_first: bool = True,
    **attributes: Any,
) -> onnx.ModelProto:
    """Write what quantize_dynamic makes of a Conv; `is_first`: the order of the factors."""
    limits = np.iinfo(dtype)
    shape = (outputs, channels // attributes.get("group", 1), *kernel)
    spread = (outputs, *[1] * len(kernel)) if per_channel else ()
    constants: dict[str, Any] = {
        "w": rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype),
        "w_s": rng.uniform(1e-3, 1e-2, spread).astype(np.float32),
        "b": rng.normal(0, 1, (1, outputs, *[1] * len(kernel))).astype(np.float32),
    }
    inputs = ["q", "w", "z"]
    if weight_zero is not None:
        constants["w_z"] = np.array(weight_zero, dtype)
        inputs.append("w_z")
    factors = ["f", "scale"] if is_first else ["scale", "f"]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="ranges"),
        helper.make_node("Mul", ["s", "w_s"] if is_first else ["w_s", "s"], ["scale"], name="scale"),
        helper.make_node("ConvInteger", inputs, ["acc"], name="conv", **attributes),
        helper.make_node("Cast", ["acc"], ["f"], name="cast", to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", factors, ["p" if bias else "y"], name="product"),
    ]
    if bias:
        nodes.append(helper.make_node("Add", ["p", "b"] if is_first else ["b", "p"], ["y"], name="add"))
    sizes = [f"size{axis}" for axis in range(len(kernel))]
    return onnx_model(
        nodes, {"x": ["n", channels, *sizes]}, {"y": ["n", outputs, *(f"{s}_out" for s in sizes)]}, constants,
        opset=17,
    )  # fmt: skip


def check(model: onnx.ModelProto, *shapes: tuple[int, ...]) -> Plan:
    """The engine has the bits of the reference on several threads, and ONNX Runtime's numbers."""
    plan = lower(model)
    rng = np.random.default_rng(5)
    for shape in shapes:
        x = rng.normal(0.3, 2, shape).astype(np.float32)
        want = evaluate(plan, {"x": x})["y"]
        for threads in (1, 3):
            np.testing.assert_array_equal(Engine(plan, threads=threads).run({"x": x})["y"], want)
        expected = Session(model.SerializeToString()).run({"x": x})["y"]
        np.testing.assert_allclose(want, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    return plan


@pytest.mark.rule("N73")
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("attributes", [
    {}, {"pads": [1, 1, 1, 1]}, {"pads": [0, 2, 1, 3], "strides": [2, 1]},
    {"dilations": [2, 3], "pads": [2, 3, 2, 3]}, {"group": 2},
    {"group": 6, "outputs": 12, "pads": [1, 1, 1, 1]},
    {"kernel": (1, 1)}, {"kernel": (2, 3), "auto_pad": "SAME_UPPER"}, {"channels": 3, "outputs": 40},
    {"channels": 34, "outputs": 34, "group": 17, "strides": [1, 2]},
])  # fmt: skip
def test_images(dtype: str, attributes: dict[str, Any]) -> None:
    model = conv_model(np.random.default_rng(1), dtype=dtype, **attributes)
    if "auto_pad" in attributes:
        for value, size in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], (7, 9), strict=True):
            value.dim_value = size
    channels = attributes.get("channels", 6)
    sizes = (
        ((1, channels, 7, 9),) if "auto_pad" in attributes else ((1, channels, 7, 9), (3, channels, 11, 8))
    )
    plan = check(model, *sizes)
    assert [step.kind for step in plan.steps] == ["dynamic_quantize", "dynamic_conv"]
    (layer,) = (layer for layer in plan.layers if "conv" in layer.nodes)
    assert layer.precision == "int8"
    assert layer.reason.startswith("it multiplies uint8 codes with one range for all of its input")


@pytest.mark.parametrize(
    "attributes", [{}, {"pads": [4, 0]}, {"strides": [3], "dilations": [2]}, {"group": 3}]
)
def test_sequences(attributes: dict[str, Any]) -> None:
    model = conv_model(np.random.default_rng(2), kernel=(5,), outputs=9, **attributes)
    plan = check(model, (1, 6, 40), (2, 6, 300))
    kinds = [step.kind for step in plan.steps]
    assert kinds == ["dynamic_quantize", "reshape", "dynamic_conv", "reshape"]


@pytest.mark.rule("N73")
@pytest.mark.parametrize("kernel", MULTIPLY)
@pytest.mark.parametrize("options", [
    {}, {"group": 3, "outputs": 9}, {"dtype": "int8", "kernel": (1, 1)},
    {"group": 6, "outputs": 6, "pads": [1, 1, 1, 1]},
    {"channels": 37, "outputs": 37, "group": 37, "kernel": (2, 3), "dtype": "int8", "weight_zero": None},
])  # fmt: skip
def test_every_kernel(kernel: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    channels = options.get("channels", 6)
    check(conv_model(np.random.default_rng(8), **options), (1, channels, 3, 4), (2, channels, 13, 12))


@pytest.mark.parametrize("attributes", [
    {"pads": [1, 1, 1, 1], "strides": [2, 2]}, {"kernel": (5, 2), "dilations": [2, 3], "pads": [4, 0, 3, 9]},
    {"per_channel": True, "weight_zero": None, "bias": False},
])  # fmt: skip
@pytest.mark.parametrize("channels", [1, 16, 50])
def test_one_channel_in_each_group(channels: int, attributes: dict[str, Any]) -> None:
    options = {"channels": channels, "outputs": channels, "group": channels, **attributes}
    model = conv_model(np.random.default_rng(channels), **options)
    plan = check(model, (1, channels, 9, 9), (2, channels, 40, 17))
    assert [step.kind for step in plan.steps] == ["dynamic_quantize", "dynamic_conv"]
    x = np.ones((1, channels, 9, 9), np.float32)
    (timing,) = (t for t in Engine(plan).profile({"x": x}, runs=1).timings if t.kind == "dynamic_conv")
    assert any("dynamic_depthwise" in kernel for kernel in timing.kernels)


@pytest.mark.parametrize("groups", [1, 5])
def test_codes_with_a_sign(groups: int) -> None:
    rng = np.random.default_rng(groups)
    constants = {
        "w": rng.integers(0, 256, (5, 3, 3, 5 // groups), np.uint8),
        "ws": rng.uniform(0.01, 0.02, 5).astype(np.float32),
        "wz": rng.integers(0, 256, 5, np.uint8),
    }
    step = DynamicConv(
        "conv", ("conv",), "x", "s", "y", "w", "ws", zero_points="wz", pads=(1, 1, 1, 1), groups=groups
    )
    tensors = [
        Tensor("x", "int8", (2, 5, 6, 7)), Tensor("s", "float32", ()), Tensor("y", "float32", (2, 5, 6, 7)),
    ]  # fmt: skip
    plan = Plan((step,), {tensor.name: tensor for tensor in tensors}, constants, ("x", "s"), ("y",))
    feeds = {"x": rng.integers(-128, 128, (2, 5, 6, 7)).astype(np.int8), "s": np.array(0.3, np.float32)}
    np.testing.assert_array_equal(Engine(plan).run(feeds)["y"], evaluate(plan, feeds)["y"])


def test_scales_of_channels_and_operands_in_either_order() -> None:
    for is_first in (True, False):
        model = conv_model(
            np.random.default_rng(3), per_channel=False, bias=False, weight_zero=None, is_first=is_first
        )
        assert [step.kind for step in check(model, (2, 6, 5, 5)).steps] == [
            "dynamic_quantize",
            "dynamic_conv",
        ]


def test_a_scale_for_each_channel() -> None:
    model = conv_model(np.random.default_rng(4), outputs=20, per_channel=True)
    scale = next(array for array in model.graph.initializer if array.name == "w_s")
    del scale.dims[:]
    scale.dims.extend((1, 20, 1, 1))
    plan = check(model, (2, 6, 6, 6))
    assert [step.kind for step in plan.steps] == ["dynamic_quantize", "dynamic_conv"]


def test_scales_along_another_axis_are_no_part_of_the_layer() -> None:
    model = conv_model(np.random.default_rng(4), outputs=4, per_channel=True, bias=False, pads=[1, 1, 1, 1])
    scale = next(array for array in model.graph.initializer if array.name == "w_s")
    del scale.dims[:]
    scale.dims.extend((1, 1, 1, 4))
    assert "dynamic_conv" not in [step.kind for step in check(model, (1, 6, 4, 4)).steps]


def test_batches_of_nothing_and_ranges_that_are_not_finite() -> None:
    plan = lower(conv_model(np.random.default_rng(6), pads=[1, 1, 1, 1]))
    empty = Engine(plan).run({"x": np.zeros((0, 6, 4, 4), np.float32)})["y"]
    assert empty.shape == (0, 8, 4, 4)
    x = np.ones((1, 6, 4, 4), np.float32)
    x[0, 2, 1, 1] = np.inf
    got = Engine(plan).run({"x": x})["y"]
    np.testing.assert_array_equal(got, evaluate(plan, {"x": x})["y"])
    assert np.isnan(got).all()


def test_images_smaller_than_the_kernel_are_refused() -> None:
    plan = lower(conv_model(np.random.default_rng(6)))
    with pytest.raises(QuantValueError, match="window"):
        Engine(plan).run({"x": np.zeros((1, 6, 2, 5), np.float32)})


def test_sums_that_may_leave_int32_stay_in_the_runtime() -> None:
    plan = lower(conv_model(np.random.default_rng(7), channels=33026, outputs=2, kernel=(1, 1)))
    assert "dynamic_conv" not in [step.kind for step in plan.steps]
