"""The self-test of a plan file: what it says, who has none, what a file that lies says, and what it finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from tests.engine.conftest import Qdq

from intact.engine.build import load
from intact.engine.engine import Engine
from intact.engine.files import plan_files as files
from intact.engine.lower import lower
from intact.engine.plan import Plan, SelfTest
from intact.engine.selftest import _splitmix64, checksum, draw_inputs
from intact.engine.steps import Tensor
from intact.errors import FileFormatError, UnsupportedError

TYPES = (
    "uint8", "int8", "bool", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64",
    "float64",
)  # fmt: skip


LIES = [
    SelfTest(1, (), (0, 0)),
    SelfTest(1, ((1, 3, 8),), (0, 0)),
    SelfTest(1, ((1, 3, 8, 8), (1,)), (0, 0)),
    SelfTest(1, ((-1, 3, 8, 8),), (0, 0)),
    SelfTest(1, ((2**40, 3, 8, 8),), (0, 0)),
    SelfTest(1, ((1, 3, 8, 8),), (0,)),
    SelfTest(1, ((1, 3, 8, 8),), (0, 2**32)),
    SelfTest(-1, ((1, 3, 8, 8),), (0, 0)),
    SelfTest(2**32, ((1, 3, 8, 8),), (0, 0)),
]
"""Self-tests of `small_engine` that no writer of plans makes."""


def small_engine(**options):
    net = Qdq()
    y = net.pair(net.node("Relu", net.conv(net.pair(net.input("x", ("n", 3, 8, 8))), 3, 4)))
    return Engine(lower(net.proto(y, net.quantize(net.node("GlobalAveragePool", y)))), threads=1, **options)


def test_a_plan_file_keeps_its_selftest(tmp_path):
    engine = small_engine()
    engine.save(tmp_path / "without")
    assert engine.add_selftest()
    assert engine.plan.selftest.shapes == ((1, 3, 8, 8),)
    engine.save(tmp_path / "plan")
    engine.save(tmp_path / "again")
    assert (tmp_path / "plan").read_bytes() == (tmp_path / "again").read_bytes()
    loaded = load(tmp_path / "plan", threads=2)
    assert loaded.plan.selftest == engine.plan.selftest
    assert loaded.selftest() == load(tmp_path / "plan", backend="reference").selftest() == ()
    with pytest.raises(UnsupportedError, match="without a self-test"):
        load(tmp_path / "without").selftest()


def test_it_names_the_output_that_differs():
    engine = small_engine()
    engine.add_selftest()
    sums = engine.plan.selftest.checksums
    for index, name in enumerate(engine.plan.outputs):
        changed = tuple(number ^ (at == index) for at, number in enumerate(sums))
        other = replace(engine.plan, selftest=replace(engine.plan.selftest, checksums=changed))
        assert Engine(other).selftest() == (name,)
    weight = next(name for name, array in engine.plan.constants.items() if array.dtype == np.int8)
    constants = {**engine.plan.constants, weight: -engine.plan.constants[weight]}
    assert Engine(replace(engine.plan, constants=constants)).selftest() == engine.plan.outputs


def test_parts_in_onnxruntime_and_strings_have_none():
    net = Qdq()
    x = net.pair(net.input("x", (2, 6)))
    foreign = Engine(lower(net.proto(net.node("Det", net.node("MatMul", x, net.node("Transpose", x))))))
    assert any(not step.native for step in foreign.plan.steps)
    assert not foreign.add_selftest() and foreign.plan.selftest is None
    net = Qdq()
    text = net.input("text", (3,), onnx.TensorProto.STRING)
    assert not Engine(lower(net.proto(net.node("Identity", text)))).add_selftest()


def test_the_generator_is_splitmix64():
    numbers = _splitmix64(np.arange(2, dtype=np.uint64))
    assert numbers.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_inputs_are_the_same_everywhere():
    tensors = {dtype: Tensor(dtype, dtype, (3,)) for dtype in TYPES}
    drawn = draw_inputs(Plan((), tensors, {}, TYPES, ()), [(3,)] * len(TYPES), 1)
    assert [drawn[dtype].dtype.name for dtype in TYPES] == list(TYPES)
    assert {dtype: drawn[dtype].tolist() for dtype in TYPES} == INPUTS


INPUTS = {
    "uint8": [70, 231, 153],
    "int8": [41, -18, -19],
    "bool": [True, True, True],
    "int16": [0, 0, 0],
    "uint16": [0, 0, 0],
    "float16": [-2.4375, -3.5, -1.5625],
    "int32": [0, 0, 0],
    "uint32": [0, 0, 0],
    "float32": [-3.5625, 1.1875, -0.75],
    "int64": [0, 0, 0],
    "uint64": [0, 0, 0],
    "float64": [-3.625, -1.09375, -0.46875],
}


def test_nans_have_one_checksum():
    for bits, dtype in ((16, np.float16), (32, np.float32), (64, np.float64)):
        nans = np.array([np.nan, -np.nan, 1], dtype)
        nans.view(f"u{bits // 8}")[0] |= 1
        assert checksum(nans) == checksum(np.array([np.nan, np.nan, 1], dtype))
        assert checksum(nans) != checksum(np.array([np.nan, np.nan, -1], dtype))


@pytest.mark.parametrize("test", LIES, ids=repr)
def test_a_selftest_that_lies_is_refused(test, tmp_path):
    files.save(tmp_path / "plan", replace(small_engine().plan, selftest=test))
    with pytest.raises(FileFormatError, match="self-test"):
        files.load(tmp_path / "plan")
