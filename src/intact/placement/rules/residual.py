"""Rule for residual Adds: only the identity branch gets a pair, as the other branch's layer fuses the Add."""

from __future__ import annotations

from intact.graph import Value
from intact.placement.placement_graph import Op, View, shape_of
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return both operands, of which `_wants` chooses one.

    Before: ``Conv -> Add <- x``, ``Add -> Relu``.  After: ``Conv -> Add <- Q/DQ(x)``: Conv+Add+Relu.

    Guards: two activations of one shape.
    """
    if any(map(view.is_constant, op.inputs)):
        return Kept("one operand is a constant")
    if op.inputs[0] is op.inputs[1]:
        return Kept("both operands are the same tensor")
    a, b = map(shape_of, op.inputs)
    if (
        a is not None
        and b is not None
        and (len(a) != len(b) or any(m != n for m, n in zip(a, b, strict=True)))
    ):
        return Kept("its operands have different shapes")
    return 0, 1


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    fused = [
        i for i in inputs if op.inputs[i] in ctx.stems and ctx.view.only_reader(_value(op, i)) == (op, i)
    ]
    if not fused:
        return Kept("no layer in int8 ends in it alone")
    if not ctx.has_int8_reader(ctx.behind_activation(op.outputs[0])):
        return Kept("its output is read in float: an int8 identity branch would only add error")
    main = fused[0] if len(fused) == 1 else _longer_branch(ctx.view, op)
    root = ctx.stems[_value(op, main)]
    return Int8((1 - main,), f"identity branch of {op}, which {root} takes in")


def _value(op: Op, index: int) -> Value:
    value = op.inputs[index]
    assert value is not None
    return value


def _longer_branch(view: View, op: Op) -> int:
    """Return the input with the longer way from where both branches part; the shorter one is the residual.

    A downsampling block: ``x -> Conv -> Conv -> Add <- Conv <- x`` fuses the second Conv of the left side.
    """
    a, b = (_distances(view, _value(op, i)) for i in (0, 1))
    meets = [value for value in a if value in b]
    if not meets:
        return 0 if max(a.values()) >= max(b.values()) else 1
    parting = min(meets, key=lambda value: (max(a[value], b[value]), a[value]))
    return 0 if a[parting] >= b[parting] else 1


def _distances(view: View, value: Value) -> dict[Value, int]:
    """Return the number of nodes from each value above `value`, on the shortest way."""
    distances, front = {value: 0}, [value]
    while front:
        above: list[Value] = []
        for below in front:
            producer = view.producer(below)
            for source in producer.inputs if producer is not None else ():
                if source is not None and source not in distances and not view.is_constant(source):
                    distances[source] = distances[below] + 1
                    above.append(source)
        front = above
    return distances


RULE = Rule("residual", frozenset({"Add"}), "joins", _reads, _wants)
