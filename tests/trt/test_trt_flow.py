"""Loops and conditionals, against the same loops in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.trt.networks import constant, outputs_of

import intact.trt as trt


def doubling(network: trt.INetworkDefinition) -> tuple[trt.ILoop, trt.ILayer, trt.ITensor]:
    """A loop that doubles `x` in each run: the loop, its recurrence, and the body's tensor."""
    loop = network.add_loop()
    state = loop.add_recurrence(network.add_input("x", trt.float32, (1, 3)))
    body = network.add_elementwise(state.get_output(0), state.get_output(0), trt.ElementWiseOperation.SUM)
    state.set_input(1, body.get_output(0))
    return loop, state, body.get_output(0)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_counted_loop_keeps_as_many_values_as_asked(network, log, count) -> None:
    loop, state, body = doubling(network)
    loop.add_trip_limit(constant(network, np.int32(3)), trt.TripLimit.COUNT)
    last = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0)
    every = loop.add_loop_output(body, trt.LoopOutput.CONCATENATE, 1)
    every.set_input(1, constant(network, np.int32(count)))
    network.mark_output(last.get_output(0))
    network.mark_output(every.get_output(0))
    assert every.get_output(0).shape == (1, count, 3)
    x = np.float32([[1, 2, 3]])
    ends, stacked = outputs_of(network, log, x=x)
    wanted = [x * 2 ** (i + 1) if i < 3 else x * 0 for i in range(count)]
    assert (ends == x * 8).all() and (stacked == np.stack(wanted, 1)).all()


def test_a_while_loop_stops_before_the_run_whose_truth_is_false(network, log) -> None:
    loop, state, body = doubling(network)
    flat = network.add_slice(state.get_output(0), (0, 0), (1, 1), (1, 1))
    scalar = network.add_shuffle(flat.get_output(0))
    scalar.reshape_dims = ()
    small = network.add_elementwise(
        scalar.get_output(0), constant(network, np.float32(30)), trt.ElementWiseOperation.LESS
    )
    loop.add_trip_limit(small.get_output(0), trt.TripLimit.WHILE)
    last = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0)
    every = loop.add_loop_output(body, trt.LoopOutput.CONCATENATE, 0)
    every.set_input(1, constant(network, np.int32(7)))
    network.mark_output(last.get_output(0))
    network.mark_output(every.get_output(0))
    ends, stacked = outputs_of(network, log, x=np.ones((1, 3), np.float32))
    assert (ends == 32).all()
    assert stacked[:, 0, 0].tolist() == [2, 4, 8, 16, 32, 0, 0]


@pytest.mark.parametrize("reverse", [False, True])
def test_an_iterator_gives_slices_from_either_end(network, log, reverse) -> None:
    x = network.add_input("x", trt.float32, (2, 4))
    loop = network.add_loop()
    loop.add_trip_limit(constant(network, np.int32(4)), trt.TripLimit.COUNT)
    slices = loop.add_iterator(x, 1, reverse)
    state = loop.add_recurrence(constant(network, np.zeros(2, np.float32)))
    total = network.add_elementwise(state.get_output(0), slices.get_output(0), trt.ElementWiseOperation.SUM)
    state.set_input(1, total.get_output(0))
    for kind in (trt.LoopOutput.CONCATENATE, trt.LoopOutput.REVERSE):
        out = loop.add_loop_output(total.get_output(0), kind, 0)
        out.set_input(1, constant(network, np.int32(4)))
        network.mark_output(out.get_output(0))
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    forward, backward = outputs_of(network, log, x=data)
    wanted = np.cumsum(data[:, ::-1] if reverse else data, 1).T
    assert (forward == wanted).all() and (backward == wanted[::-1]).all()


def test_a_loop_in_a_loop(network, log) -> None:
    outer, state, _ = doubling(network)
    outer.add_trip_limit(constant(network, np.int32(2)), trt.TripLimit.COUNT)
    inner = network.add_loop()
    inner.add_trip_limit(constant(network, np.int32(3)), trt.TripLimit.COUNT)
    carried = inner.add_recurrence(state.get_output(0))
    more = network.add_elementwise(
        carried.get_output(0), constant(network, np.float32([[1]])), trt.ElementWiseOperation.SUM
    )
    carried.set_input(1, more.get_output(0))
    ended = inner.add_loop_output(carried.get_output(0), trt.LoopOutput.LAST_VALUE, 0)
    twice = network.add_elementwise(ended.get_output(0), ended.get_output(0), trt.ElementWiseOperation.SUM)
    state.set_input(1, twice.get_output(0))
    last = outer.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0)
    network.mark_output(last.get_output(0))
    (ends,) = outputs_of(network, log, x=np.float32([[0, 1, 2]]))
    assert ends.tolist() == [[18, 22, 26]]  # x -> 2 (x + 3), twice


def test_a_loop_without_a_limit_or_a_next_value_is_refused(network, log) -> None:
    loop, state, _ = doubling(network)
    last = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0)
    network.mark_output(last.get_output(0))
    builder = trt.Builder(log)
    assert builder.build_engine(network, builder.create_builder_config()) is None
    assert "has no trip limit" in log.of("ERROR")[-1]


@pytest.mark.parametrize("positive", [True, False])
def test_a_conditional_hands_on_one_branch(network, log, positive) -> None:
    x = network.add_input("x", trt.float32, (1, 3))
    total = network.add_reduce(x, trt.ReduceOperation.SUM, 3, False)
    zero = constant(network, np.float32(0))
    holds = network.add_elementwise(total.get_output(0), zero, trt.ElementWiseOperation.GREATER)
    choice = network.add_if_conditional()
    choice.set_condition(holds.get_output(0))
    inside = choice.add_input(x).get_output(0)
    twice = network.add_elementwise(inside, inside, trt.ElementWiseOperation.SUM).get_output(0)
    out = choice.add_output(twice, network.add_identity(inside).get_output(0))
    network.mark_output(out.get_output(0))
    data = np.float32([[1, 2, 3]]) * (1 if positive else -1)
    assert (outputs_of(network, log, x=data)[0] == data * (2 if positive else 1)).all()
