"""DynamicQuantizeLSTM becomes native steps, with the bits of the reference and ONNX Runtime's numbers."""

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
from intact.errors import QuantValueError
from intact.graph import Session
from intact.kernels import kernel_list

INPUTS, HIDDEN = 10, 12
KERNELS = [k.name for k in kernel_list() if k.family in ("block_gemm", "dynamic_quantize") and k.available]


def lstm_model(
    rng: np.random.Generator,
    *,
    direction: str = "forward",
    dtype: str = "int8",
    per_channel: bool = False,
    zero: int = 0,
    bias: bool = True,
    states: bool = False,
    lengths: bool = False,
    hidden: int = HIDDEN,
    outputs: str = "y h c",
    **attributes: Any,
) -> onnx.ModelProto:
    directions, limits, rows = 1 + (direction == "bidirectional"), np.iinfo(dtype), 4 * hidden
    ranges = (directions, rows) if per_channel else (directions,)
    constants: dict[str, Any] = {"b": rng.normal(0, 0.3, (directions, 2 * rows)).astype(np.float32)}
    for name, size in (("w", INPUTS), ("r", hidden)):
        codes = rng.integers(limits.min, limits.max, (directions, size, rows), endpoint=True)
        constants[name] = codes.astype(dtype)
        constants[f"{name}_s"] = rng.uniform(2e-3, 6e-3, ranges).astype(np.float32)
        constants[f"{name}_z"] = np.full(ranges, zero, dtype)
    inputs = {"x": ["t", "n", INPUTS]}
    state = [directions, "n", hidden]
    inputs |= {"h0": state, "c0": state} if states else {}
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "b" if bias else "", "lengths" if lengths else "",
         *(["h0", "c0"] if states else ["", ""]),
         "", "w_s", "w_z", "r_s", "r_z"],
        [name if name in outputs.split() else "" for name in ("y", "h", "c")],
        name="lstm", domain="com.microsoft", hidden_size=hidden, direction=direction, **attributes,
    )  # fmt: skip
    shapes = {"y": ["t", directions, "n", hidden], "h": state, "c": state}
    model = onnx_model(
        [node], inputs, {name: shapes[name] for name in outputs.split()}, constants, opset=17,
        domains={"com.microsoft": 1},
    )  # fmt: skip
    if lengths:
        model.graph.input.append(helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, ["n"]))
    return model


def feeds(rng: np.random.Generator, model: onnx.ModelProto, steps: int, batch: int) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for value in model.graph.input:
        sizes = {"t": steps, "n": batch}
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        if value.name == "lengths":
            arrays[value.name] = rng.integers(1, steps + 1, batch).astype(np.int32)
            arrays[value.name][:1] = steps
        else:
            arrays[value.name] = rng.uniform(-1, 1, shape).astype(np.float32)
    return arrays


def outputs_of(plan: Plan, arrays: dict[str, Any]) -> dict[str, Any]:
    values = evaluate(plan, arrays)
    return {name: values[name] for name in plan.outputs}


def check(model: onnx.ModelProto, tolerance: float = 2e-6) -> Plan:
    plan, rng = lower(model), np.random.default_rng(11)
    for steps, batch in ((1, 1), (9, 1), (7, 5)):
        arrays = feeds(rng, model, steps, batch)
        want = outputs_of(plan, arrays)
        for threads in (1, 3):
            got = Engine(plan, threads=threads).run(arrays)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array)
        if batch > 1 and "lengths" in arrays:
            continue  # there rows that have ended are still part of the range
        expected = Session(model.SerializeToString(), threads=1).run(arrays)
        for name, array in want.items():
            np.testing.assert_allclose(array, expected[name], rtol=0, atol=tolerance)
    return plan


@pytest.mark.rule("N74")
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("options", [
    {}, {"per_channel": True}, {"dtype": "uint8", "zero": 131}, {"zero": -5, "bias": False},
    {"states": True}, {"lengths": True}, {"states": True, "lengths": True, "per_channel": True},
    {"outputs": "y"}, {"outputs": "h", "hidden": 5}, {"outputs": "c h", "hidden": 33},
])  # fmt: skip
def test_layers(direction: str, options: dict[str, Any]) -> None:
    plan = check(lstm_model(np.random.default_rng(3), direction=direction, **options))
    assert [step.kind for step in plan.steps] == ["dynamic_quantize", "block_linear", "dynamic_recurrent"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    check(lstm_model(np.random.default_rng(4), direction="bidirectional", hidden=141, states=True))


@pytest.mark.parametrize(
    "options", [{"clip": 1.0}, {"input_forget": 1}, {"activations": ["Relu", "Tanh", "Tanh"]}]
)
def test_forms_that_no_kernel_knows_stay_in_the_runtime(options: dict[str, Any]) -> None:
    plan = lower(lstm_model(np.random.default_rng(3), **options))
    assert [step.kind for step in plan.steps] == ["onnx"]


def test_shapes_that_the_file_does_not_declare_are_inferred() -> None:
    model = lstm_model(np.random.default_rng(3), direction="bidirectional", outputs="y")
    del model.graph.output[:]
    relu = helper.make_node("Relu", ["y"], ["z"], name="relu")
    model.graph.node.append(relu)
    model.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    kinds = [step.kind for step in check(model).steps]
    assert kinds == ["dynamic_quantize", "block_linear", "dynamic_recurrent", "function"]


def test_empty_batches_and_sequences() -> None:
    model = lstm_model(np.random.default_rng(3), direction="bidirectional")
    plan = lower(model)
    for steps, batch in ((0, 2), (3, 0)):
        arrays = feeds(np.random.default_rng(1), model, steps, batch)
        got, want = Engine(plan).run(arrays), outputs_of(plan, arrays)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array)


def test_states_that_are_not_finite_make_nans() -> None:
    model = lstm_model(np.random.default_rng(3), states=True)
    plan, arrays = lower(model), feeds(np.random.default_rng(1), model, 4, 2)
    arrays["h0"][0, 1, 3] = np.inf
    got, want = Engine(plan).run(arrays), outputs_of(plan, arrays)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
    assert np.isnan(want["y"]).all()


def test_states_of_another_size_are_refused() -> None:
    model = lstm_model(np.random.default_rng(3), states=True)
    arrays = feeds(np.random.default_rng(1), model, 4, 2)
    arrays["c0"] = arrays["c0"][:, :1]
    with pytest.raises(QuantValueError, match="c0"):
        Engine(lower(model)).run(arrays)
