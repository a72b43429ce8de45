"""Operators that compute in floats, element by element or along an axis, as steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.functions import function_of
from intact.engine.lower.base.tables import lower_table
from intact.engine.lower.rules.moves.moves import Rule
from intact.engine.steps import Binary, Clip, Dim, Function, LayerNorm, Reduce, Reshape, Softmax
from intact.graph import Node, Value, ops

_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}


def lower_softmax(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """A Softmax; the Add of a mask in front of it, if it is among `nodes`, is part of it.

    Raises:
        NoMatch: The mask has another rank than the scores, or they are a constant.
    """
    node = nodes[-1]
    x, mask = node.inputs[0], ""
    for add in nodes[:-1]:
        a, b = add.inputs
        fixed = a in builder.constants
        x, other = (a, b) if b in builder.constants or (not fixed and _size(a) >= _size(b)) else (b, a)
        if dims_of(add.outputs[0]) != (dims_of(x) if x is not None else ()):
            raise NoMatch("its mask is larger than its scores")
        mask = builder.real(other) if other not in builder.constants else builder.either(other)
    source = builder.made(x)
    rank = len(builder.tensors[source].shape)
    output = builder.output(node.outputs[0])
    low = high = None
    if output.grid is not None:  # a softmax lies in [0, 1]
        low, high = numerics.activation_bounds(0.0, 1.0, *output.grid.affine, output.grid.spec)
    y = builder.write(output, node.outputs[0], low, high)
    axis = ops.Softmax.of(node).axis % rank
    done = tuple(n.name or "" for n in nodes)
    builder.add(Softmax(node.name or "", done, source, y, axis, 1.0, mask), *nodes)


def _size(value: Value | None) -> int:
    return len(value.shape) if value is not None and value.shape is not None else 0


def lower_layer_norm(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """A LayerNormalization; the Add in front of it, if among `nodes`, is its residual. The axes that it spans
    are one, between Reshapes.

    Raises:
        NoMatch: It has other outputs or parameters than kernels know, or spans axes whose size is not known.
    """
    node = nodes[-1]
    x, residual = node.inputs[0], ""
    for add in nodes[:-1]:
        if dims_of(_some(add.inputs[0])) != dims_of(_some(add.inputs[1])):
            raise NoMatch("the Add before it broadcasts")
        if any(v in builder.constants for v in add.inputs):
            raise NoMatch("the Add before it adds a constant")
        x, residual = add.inputs[0], builder.either(add.inputs[1])
    source = builder.made(x)
    shape, said = builder.tensors[source].shape, ops.LayerNormalization.of(node)
    before, spanned = shape[: said.axis % len(shape)], shape[said.axis % len(shape) :]
    sizes = [n for n in spanned if isinstance(n, int)]
    if len(spanned) > 1 and len(sizes) < len(spanned):
        raise NoMatch("it spans axes whose sizes are not known")
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        raise NoMatch("its mean or deviation is read")
    weight, bias = (_row(builder, node, index, sizes) for index in (1, 2))
    weight, bias = _as_long(builder, weight, bias, spanned[-1])
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    who, into = (node.name or "", tuple(n.name or "" for n in nodes)), y
    if len(spanned) > 1:
        rows = (*(before or (1,)), prod(sizes))
        source, residual = (_flat(builder, who, name, rows) if name else "" for name in (source, residual))
        into = builder.scratch(f"{y}.rows", builder.tensors[y].dtype, rows, builder.tensors[y].codes)
    builder.add(LayerNorm(*who, source, into, weight, bias, said.epsilon, residual), *nodes)
    if into != y:
        builder.add(Reshape(*who, into, y))


def _as_long(builder: PlanBuilder, weight: str, bias: str, size: Dim) -> tuple[str, str]:
    """Weight and bias with a number for each element, where one of them is for all.

    Raises:
        NoMatch: Nobody knows how many there are.
    """
    lengths = [builder.arrays[name].size for name in (weight, bias) if name]
    if set(lengths) <= {size} or (len(set(lengths)) <= 1 and lengths[0] != 1):
        return weight, bias
    length = size if isinstance(size, int) else max(lengths)
    if length == 1:
        raise NoMatch("its weight and bias are one number for a row of unknown length")

    def long(name: str) -> str:
        if not name or builder.arrays[name].size == length:
            return name
        return builder.hold(f"{name}.row", np.full(length, builder.arrays[name].reshape(()), np.float32))

    if any(one not in (1, length) for one in lengths):
        return weight, bias
    return long(weight), long(bias)


def _flat(builder: PlanBuilder, who: tuple[str, tuple[str, ...]], x: str, rows: tuple[Dim, ...]) -> str:
    tensor = builder.tensors[x]
    flat = builder.scratch(f"{x}.rows", tensor.dtype, rows, tensor.codes)
    builder.add(Reshape(*who, x, flat))
    return flat


def _some(value: Value | None) -> Value:
    assert value is not None, "both operands of an Add are there"
    return value


def _row(builder: PlanBuilder, node: Node, index: int, sizes: Sequence[int]) -> str:
    """A weight or bias of all elements that are normalized together, as one vector; "" for none."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return ""
    array = builder.constant(value, "its weight or bias")
    if array.dtype != np.float32:
        raise NoMatch("its weight or bias is not float32")
    if len(sizes) > 1:
        try:
            row = np.broadcast_to(array, sizes).reshape(-1)
        except ValueError:
            raise NoMatch("its weight or bias has another shape than what it normalizes") from None
        return builder.hold(f"{node.name}.{value.name}.row", row)
    if array.ndim != 1:
        raise NoMatch("its weight or bias is no vector")
    return builder.hold(value.name or "", array)


def lower_function(
    builder: PlanBuilder, nodes: Sequence[Node], label: str, entry: Value, output: Value
) -> None:
    """`nodes`, which compute the function that placement calls `label`: a table of codes, or in floats.

    Raises:
        NoMatch: It is neither.
    """
    if builder.codes(entry) is not None and builder.asked(output) is not None:
        lower_table(builder, nodes, entry, output, function_of(nodes, label) or "")
        return
    name = function_of(nodes, label)
    if name is None:
        raise NoMatch(f"no kernel computes {label} in float")
    x = builder.either(entry)
    y = builder.write(builder.output(output), output)
    done = tuple(n.name or "" for n in nodes)
    builder.add(Function(nodes[0].name or "", done, x, y, name), *nodes)


def _function(builder: PlanBuilder, node: Node) -> None:
    variable = [v for v in node.inputs if v is not None and v not in builder.constants]
    if len(set(variable)) != 1:
        raise NoMatch("it reads more than one tensor")
    lower_function(builder, [node], ops.display_name(node), variable[0], node.outputs[0])


def _binary(builder: PlanBuilder, node: Node) -> None:
    a, b = (builder.either(value) for value in node.inputs)
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    builder.add(Binary(node.name or "", (node.name or "",), _BINARY[node.op_type], a, b, y), node)


def _extreme(builder: PlanBuilder, node: Node) -> None:
    """Max or Min of any number of tensors, two by two."""
    value, name = node.outputs[0], node.name or ""
    operands = [builder.either(v) for v in node.inputs]
    if len(operands) < 2:
        raise NoMatch("it compares nothing")
    made = operands[0]
    for i, other in enumerate(operands[1:], 2):
        last = i == len(operands)
        y = builder.write(builder.output(value), value) if last else _between(builder, value, i)
        builder.add(Binary(name, (name,), node.op_type.lower(), made, other, y), *[node] * last)
        made = y


def _between(builder: PlanBuilder, value: Value, index: int) -> str:
    return builder.scratch(f"{value.name}.{index}", "float32", dims_of(value))


def _clip(builder: PlanBuilder, node: Node) -> None:
    """Clip by constants in one step, by anything else in one for each end."""
    value, who = node.outputs[0], (node.name or "", (node.name or "",))
    low, high = (node.inputs[i] if i < len(node.inputs) else None for i in (1, 2))
    source = builder.either(node.inputs[0])
    if all(end is None or end in builder.constants for end in (low, high)):
        ends = _end(builder, low, -np.inf), _end(builder, high, np.inf)
        y = builder.write(builder.output(value), value)
        builder.add(Clip(*who, source, y, *ends), node)
        return
    for function, end in (("max", low), ("min", high)):
        if end is None:
            continue
        last = function == "min" or high is None
        y = builder.write(builder.output(value), value) if last else _between(builder, value, 1)
        builder.add(Binary(*who, function, source, builder.either(end), y), *[node] * last)
        source = y


def _end(builder: PlanBuilder, value: Value | None, nothing: float) -> float | None:
    """A constant bound; None for one that bounds nothing."""
    array = (
        builder.constant(value, "an end of Clip") if value is not None else np.array([nothing], np.float32)
    )
    end = float(array.reshape(-1)[0]) if array.dtype == np.float32 and array.size == 1 else np.nan
    if np.isnan(end) or end == -nothing:
        raise NoMatch("an end of Clip leaves no number")
    return None if end == nothing else end


def _slope(builder: PlanBuilder, node: Node) -> None:
    """LeakyRelu and PRelu."""
    value, name = node.outputs[0], node.name or ""
    x = builder.either(node.inputs[0])
    if node.op_type == "PRelu":
        slope = builder.either(node.inputs[1])
    else:
        slope = _number(builder, node, "slope", ops.LeakyRelu.of(node).alpha)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(name, (name,), "slope", x, slope, y), node)


def _number(builder: PlanBuilder, node: Node, key: str, number: float) -> str:
    """A constant without axes: a tensor that has none keeps none."""
    return builder.hold(f"{node.name}.{key}", np.array(number, np.float32))


def _hard_sigmoid(builder: PlanBuilder, node: Node) -> None:
    """HardSigmoid of any slope: clip(alpha * x + beta, 0, 1)."""
    said, value, name = ops.HardSigmoid.of(node), node.outputs[0], node.name or ""
    who, x = (name, (name,)), builder.either(node.inputs[0])
    alpha, beta = _number(builder, node, "alpha", said.alpha), _number(builder, node, "beta", said.beta)
    scaled, line = _between(builder, value, 1), _between(builder, value, 2)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(*who, "mul", x, alpha, scaled))
    builder.add(Binary(*who, "add", scaled, beta, line))
    builder.add(Clip(*who, line, y, 0.0, 1.0), node)


def _with_number(function: str, number: float, *, first: bool = False) -> Rule:
    """A function of one tensor and a number, which comes first or second."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        name, x = node.name or "", builder.either(node.inputs[0])
        held = _number(builder, node, function, number)
        y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
        a, b = (held, x) if first else (x, held)
        builder.add(Binary(name, (name,), function, a, b, y), node)

    return rule


def _power(builder: PlanBuilder, node: Node) -> None:
    """Pow by a constant that means a product, a root or a quotient: each is rounded once."""
    exponent = builder.constant(node.inputs[1], "its exponent")
    rule = _POWERS.get(float(exponent.reshape(-1)[0])) if exponent.size == 1 else None
    if rule is None or exponent.ndim > len(dims_of(_some(node.inputs[0]))):
        raise NoMatch("its exponent is none of 2, 1/2 and -1")
    rule(builder, node)


def _square(builder: PlanBuilder, node: Node) -> None:
    name, x = node.name or "", builder.either(node.inputs[0])
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    builder.add(Binary(name, (name,), "mul", x, x, y), node)


def _root(builder: PlanBuilder, node: Node) -> None:
    name, x = node.name or "", builder.either(node.inputs[0])
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    builder.add(Function(name, (name,), x, y, "sqrt"), node)


_POWERS: dict[float, Rule] = {2.0: _square, 0.5: _root, -1.0: _with_number("div", 1.0, first=True)}


def _magnitude(builder: PlanBuilder, node: Node) -> None:
    """Abs: the larger of a number and its negative, less the sign that 0 may have."""
    value, name = node.outputs[0], node.name or ""
    who, x = (name, (name,)), builder.either(node.inputs[0])
    minus, zero = _number(builder, node, "minus", -1.0), _number(builder, node, "zero", 0.0)
    negative, larger = _between(builder, value, 1), _between(builder, value, 2)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(*who, "mul", x, minus, negative))
    builder.add(Binary(*who, "max", negative, x, larger))
    builder.add(Binary(*who, "add", larger, zero, y), node)


_REDUCTIONS = {
    "GlobalAveragePool": "mean", "GlobalMaxPool": "max", "ReduceMax": "max", "ReduceMean": "mean",
    "ReduceMin": "min", "ReduceSum": "sum",
}  # fmt: skip


def _reduce(builder: PlanBuilder, node: Node) -> None:
    """One number for the floats along any axes."""
    value, source = node.outputs[0], builder.either(node.inputs[0])
    rank = len(builder.tensors[source].shape)
    axes: tuple[int, ...] = tuple(range(2, rank))
    keepdims = True
    if node.op_type.startswith("Reduce"):
        said = ops.Reduction.of(node)
        keepdims = bool(said.keepdims)
        given = said.axes_of(node, builder.constants)
        if given is None:
            raise NoMatch("its axes is not a constant")
        everything = () if said.noop_with_empty_axes else range(rank)
        axes = tuple(sorted({axis % rank for axis in given} or everything))
    y = builder.write(builder.output(value), value)
    who = node.name or "", (node.name or "",)
    builder.add(Reduce(*who, source, y, _REDUCTIONS[node.op_type], axes, keepdims), node)


def _softmax(builder: PlanBuilder, node: Node) -> None:
    lower_softmax(builder, [node])


def _layer_norm(builder: PlanBuilder, node: Node) -> None:
    lower_layer_norm(builder, [node])


REALS: dict[str, list[Rule]] = {
    **{op_type: [_function] for op_type in sorted(ops.WITH_CURVE)},
    **{op_type: [_function, _binary] for op_type in _BINARY},
    "Abs": [_function, _magnitude],
    "Clip": [_function, _clip],
    "HardSigmoid": [_function, _hard_sigmoid],
    **{op_type: [_reduce] for op_type in _REDUCTIONS},
    "LayerNormalization": [_layer_norm],
    "Max": [_function, _extreme],
    "Min": [_function, _extreme],
    **{op_type: [_function, _slope] for op_type in ("LeakyRelu", "PRelu")},
    "Neg": [_function, _with_number("mul", -1.0)],
    "Pow": [_function, _power],
    "Reciprocal": [_function, _with_number("div", 1.0, first=True)],
    "Softmax": [_softmax],
}
"""Operator -> the ways in which it becomes a step, tried in this order."""
