"""`intact.run_reference`: the normative answers of a Q/DQ model, whatever form it comes in."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import intact
from intact.engine.reference import evaluate
from intact.errors import FileAccessError, FileFormatError, QuantValueError
from intact.graph import load


@pytest.fixture
def model(qdq):
    net = qdq()
    x = net.pair(net.input("x", ("n", 3, 6, 6)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 8)))
    net.node("Softmax", net.node("Flatten", net.node("GlobalAveragePool", y)), name="out")
    net.node("Tanh", y, name="more")
    return net.proto("out", "more")


@pytest.fixture
def x(rng):
    return rng.standard_normal((2, 3, 6, 6)).astype(np.float32)


def test_the_engine_gives_the_reference_answers_bit_for_bit(model, x):
    wanted, engine = intact.run_reference(model, {"x": x}), intact.compile(model, threads=2)
    assert list(wanted) == ["out", "more"]
    assert all(np.array_equal(engine.run({"x": x})[name], array) for name, array in wanted.items())
    meaning = evaluate(engine.plan, {"x": x})
    assert all(np.array_equal(meaning[name], array) for name, array in wanted.items())


def test_every_form_of_a_model_has_the_same_answers(model, x, tmp_path):
    wanted = intact.run_reference(model, {"x": x})
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    intact.compile(model).save(tmp_path / "m.plan")
    forms = (model.SerializeToString(), load(model), tmp_path / "m.onnx", str(tmp_path / "m.onnx"),
             tmp_path / "m.plan", intact.compile(model).plan)  # fmt: skip
    for form in forms:
        outputs = intact.run_reference(form, x)
        assert all(np.array_equal(outputs[name], array) for name, array in wanted.items()), form


def test_what_quantize_returned_is_a_model_too(rng, qdq):
    net = qdq()
    net.node("Relu", net.node("MatMul", net.input("x", (4, 16)), net.floats(16, 16)), name="y")
    batches = [{"x": rng.standard_normal((4, 16)).astype(np.float32)} for _ in range(2)]
    result = intact.quantize(net.proto("y"), batches, progress=False)
    outputs = intact.run_reference(result, batches[0])
    assert np.array_equal(outputs["y"], intact.compile(result, threads=1).run(batches[0])["y"])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x'"),
        ({"y": np.zeros((1, 3, 6, 6), np.float32)}, "input 'y'"),
        ({"x": np.zeros((1, 3, 6, 6), np.float64)}, "float64"),
        ({"x": np.zeros((1, 4, 6, 6), np.float32)}, "x"),
        ({"x": "noise"}, "str"),
    ],
    ids=["missing", "unknown", "other dtype", "other shape", "no array"],
)
def test_inputs_that_do_not_fit_are_named(model, inputs, message):
    with pytest.raises(QuantValueError, match=message):
        intact.run_reference(model, inputs)


def test_one_array_for_several_inputs_is_refused(qdq):
    net = qdq()
    net.node("Add", net.pair(net.input("a", (2,))), net.pair(net.input("b", (2,))), name="y")
    with pytest.raises(QuantValueError, match=r"run_reference: inputs.*a, b"):
        intact.run_reference(net.proto("y"), np.zeros(2, np.float32))


def test_files_that_are_no_models_are_errors(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(FileFormatError):
        intact.run_reference(tmp_path / "m.onnx", np.zeros(1, np.float32))
    with pytest.raises(FileAccessError):
        intact.run_reference(tmp_path / "none.onnx", np.zeros(1, np.float32))


def test_a_module_is_told_to_become_a_file():
    torch = pytest.importorskip("torch")
    with pytest.raises(QuantValueError, match="export it first"):
        intact.run_reference(torch.nn.Linear(2, 2), np.zeros((1, 2), np.float32))


def test_the_front_door_stays_light():
    code = "import sys, intact; intact.run_reference; assert 'onnx' not in sys.modules, 'loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)
