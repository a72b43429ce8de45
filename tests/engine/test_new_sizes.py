"""New input sizes of a bound plan: what no size changes is made once, and codes equal the reference's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.engine.conftest import Qdq

from intact.engine.cpu.host import PlanHost
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A layer of every kind with int8 weights, of images whose number and sizes are free."""
    net = Qdq()
    x = net.pair(net.input("x", ("n", 32, "h", "w")))
    a = net.pair(net.node("Relu", net.conv(x, 32, 32)))
    b = net.pair(net.conv(a, 32, 32, group=32))
    c = net.pair(net.conv(b, 32, 6, group=2))
    d = net.pair(net.conv(net.pair(net.conv(c, 6, 6, group=6)), 6, 32, kernel=1))
    e = net.pair(net.node("Add", d, a))
    f = net.pair(net.node("ConvTranspose", e, net.weight(32, 8, 3, 3, axis=1), strides=[2, 2]))
    rows = net.pair(net.node("ReduceMean", f, net.ints(3), keepdims=0))
    turned = net.node("Transpose", rows, perm=[0, 2, 1])
    product = net.pair(net.node("MatMul", rows, turned))
    y = net.pair(net.node("MatMul", turned, net.weight(8, 5, axis=1)))
    return lower(net.proto(f, product, y))


def image(*sizes: int) -> np.ndarray:
    n, h, w = sizes
    return np.random.default_rng(h * w).standard_normal((n, 32, h, w), np.float32) * 3


SIZES = [(1, 8, 8), (3, 8, 8), (1, 12, 9), (2, 5, 40), (1, 1, 1), (1, 8, 8)]


def assert_equals_the_reference(engine: Engine, x: np.ndarray) -> None:
    wanted = evaluate(engine.plan, {"x": x})
    for name, output in engine.run({"x": x}).items():
        np.testing.assert_array_equal(output, wanted[name], err_msg=f"{name} of {x.shape}")


@pytest.mark.parametrize("isa", ["none", "avx2", "avxvnni", "avx512", "amx"])
def test_every_size_has_the_codes_of_the_reference(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, isa: str
) -> None:
    monkeypatch.setenv("INTACT_MAX_ISA", isa)
    engine = Engine(plan, threads=1)
    for sizes in SIZES:
        assert_equals_the_reference(engine, image(*sizes))


def test_new_sizes_read_no_weights_again(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter[str]()

    def count(name: str) -> None:
        method = getattr(PlanHost, name)

        def call(host: PlanHost, *arguments: Any) -> Any:
            calls[name] += 1
            return method(host, *arguments)

        monkeypatch.setattr(PlanHost, name, call)

    methods = "constant constant_to_pack find_packed keep_packed checksum choose_form note_form"
    for name in methods.split():
        count(name)
    engine = Engine(plan, threads=1)
    engine.prepare({"x": (1, 32, 8, 8)})
    first = calls.copy()
    assert first["constant_to_pack"] and first["keep_packed"]
    engine.prepare({"x": (2, 32, 8, 8)})
    assert calls == first


def test_other_kernels_have_layers_of_their_own(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(plan, threads=1)
    names = []
    for isa, sizes in (("none", (1, 8, 8)), ("amx", (2, 8, 8)), ("none", (3, 8, 8))):
        monkeypatch.setenv("INTACT_MAX_ISA", isa)
        assert_equals_the_reference(engine, image(*sizes))
        names.append({choice.form for _, choice in engine.choices()})
    assert names[0] == names[2]


def test_tuned_layers_pack_into_the_engine(plan: Plan) -> None:
    """Layers that a measurement made are not those of the engine, whose packed weights are saved."""
    engine = Engine(plan, threads=1)
    engine.prepare({"x": (1, 32, 8, 8)})
    first = set(engine.packed_weights)
    engine.tune(0.001, {"x": (1, 32, 8, 8)})
    assert first <= set(engine.packed_weights)
    for sizes in SIZES:
        assert_equals_the_reference(engine, image(*sizes))
