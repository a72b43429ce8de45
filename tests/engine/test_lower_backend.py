"""ONNX's own tests of its operators: every model that is read lowers, and evaluates to what they say."""

import warnings
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import UnsupportedError

OPSET = 25  # newer operators are not read
NATIVE = {
    "Add", "Clip", "Concat", "DepthToSpace", "Div", "Elu", "Erf", "Exp", "Flatten", "Gelu",
    "GlobalAveragePool", "HardSwish", "LeakyRelu", "Max", "Min", "Mul", "Relu", "Resize", "Sigmoid",
    "Softmax", "SpaceToDepth", "Split", "Sub", "Tanh", "Transpose",
}  # fmt: skip
"""Operators of which at least one test must run without ONNX Runtime."""
DIFFERENT = ("dft", "stft", "training_dropout", "maxunpool_export", "resize_downsample_scales", "attention")
"""Models on which ONNX Runtime itself differs from ONNX's figures by more than our bound."""


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the code that makes the expected outputs
        from onnx.backend.test.loader import load_model_tests

        backend_tests = load_model_tests(kind="node")
    for case in backend_tests:
        ports = (*case.model.graph.input, *case.model.graph.output)
        own = all(node.domain in ("", "ai.onnx") for node in case.model.graph.node)
        arrays = all(isinstance(a, np.ndarray) for ins, outs in case.data_sets for a in (*ins, *outs))
        if "expanded" not in case.name and own and arrays and _are_floats(ports):
            yield case


def _are_floats(ports):
    return all(port.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for port in ports)


def at_opset(model):
    """The model under an opset that is read, where its operators have not changed since."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for entry in copy.opset_import:
        entry.version = min(entry.version, OPSET)
    copy.ir_version = min(copy.ir_version, 11)
    return copy


def with_scales(model, inputs):
    """The model of a Resize with its scales as the constant that they are in every file."""
    names = [port.name for port in model.graph.input]
    if "scales" in names:
        place = names.index("scales")
        model.graph.initializer.append(numpy_helper.from_array(inputs[place], "scales"))
        del model.graph.input[place]
        inputs = [*inputs[:place], *inputs[place + 1 :]]
    return model, inputs


@pytest.mark.slow
def test_every_operator_on_reals():
    native, run, wrong = Counter(), 0, []
    for case in cases():
        model, first = with_scales(at_opset(case.model), case.data_sets[0][0])
        try:
            plan = lower(model)
        except UnsupportedError:  # an opset before 9, or an operator that is newer than ours
            continue
        kinds = {step.kind for step in plan.steps}
        for inputs, outputs in [(first, case.data_sets[0][1]), *case.data_sets[1:]]:
            try:
                values = evaluate(plan, dict(zip(plan.inputs, inputs, strict=False)))
            except UnsupportedError:  # ONNX Runtime has no kernel either
                break
            for name, want in zip(plan.outputs, outputs, strict=True):
                if not np.allclose(values[name], want, rtol=1e-3, atol=1e-5, equal_nan=True):
                    wrong.append(case.name)
        else:
            run += 1
            native.update(node.op_type for node in case.model.graph.node if "onnx" not in kinds)
    assert not [name for name in wrong if not any(part in name for part in DIFFERENT)]
    assert run >= 300
    assert not NATIVE - native.keys()
