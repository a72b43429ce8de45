"""The face of placement: what users choose, what they are refused, what they are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intact.errors import QuantValueError
from intact.graph import load
from intact.placement import explain, place
from intact.placement.rules import RULES


def image(n: Any, channels: int = 16, name: str = "x") -> str:
    return str(n.input(name, [1, channels, 8, 8]))


def block(n: Any, swapped: bool = False) -> str:
    x = n.conv(image(n), 16, name="stem", act="Relu")
    y = n.conv(n.conv(x, 16, name="a", act="Relu"), 16, name="b")
    y = n.node("Add", *((x, y) if swapped else (y, x)), name="add")
    return str(n.act(y, "Relu", "relu"))


@pytest.mark.parametrize("pattern", ["b", "b*", "?"])
def test_excluded_nodes_stay_in_float_with_the_pattern_as_reason(
    pattern: str, net: Callable[..., Any]
) -> None:
    n = net()
    y = n.conv(n.conv(image(n), 16, name="first", act="Relu"), 16, name="b")
    p = n.place(y, exclude=[pattern])
    assert (
        p.edges() == {("first", 0)} and p.reason("b") == f"kept in float: it matches '{pattern}' of exclude"
    )


def test_an_excluded_operator_type_leaves_its_neighbours(net: Callable[..., Any]) -> None:
    n = net()
    p = n.place(n.conv(block(n), 16, name="next"), exclude=["Add"])
    assert p.layer("b") == ("int8", "Conv") and p.layer("add")[0] == "float"
    assert ("next", 0) in p.edges()


def test_keep_float_names_operator_types(net: Callable[..., Any]) -> None:
    n = net()
    p = n.place(n.linear(n.conv(image(n), 16, name="conv"), 8, 16, name="fc"), keep_float=["Conv"])
    assert p.reason("conv") == "kept in float: Conv is among the operators to keep"


def test_include_leaves_all_other_nodes_in_float(net: Callable[..., Any]) -> None:
    n = net()
    x = n.node("MaxPool", n.conv(image(n), 16, name="a", act="Relu"), name="pool", kernel_shape=[2, 2])
    p = n.place(n.conv(x, 16, name="b"), include=["b"])
    assert p.edges() == {("pool", 0)}  # what only moves data follows its readers
    assert p.reason("a") == "kept in float: it matches nothing of include"


# the face


def test_a_graph_with_pairs_is_not_placed_again(net: Callable[..., Any]) -> None:
    n = net()
    s, z = n.weight("s", np.float32(1)), n.weight("z", np.int8(0))
    q = n.node("QuantizeLinear", image(n), s, z, name="q")
    message = "a graph that has Q/DQ pairs, want a float graph. Fix: run `intact strip` first"
    with pytest.raises(QuantValueError, match=message):
        n.place(n.node("DequantizeLinear", q, s, z, name="dq"))


def test_a_profile_that_nobody_knows_is_refused(net: Callable[..., Any]) -> None:
    n = net()
    with pytest.raises(QuantValueError, match=r"profile: got 'abacus', want 'intact' or 'tensorrt'"):
        n.place(n.node("Relu", image(n), name="op"), profile="abacus")


def test_placing_does_not_change_the_graph(net: Callable[..., Any]) -> None:
    n = net()
    model = load(n.proto(n.conv(block(n), 16, name="next")))
    before = [(node.name, [v and v.name for v in node.inputs]) for node in model.graph]
    place(model)
    assert [(node.name, [v and v.name for v in node.inputs]) for node in model.graph] == before


def test_explain_has_a_row_for_each_layer(net: Callable[..., Any]) -> None:
    n = net()
    p = n.place(n.conv(block(n), 16, name="next"))
    rows = explain(p)
    assert [row["layer"] for row in rows] == ["stem", "a", "b", "next"]
    assert rows[2] == {
        "layer": "b", "op_type": "Conv", "precision": "int8", "fused": "Conv+Add+Relu",
        "nodes": ["b", "add", "relu"],
        "reason": "all its inputs come in int8; the Add reads 'stem.act' in int8; it writes int8",
    }  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_drawn(rule: Any) -> None:
    assert "Before: " in rule.reads.__doc__ and "After: " in rule.reads.__doc__


def test_a_long_row_of_operators_is_no_deep_recursion(net: Callable[..., Any]) -> None:
    n = net()
    x = n.conv(image(n), 16, name="a", act="Relu")
    for _ in range(1500):
        x = n.node("Identity", x)
    p = n.place(n.conv(x, 16, name="b"))
    assert {x.precision for x in p.layers} == {"int8"} and len(p.layers) == 1502
