"""The self-test of a plan in the C library: inputs and checksums are those of Python."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from tests.capi.library import CError, CPlan
from tests.engine.conftest import Qdq
from tests.engine.test_hostile_plans import rewritten
from tests.engine.test_selftest import LIES, small_engine
from tests.fuzz.graphs import make

from intact.engine.compare.c_interface import BAD_ARGUMENT, BAD_FILE, DIFFERENT, UNSUPPORTED
from intact.engine.engine import Engine
from intact.engine.files import container
from intact.engine.files import plan_files as files
from intact.engine.lower import lower
from intact.errors import FileFormatError

T = onnx.TensorProto
TYPES = (
    T.UINT8, T.INT8, T.BOOL, T.INT16, T.UINT16, T.FLOAT16, T.INT32, T.UINT32, T.FLOAT, T.INT64, T.UINT64,
    T.DOUBLE,
)  # fmt: skip


def save_with_selftest(engine, path):
    assert engine.add_selftest()
    engine.save(path)
    return path


@pytest.mark.parametrize("kind", TYPES, ids=[T.DataType.Name(kind) for kind in TYPES])
def test_inputs_of_every_type_are_pythons(kind, c_library, tmp_path):
    net = Qdq()
    x, y = net.input("x", ("n", 700), kind), net.input("y", ("n", 700), kind)
    engine = Engine(lower(net.proto(net.node("Concat", y, x, axis=1))))
    CPlan(c_library, save_with_selftest(engine, tmp_path / "plan")).selftest()


def test_random_graphs_pass_on_both_sides(c_library, tmp_path):
    passed = 0
    for seed in range(30):
        engine = Engine(lower(make(seed).proto), threads=1)
        if engine.add_selftest():
            engine.save(tmp_path / "plan")
            CPlan(c_library, tmp_path / "plan", threads=1 + seed % 2).selftest()
            assert engine.selftest() == ()
            passed += 1
    assert passed > 10


def test_nans_have_one_checksum_in_c_too(c_library, tmp_path):
    net = Qdq()
    roots = net.node("Sqrt", net.input("x", (64,)))
    engine = Engine(lower(net.proto(roots)))
    path = save_with_selftest(engine, tmp_path / "plan")
    assert np.isnan(engine.run({"x": np.full(64, -1, np.float32)})[engine.plan.outputs[0]]).all()
    CPlan(c_library, path).selftest()


def test_it_names_the_output_that_differs(c_library, tmp_path):
    engine = small_engine()
    engine.add_selftest()
    for index, name in enumerate(engine.plan.outputs):
        sums = tuple(n ^ (at == index) for at, n in enumerate(engine.plan.selftest.checksums))
        plan = replace(engine.plan, selftest=replace(engine.plan.selftest, checksums=sums))
        files.save(tmp_path / "plan", plan)
        with pytest.raises(CError, match=f"'{name}': got other numbers") as caught:
            CPlan(c_library, tmp_path / "plan").selftest()
        assert caught.value.status == DIFFERENT


@pytest.mark.parametrize("test", LIES, ids=repr)
def test_a_selftest_that_lies_is_refused(test, c_library, tmp_path):
    files.save(tmp_path / "plan", replace(small_engine().plan, selftest=test))
    with pytest.raises(CError, match="selftest") as caught:
        CPlan(c_library, tmp_path / "plan")
    assert caught.value.status == BAD_FILE


def test_plans_without_one_are_refused_by_name(c_library, tmp_path):
    small_engine().save(tmp_path / "plan")
    opened = CPlan(c_library, tmp_path / "plan")
    with pytest.raises(CError, match="no self-test") as caught:
        opened.selftest()
    assert caught.value.status == UNSUPPORTED
    with pytest.raises(CError) as caught:
        opened.call("selftest", None)
    assert caught.value.status == BAD_ARGUMENT


def test_sizes_that_contradict_the_plan_end_in_an_error(c_library, tmp_path):
    engine = small_engine()
    engine.add_selftest()
    plan = replace(engine.plan, selftest=replace(engine.plan.selftest, shapes=((1, 4, 8, 8),)))
    files.save(tmp_path / "plan", plan)
    with pytest.raises(CError, match="'x'"):
        CPlan(c_library, tmp_path / "plan").selftest()


@pytest.mark.parametrize(
    "value",
    [
        None, [], "x", {}, {"seed": 1, "shapes": [[1, 3, 8, 8]]},
        {"seed": 1, "shapes": [[1, 3, 8, 8]], "checksums": [0, 0], "more": 1},
        {"seed": 1.5, "shapes": [[1, 3, 8, 8]], "checksums": [0, 0]},
        {"seed": 1, "shapes": [[1, 3, "n", 8]], "checksums": [0, 0]},
        {"seed": 1, "shapes": [[2**61, 2**61, 2**61, 2**61]], "checksums": [0, 0]},
        {"seed": 1, "shapes": [[1] * 7], "checksums": [0, 0]},
        {"seed": 1, "shapes": [1, 3, 8, 8], "checksums": [0, 0]},
        {"seed": 1, "shapes": [[1, 3, 8, 8]], "checksums": [True, 0]},
    ],
    ids=repr,
)  # fmt: skip
def test_both_readers_refuse_what_is_no_selftest(value, c_library, tmp_path):
    save_with_selftest(small_engine(), tmp_path / "plan")
    metadata, views = container.read(tmp_path / "plan")
    content = json.loads(metadata["intact.plan"]) | {"selftest": value}
    rewritten(tmp_path / "other", content, {name: view[:-64].copy() for name, view in views.items()})
    with pytest.raises(FileFormatError):
        files.load(tmp_path / "other")
    with pytest.raises(CError) as caught:
        CPlan(c_library, tmp_path / "other")
    assert caught.value.status in (BAD_FILE, UNSUPPORTED)
