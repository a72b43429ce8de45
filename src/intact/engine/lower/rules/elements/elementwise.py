"""Comparisons, logic, choices, casts and arithmetic of integers as steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.rules.moves.moves import Rule, has, plain, who
from intact.engine.steps import Dim, Elementwise, Fold, Reshape, Tensor
from intact.graph import Node, ops
from intact.numerics.elementwise import ELEMENTWISE, INTEGERS, takes


def _operation(name: str) -> Rule:
    """One step of all inputs."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        _write(builder, node, name, [plain(builder, value) for value in node.inputs])

    return rule


def _attributed(name_of: Callable[[Node], str]) -> Rule:
    """The same, of an operation that the attributes say."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        _operation(name_of(node))(builder, node)

    return rule


def _write(builder: PlanBuilder, node: Node, name: str, operands: Sequence[Tensor]) -> None:
    """The last step of a node."""
    made = _made(name, operands)
    y = builder.write_plain(node.outputs[0], made)
    builder.add(Elementwise(*who(node), name, tuple(x.name for x in operands), y), node)


def _made(name: str, operands: Sequence[Tensor], to: str = "") -> str:
    """The dtype of what an operation makes.

    Raises:
        NoMatch: It does not work on these.
    """
    made = to or ELEMENTWISE[name].makes or operands[-1].dtype
    if not takes(name, [x.dtype for x in operands], made):
        raise NoMatch(f"no kernel has {name} of {', '.join(x.dtype for x in operands)}")
    return made


def _step(builder: PlanBuilder, node: Node, name: str, *operands: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    """A step whose output the graph does not have."""
    y = builder.scratch(f"{node.outputs[0].name}.{name}", _made(name, operands), shape)
    builder.add(Elementwise(*who(node), name, tuple(x.name for x in operands), y))
    return builder.tensors[y]


def _extreme(name: str) -> Rule:
    """Max or Min of any number of tensors of integers, two by two."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        first, *others = (plain(builder, value) for value in node.inputs)
        if not others:
            raise NoMatch("it compares nothing")
        shape = dims_of(node.outputs[0])
        for other in others[:-1]:
            first = _step(builder, node, name, first, other, shape=shape)
        _write(builder, node, name, [first, others[-1]])

    return rule


def _bounded(builder: PlanBuilder, node: Node) -> None:
    """Clip of integers: the low end, then the high one."""
    made = plain(builder, node.inputs[0])
    if made.dtype not in INTEGERS:
        raise NoMatch(f"no kernel bounds {made.dtype}")
    given = zip(("max", "min"), (*node.inputs[1:], None, None), strict=False)
    ends = [(name, plain(builder, end)) for name, end in given if end is not None]
    if not ends:
        raise NoMatch("it bounds nothing")
    *first, (last, most) = ends
    for name, end in first:
        made = _step(builder, node, name, made, end, shape=made.shape)
    _write(builder, node, last, [made, most])


def _triangle(builder: PlanBuilder, node: Node) -> None:
    """Trilu of planes of a known size: 0 where a constant mask says so."""
    x, upper = plain(builder, node.inputs[0]), ops.Trilu.of(node).upper
    rows, columns = x.shape[-2:] if len(x.shape) > 1 else ("", "")
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NoMatch("the size of its planes is not known")
    if rows * columns > _MOST_MASK:
        raise NoMatch(f"its mask would have {rows * columns} elements")
    diagonal = int(builder.constant(node.inputs[1], "its diagonal").reshape(-1)[0]) if has(node, 1) else 0
    away = np.arange(columns)[None] - np.arange(rows)[:, None]
    mask = builder.hold(f"{node.name}.mask", away >= diagonal if upper else away <= diagonal)
    zero = builder.hold(f"{node.name}.zero", np.zeros(1, x.dtype))
    y = builder.write_plain(node.outputs[0], x.dtype)
    builder.add(Elementwise(*who(node), "where", (mask, x.name, zero), y), node)


_MOST_MASK = 2**26  # elements, a byte each


def _cast(builder: PlanBuilder, node: Node) -> None:
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    if value.dtype is None:
        raise NoMatch("nobody says what it makes")
    to = value.dtype.numpy().name
    _made("cast", [x], to)
    builder.add(Elementwise(*who(node), "cast", (x.name,), builder.write_plain(value, to)), node)


def _one_hot(builder: PlanBuilder, node: Node) -> None:
    """Where the index, of which negative ones count from the end, is the place along the new axis."""
    index, values = plain(builder, node.inputs[0]), plain(builder, node.inputs[2])
    depth = int(builder.constant(node.inputs[1], "its depth").reshape(-1)[0])
    if values.name not in builder.arrays or index.dtype not in ("int32", "int64") or depth < 1:
        raise NoMatch("its values or its depth are computed")
    shape = dims_of(node.outputs[0])
    axis = ops.OneHot.of(node).axis % len(shape)
    held = _constants(builder, node, index.dtype)
    wide = (*index.shape[:axis], 1, *index.shape[axis:])
    negative = _step(builder, node, "less", index, held("zero", 0), shape=index.shape)
    moved = _step(builder, node, "add", index, held("depth", depth), shape=index.shape)
    counted = _step(builder, node, "where", negative, moved, index, shape=index.shape)
    column = builder.scratch(f"{node.outputs[0].name}.column", index.dtype, wide)
    builder.add(Reshape(*who(node), counted.name, column))
    places = held("places", np.arange(depth).reshape(-1, *[1] * (len(shape) - axis - 1)))
    there = _step(builder, node, "equal", builder.tensors[column], places, shape=shape)
    off, on = builder.arrays[values.name].reshape(-1)
    each = _constants(builder, node, values.dtype)
    _write(builder, node, "where", [there, each("on", on), each("off", off)])


def _constants(builder: PlanBuilder, node: Node, dtype: str) -> Callable[[str, object], Tensor]:
    """What makes constants of a dtype for a node."""

    def held(name: str, numbers: object) -> Tensor:
        array = np.asarray(numbers, dtype)
        return Tensor(builder.hold(f"{node.name}.{name}", array), dtype, array.shape)

    return held


def _soft_max(builder: PlanBuilder, node: Node) -> None:
    """Softmax of floats of 64 bits, one operation after the other."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    if x.dtype != "float64" or not x.shape:
        raise NoMatch(f"no kernel has its operations of {x.dtype}")
    axis = ops.Softmax.of(node).axis % len(x.shape)
    one = tuple(1 if place == axis else size for place, size in enumerate(x.shape))

    def folded(tensor: Tensor, function: str) -> Tensor:
        y = builder.scratch(f"{value.name}.{function}", x.dtype, one)
        builder.add(Fold(*who(node), tensor.name, y, axis, function))
        return builder.tensors[y]

    less = _step(builder, node, "sub", x, folded(x, "max"), shape=x.shape)
    powers = _step(builder, node, "exp", less, shape=x.shape)
    _write(builder, node, "div", [powers, folded(powers, "sum")])


def _infinite(node: Node) -> str:
    said = ops.IsInf.of(node)
    names = {(1, 1): "is_inf", (1, 0): "is_neg_inf", (0, 1): "is_pos_inf"}
    both = int(said.detect_negative != 0), int(said.detect_positive != 0)
    if both not in names:
        raise NoMatch("it looks for nothing")
    return names[both]


ELEMENTS: dict[str, Rule] = {
    **{op_type: _operation(name) for op_type, name in {
        "Abs": "abs", "Add": "add", "And": "and", "Ceil": "ceil", "Div": "div", "Equal": "equal", "Exp":
        "exp", "Floor": "floor", "Greater": "greater", "GreaterOrEqual": "greater_or_equal", "IsNaN":
        "is_nan", "Less": "less", "LessOrEqual": "less_or_equal", "Mul": "mul", "Neg": "neg", "Not": "not",
        "Or": "or", "Round": "round", "Sub": "sub", "Where": "where", "Xor": "xor",
    }.items()},
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _bounded,
    "Softmax": _soft_max,
    "IsInf": _attributed(_infinite),
    "Max": _extreme("max"),
    "Min": _extreme("min"),
    "Mod": _attributed(lambda node: "fmod" if ops.Mod.of(node).fmod else "mod"),
    "OneHot": _one_hot,
    "Trilu": _triangle,
}  # fmt: skip
"""Operator -> how it becomes steps, where it works on numbers of a type that no other rule knows."""
