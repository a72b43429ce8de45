"""LSTM, GRU and RNN: pairs on what comes in and on its weight, none on states and theirs."""

import numpy as np
import pytest


def _layer(n, x, op_type="LSTM", inputs=32, *, name="layer", **output):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]
    w, r = n.random(f"{name}.w", 1, gates * 16, inputs), n.random(f"{name}.r", 1, gates * 16, 16)
    return n.node(op_type, x, w, r, name=name, outputs=2, hidden_size=16, **output)[0]


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_the_input_and_its_weight_get_pairs(net, op_type):
    n = net()
    placed = n.place(_layer(n, n.input("x", ["t", 1, 32]), op_type))
    assert (placed.edges(), placed.edges("weight")) == ({("layer", 0)}, {("layer", 1)})
    assert "its states" in placed.reason("layer")


def test_gates_have_scales_of_their_own(net):
    n = net()
    assert n.place(_layer(n, n.input("x", ["t", 1, 32]))).axis("layer.w") == 1


def test_pairs_between_two_layers_stand_behind_the_first(net):
    n = net()
    first = _layer(n, n.input("x", ["t", 1, 32]), name="first")
    flat = n.node("Squeeze", first, n.weight("one", np.array([1])), name="flat")
    placed = n.place(_layer(n, flat, inputs=16, name="second"))
    assert ("flat", 0) in placed.edges()


def test_what_is_added_behind_it_is_no_part_of_its_layer(net):
    n = net()
    placed = n.place(n.node("Add", _layer(n, n.input("x", ["t", 1, 32])), n.random("b", 16), name="add"))
    assert {layer.name for layer in placed.layers} == {"layer", "add"}


@pytest.mark.parametrize(
    ("inputs", "output", "why"),
    [(8, {}, "K = 8, below 16"), (32, {"clip": 1.0}, "it clips what goes into its gates")],
)
def test_small_and_rare_ones_stay_in_float(net, inputs, output, why):
    n = net()
    placed = n.place(_layer(n, n.input("x", ["t", 1, inputs]), inputs=inputs, **output))
    assert not placed.edges() and why in placed.reason("layer")


def test_other_engines_run_them_in_float(net):
    n = net()
    placed = n.place(_layer(n, n.input("x", ["t", 1, 32])), profile="tensorrt")
    assert not placed.edges() and "in float" in placed.reason("layer")
