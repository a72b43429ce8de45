"""Simplify a graph before placement: drop identities, fuse bounds, norms and NaN guards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from intact.graph import (
    Constants,
    Inserter,
    Node,
    Outcome,
    Rewrite,
    Scene,
    Value,
    find_guarded_softmax,
    is_op,
    ops,
    replace,
)  # fmt: skip


def _drop_idle(node: Node, scene: Scene) -> Outcome:
    """Drop operators that do nothing at inference.

    Before: ``y = Dropout(Identity(x))``.  After: ``y = x``.

    Guards: a Dropout does not train; a Cast keeps the type; a Transpose keeps the order.
    """
    x = node.inputs[0] if node.inputs else None
    if x is None or not _IDLE[node.op_type](node, scene.constants):
        return None
    if node.outputs[0].is_graph_output() and (x.producer() is None or x.is_graph_output()):
        return None  # something must carry the output's name
    replace(node, x, scene.names)
    return f"{node.op_type} does nothing"


def _dropout(node: Node, constants: Constants) -> bool:
    mask = len(node.outputs) > 1 and bool(node.outputs[1].uses() or node.outputs[1].is_graph_output())
    if mask or ops.computes(node, constants):
        return False
    node.resize_outputs(1)
    return True


def _cast(node: Node, constants: Constants) -> bool:
    x = node.inputs[0]
    return x is not None and x.dtype is not None and int(x.dtype) == ops.Cast.of(node).to


def _transpose(node: Node, constants: Constants) -> bool:
    perm = ops.Transpose.of(node).perm
    return perm is not None and perm == tuple(range(len(perm)))


_IDLE: dict[str, Callable[[Node, Constants], bool]] = {
    "Identity": lambda node, constants: True,
    "Dropout": _dropout,
    "Cast": _cast,
    "Transpose": _transpose,
}

IDLE = Rewrite("drop what does nothing", _drop_idle, tuple(_IDLE))


def _join_bounds(node: Node, scene: Scene) -> Outcome:
    """Join bounds that follow each other.

    Before: ``Clip(Relu(x), low, high)``.  After: ``Clip(x, max(low, 0), high)``.

    Guards: constant bounds; nobody else reads the Relu.
    """
    relu = node.inputs[0].producer() if node.inputs[0] is not None else None
    if relu is None or not is_op(relu, "Relu"):
        return None
    low = node.inputs[1] if len(node.inputs) > 1 else None
    bound = scene.constants(low) if low is not None else np.zeros((), np.float32)
    y = relu.outputs[0]
    if bound is None or y.is_graph_output() or len(y.uses()) > 1 or relu.inputs[0] is None:
        return None
    least = Inserter(scene.graph, node, scene.names).constant(f"{node.name}.least", np.maximum(bound, 0))
    node.resize_inputs(max(2, len(node.inputs)))
    node.replace_input_with(1, least)
    replace(relu, relu.inputs[0], scene.names)
    return f"the bound of '{relu.name}' became one of its own"


BOUNDS = Rewrite("join bounds", _join_bounds, ("Clip",))


def _drop_nan_guard(node: Node, scene: Scene) -> Outcome:
    """Drop the guard against NaN around a Softmax.

    Before: ``QuantizeLinear(Where(test, 0, Softmax(x)))``.  After: without the Where.

    `find_guarded_softmax` recognizes this guard of rows in which nothing may be attended to. Where the output
    of the Softmax is quantized directly, no code lies below that of 0, and NaN becomes the lowest one (N11).

    Guards: one QuantizeLinear reads what is guarded, and nobody else the Softmax.
    """
    softmax = find_guarded_softmax(node, scene.constants)
    if softmax is None or not _is_quantized_alone(node, softmax):
        return None
    replace(node, softmax, scene.names)
    return "the quantizer makes 0 of a NaN"


NAN_GUARDS = Rewrite("drop NaN guards", _drop_nan_guard, ("Where",))


def _is_quantized_alone(guard: Node, softmax: Value) -> bool:
    """Return whether one quantizer alone reads the Softmax, apart from the guard's test."""
    test, guarded = guard.inputs[0], guard.outputs[0]
    if softmax.is_graph_output() or guarded.is_graph_output():
        return False
    readers = [use.node for use in guarded.uses()]
    other_readers = {use.node for use in softmax.uses()} - {guard}
    test_nodes = {test.producer()} if test is not None and len(test.uses()) == 1 else set()
    return other_readers <= test_nodes and len(readers) == 1 and is_op(readers[0], "QuantizeLinear")


def _join_norm(node: Node, scene: Scene) -> Outcome:
    """Join the nodes of a layer normalization.

    Before: ``d = x - mean(x); y = d / sqrt(mean(d * d) + e) * g + b``.  After: LayerNormalization.

    Guards: means over the last axis, whose size is known; one epsilon; the floats in between are read here
    alone.
    """
    norm = _norm(node, scene.constants)
    if norm is None:
        return None
    x, epsilon, size = norm
    last, scale, bias = _affine(node, scene.constants, size)
    insert = Inserter(scene.graph, last, scene.names)
    weight = insert.constant(f"{node.name}.scale", scale)
    offset = insert.constant(f"{node.name}.bias", bias)
    output = last.outputs[0]
    y = insert.node(
        "LayerNormalization", [x, weight, offset], f"{node.name}.layer_norm", dtype=output.dtype,
        shape=output.shape, axis=-1, epsilon=epsilon,
    )  # fmt: skip
    replace(last, y, scene.names)
    return "the nodes around it are a LayerNormalization"


NORMS = Rewrite("join norms", _join_norm, ("Div",))


def _norm(div: Node, constants: Constants) -> tuple[Value, float, int] | None:
    """Match a layer normalization that ends in `div`: return x, epsilon and the size of the axis."""
    centred, deviation = div.inputs[0], _above(div.inputs[1], "Sqrt")
    if deviation is None or centred is None:
        return None
    shifted = _above(deviation.inputs[0], "Add")
    if shifted is None:
        return None
    variance, epsilon = _with_constant(shifted, constants)
    square = _mean_of(variance, constants)
    x = _mean_shifted_source(centred, constants)
    if x is None or epsilon is None or square is None or not _is_square(square, x, constants):
        return None
    size = x.shape[-1] if x.shape is not None and len(x.shape) else None
    return (x, epsilon, size) if isinstance(size, int) else None


def _above(value: Value | None, *op_types: str) -> Node | None:
    node = value.producer() if value is not None else None
    return node if node is not None and is_op(node, *op_types) else None


def _with_constant(node: Node, constants: Constants) -> tuple[Value | None, float | None]:
    """Return the other operand, and the one number that `node` combines it with."""
    for i in (0, 1):
        array = constants(node.inputs[1 - i])
        if array is not None and array.size == 1:
            return node.inputs[i], float(array.reshape(-1)[0])
    return None, None


def _mean_of(value: Value | None, constants: Constants) -> Value | None:
    """Match a mean over the last axis, which stays with size 1; return its input."""
    node = _above(value, "ReduceMean")
    if node is None or node.inputs[0] is None or not ops.ReduceMean.of(node).keepdims:
        return None
    axes = ops.ReduceMean.of(node).axes_of(node, constants)
    rank = len(node.inputs[0].shape) if node.inputs[0].shape is not None else 0
    return node.inputs[0] if axes in ((-1,), (rank - 1,)) else None


def _mean_shifted_source(value: Value | None, constants: Constants) -> Value | None:
    """Match x less its mean: return x."""
    node = _above(value, "Sub")
    x = node.inputs[0] if node is not None else None
    return x if node is not None and _mean_of(node.inputs[1], constants) is x else None


def _is_square(value: Value, x: Value, constants: Constants) -> bool:
    """Return whether `value` is the square of x less its mean."""
    node = _above(value, "Mul", "Pow")
    if node is None or _mean_shifted_source(node.inputs[0], constants) is not x:
        return False
    if node.op_type == "Mul":
        return _mean_shifted_source(node.inputs[1], constants) is x
    array = constants(node.inputs[1])
    return array is not None and array.size == 1 and float(array.reshape(-1)[0]) == 2


_Vector = NDArray[np.float32]


def _affine(div: Node, constants: Constants, size: int) -> tuple[Node, _Vector, _Vector]:
    """Return the last node of the norm, its scale and its bias."""
    parts, last = [np.ones(size, np.float32), np.zeros(size, np.float32)], div
    for i, op_type in enumerate(("Mul", "Add")):
        uses = list(last.outputs[0].uses())
        node = uses[0].node if len(uses) == 1 and not last.outputs[0].is_graph_output() else None
        if node is None or not is_op(node, op_type):
            continue
        array = constants(node.inputs[1 - uses[0].idx])
        if array is None or array.dtype != np.float32 or array.size not in (1, size):
            break
        if array.size > 1 and array.shape[-1] != size:
            break
        parts[i] = np.broadcast_to(array.reshape(-1), (size,)).copy()
        last = node
    return last, parts[0], parts[1]
