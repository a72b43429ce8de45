"""Sequences of tensors that are read where they are made run natively, as ONNX Runtime runs them."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def run(nodes, constants=(), shape=("a", "b", "c"), index=None, rank=3):
    """Outputs of the engine, the reference and ONNX Runtime, and the kinds of the engine's steps."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))]
    feeds = {"x": X}
    if index is not None:
        inputs.append(helper.make_tensor_value_info("i", TensorProto.INT64, []))
        feeds["i"] = np.array(index)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()]
    proto = onnx_model(nodes, inputs, [y], arrays, opset=18)
    engine = intact.compile(proto)
    runtime = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    output = engine.run(feeds)["y"], intact.run_reference(proto, feeds)["y"], runtime.run(None, feeds)[0]
    return output, [step.kind for step in engine.plan.steps]


SPLITS = [None, np.int64(1), np.int64(2), np.array([1, 2]), np.array([2, 1])]
CASES = [(split, 1) for split in SPLITS]
CASES += [(split, 0) for i, split in enumerate(SPLITS) if i != 2]  # ONNX Runtime cannot drop an axis of two


@pytest.mark.parametrize("split, keepdims", CASES)
@pytest.mark.parametrize("index", [0, 1, -1])
@pytest.mark.parametrize("constant", [True, False])
def test_a_part_of_a_split_tensor(split, keepdims, index, constant):
    constants = ({} if split is None else {"s": split}) | ({"i": np.int64(index)} if constant else {})
    nodes = [
        helper.make_node("SplitToSequence", ["x", *(["s"] if split is not None else [])], ["q"], axis=1,
                         keepdims=keepdims),
        helper.make_node("SequenceAt", ["q", "i"], ["y"]),
    ]  # fmt: skip
    is_single = split is None or (split.ndim == 0 and split == 1)
    (engine, reference, runtime), kinds = run(
        nodes, constants, X.shape, None if constant else index, rank=3 - (is_single and not keepdims)
    )
    np.testing.assert_array_equal(engine, runtime, strict=True)
    np.testing.assert_array_equal(reference, runtime, strict=True)
    assert ("onnx" in kinds) == (not constant and not is_single)


@pytest.mark.parametrize("axis", [0, 2, -2])
def test_an_index_of_an_open_axis(axis):
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["q"], axis=axis, keepdims=0),
        helper.make_node("SequenceAt", ["q", "i"], ["y"]),
    ]
    (engine, reference, runtime), kinds = run(nodes, index=1, rank=2)
    np.testing.assert_array_equal(engine, runtime, strict=True)
    np.testing.assert_array_equal(reference, runtime, strict=True)
    assert "onnx" not in kinds


@pytest.mark.parametrize("new_axis", [0, 1])
def test_tensors_of_a_list_and_all_of_them(new_axis):
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("SequenceConstruct", ["x", "n"], ["q"]),
        helper.make_node("SequenceAt", ["q", "k"], ["last"]),
        helper.make_node("Abs", ["last"], ["a"]),
        helper.make_node("SequenceConstruct", ["a", "last"], ["r"]),
        helper.make_node("ConcatFromSequence", ["r"], ["y"], axis=-1, new_axis=new_axis),
    ]
    (engine, reference, runtime), kinds = run(nodes, {"k": np.int64(-1)}, rank=3 + new_axis)
    np.testing.assert_array_equal(engine, runtime, strict=True)
    np.testing.assert_array_equal(reference, runtime, strict=True)
    assert "onnx" not in kinds
