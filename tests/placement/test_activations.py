"""Activations are known by what they compute, in whatever form an exporter writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intact.graph import load
from intact.placement import place


def scalar(n: Any, value: float) -> str:
    return str(n.weight(f"c{len(n.weights)}", np.array(value, np.float32)))


def silu(n: Any, x: str) -> str:
    return str(n.node("Mul", n.node("Sigmoid", x), x))


def quick_gelu(n: Any, x: str) -> str:
    return str(n.node("Mul", x, n.node("Sigmoid", n.node("Mul", x, scalar(n, 1.702)))))


def hard_swish(n: Any, x: str) -> str:
    gate = n.node("Clip", n.node("Add", x, scalar(n, 3)), scalar(n, 0), scalar(n, 6))
    return str(n.node("Div", n.node("Mul", x, gate), scalar(n, 6)))


def hard_swish_gate(n: Any, x: str) -> str:
    return str(n.node("Mul", x, n.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)))


def gelu(n: Any, x: str) -> str:
    inner = n.node("Add", n.node("Erf", n.node("Mul", x, scalar(n, 0.5**0.5))), scalar(n, 1))
    return str(n.node("Mul", n.node("Mul", x, scalar(n, 0.5)), inner))


def gelu_tanh(n: Any, x: str) -> str:
    cube = n.node("Mul", n.node("Pow", x, scalar(n, 3)), scalar(n, 0.044715))
    inner = n.node("Tanh", n.node("Mul", n.node("Add", x, cube), scalar(n, (2 / np.pi) ** 0.5)))
    return str(n.node("Mul", n.node("Mul", x, scalar(n, 0.5)), n.node("Add", inner, scalar(n, 1))))


def mish(n: Any, x: str) -> str:
    return str(n.node("Mul", x, n.node("Tanh", n.node("Softplus", x))))


FORMS = {
    "Silu": silu, "QuickGelu": quick_gelu, "HardSwish": hard_swish, "HardSwish gate": hard_swish_gate,
    "Gelu": gelu, "Gelu(tanh)": gelu_tanh, "Mish": mish,
}  # fmt: skip


@pytest.mark.parametrize("form", list(FORMS))
def test_a_composed_activation_is_one_with_its_layer(form: str, net: Callable[..., Any]) -> None:
    n = net(17)
    y = FORMS[form](n, n.conv(n.input("x", [1, 16, 8, 8]), 16, name="conv"))
    layers = place(load(n.proto(y))).layers
    assert [(x.name, x.fused) for x in layers] == [("conv", f"Conv+{form.split(' ')[0]}")]


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("ends", [(-20, 20), (-100, 150), (-2e3, 1e4), (None, 15)], ids=str)
def test_a_bound_in_front_of_one_is_not_forgotten(form: str, ends: Any, net: Callable[..., Any]) -> None:
    """They were known by their values from -8 to 8, where such a bound does nothing."""
    n = net(17)
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="conv")
    x = n.node("Clip", x, *("" if end is None else scalar(n, end) for end in ends))
    layers = place(load(n.proto(FORMS[form](n, x)))).layers
    assert (layers[0].name, layers[0].fused) == ("conv", "Conv+Clip")


@pytest.mark.parametrize("ends", [(-np.finfo(np.float32).max, np.finfo(np.float32).max), (-30, 30)], ids=str)
def test_bounds_that_change_nothing_are_part_of_one(ends: Any, net: Callable[..., Any]) -> None:
    n = net(17)
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="conv")
    gate = n.node("Sigmoid", n.node("Clip", x, *(scalar(n, end) for end in ends)))
    layers = place(load(n.proto(n.node("Mul", x, gate)))).layers
    assert [(x.name, x.fused) for x in layers] == [("conv", "Conv+Silu")]


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("moved", ["a layer", "an input", "a norm"])
def test_no_pair_stands_inside_one_that_stands_alone(form: str, moved: str, net: Callable[..., Any]) -> None:
    """Layers that flatten sequences for a Gemm leave a Reshape in front of their GELU."""
    n = net(17)
    x = n.input("x", [1, 16, 32])
    if moved == "a layer":
        x = n.node("MatMul", x, n.random("w1", 32, 32), name="before")
        x = n.node("Reshape", x, n.weight("shape", np.array([1, 4, 4, 32])), name="moved")
    elif moved == "a norm":
        x = n.node("LayerNormalization", x, n.random("gain", 32), name="norm")
    written = len(n.nodes)
    y = FORMS[form](n, x)
    inside = {node.name for node in n.nodes[written:]}
    edges = n.place(n.node("MatMul", y, n.random("w2", 32, 32), name="after")).edges()
    assert ("after", 0) in edges and not [node for node, _ in edges if node in inside]


def test_a_gate_with_another_constant_is_not_taken_for_one_that_is_known(net: Callable[..., Any]) -> None:
    n = net(17)
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="conv")
    y = n.node("Mul", x, n.node("Sigmoid", n.node("Mul", x, scalar(n, 1.3))), name="gate")
    assert [x.fused for x in place(load(n.proto(y))).layers] == ["Conv", "Mul", "Sigmoid", "Mul"]


def test_an_activation_whose_input_others_read_stays_apart(net: Callable[..., Any]) -> None:
    n = net(17)
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="conv")
    layers = place(load(n.proto(silu(n, x), n.node("Exp", x, name="other")))).layers
    assert "Conv" in [x.fused for x in layers]


def test_an_engine_that_lacks_an_activation_does_not_fuse_it(net: Callable[..., Any]) -> None:
    n = net(17)
    y = silu(n, n.conv(n.input("x", [1, 16, 8, 8]), 16, name="conv"))
    assert [x.fused for x in place(load(n.proto(y)), "onnxruntime").layers] == ["Conv", "Sigmoid", "Mul"]
