"""Sound models of every operator with one number that no sound file has: an attribute, a size, a constant.

Mutated bytes and random nodes seldom get so far: here all but one number is right.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper
from tests.graph.runtime_operators import CASES, model_of

WHOLE = (0, -1, 1, -2, 3, 99, 2**15, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
REALS = (0.0, -1.0, 1e-45, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (b"", b"?", b"NONE", b"\xff", b"relu" * 40)
SIZES = (0, -1, 1, 7, 2**31, 2**40, 2**62)
_LONG = ("steps", "trip_count", "max_trip_count")
"""Inputs that say how often a loop runs: as often as it is told is no fault."""
_A = AttributeProto


@cache
def seeds() -> list[bytes]:
    """Models of ONNX Runtime's operators, and ONNX's own examples of its operators."""
    own = [
        model_of(case, place)[0].SerializeToString() for case in CASES.values() for place in ("main", "Loop")
    ]
    folder = Path(onnx.__file__).parent / "backend/test/data/node"
    return own * 4 + [path.read_bytes() for path in sorted(folder.glob("*/model.onnx"))]


def change(dice: random.Random, base: bytes) -> bytes:
    """Return the model with one or two such numbers."""
    model = onnx.ModelProto.FromString(base)
    for _ in range(dice.choice((1, 1, 1, 2))):
        dice.choice((_attribute, _attribute, _attribute, _size, _constant))(dice, model)
    return bytes(model.SerializeToString())


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == _A.GRAPH:
                yield from _nodes(attribute.g)


def _attribute(dice: random.Random, model: onnx.ModelProto) -> None:
    """Set an attribute that the operator has, or that the node has, to an extreme of some type."""
    nodes = list(_nodes(model.graph))
    if not nodes:
        return
    node = dice.choice(nodes)
    types = {a.name: a.type for a in node.attribute if a.type not in (_A.GRAPH, _A.GRAPHS)} | _fields(node)
    if not types:
        return
    name = dice.choice(sorted(types))
    kind = types[name] if dice.random() < 0.85 else dice.choice((_A.INT, _A.FLOAT, _A.INTS, _A.STRING))
    other_attributes = [a for a in node.attribute if a.name != name]
    old = next((list(a.ints) for a in node.attribute if a.name == name and a.type == _A.INTS), [1])
    value = _value(dice, kind, old)
    del node.attribute[:]
    node.attribute.extend(
        [*other_attributes, *([] if value is None else [helper.make_attribute(name, value, attr_type=kind)])]
    )


def _fields(node: onnx.NodeProto) -> dict[str, int]:
    """Return the attributes that the book of operators, or ONNX's schema, knows."""
    import onnx_ir as ir

    from intact.graph import ops

    if any(a.type == _A.GRAPH for a in node.attribute):
        return {}
    record = ops.record_of(ir.from_proto(node))
    kinds = {"int": _A.INT, "float": _A.FLOAT, "str": _A.STRING, "tuple[int, ...]": _A.INTS}
    fields = {} if record is None else record.__dataclass_fields__
    types = {name: str(each.type).partition(" |")[0] for name, each in fields.items()}
    return {name: kinds[text] for name, text in types.items() if text in kinds}


def _value(dice: random.Random, kind: int, old: list[int]) -> Any:
    if kind == _A.INT:
        return dice.choice(WHOLE)
    if kind == _A.FLOAT:
        return dice.choice(REALS)
    if kind == _A.STRING:
        return dice.choice(TEXTS)
    if kind == _A.INTS:
        if dice.random() < 0.3 or not old:
            return [dice.choice(WHOLE)] * dice.choice((0, 1, 2, 5))
        at = dice.randrange(len(old))
        return [*old[:at], dice.choice(WHOLE), *old[at + 1 :]]
    if kind == _A.FLOATS:
        return [dice.choice(REALS)] * dice.choice((0, 1, 2))
    return None


def _size(dice: random.Random, model: onnx.ModelProto) -> None:
    """Change a size of an input, or its rank."""
    shaped = [
        info.type.tensor_type.shape for info in model.graph.input if info.type.tensor_type.HasField("shape")
    ]
    if not shaped:
        return
    shape = dice.choice(shaped)
    if shape.dim and dice.random() < 0.8:
        dice.choice(shape.dim).dim_value = dice.choice(SIZES)
    elif shape.dim and dice.random() < 0.5:
        del shape.dim[-1]
    else:
        shape.dim.add().dim_value = 2


def _constant(dice: random.Random, model: onnx.ModelProto) -> None:
    """Change a number of a constant, or its shape; an input becomes one."""
    if dice.random() < 0.3 or not model.graph.initializer:
        _fix_input(dice, model)
        return
    tensor = dice.choice(model.graph.initializer)
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):
        return
    if dice.random() < 0.4:
        shape = [n for n in array.shape if dice.random() < 0.7] + [dice.choice((0, 1, 3))] * dice.randrange(2)
        changed = np.resize(array, shape)
    else:
        changed = np.array(array)
        if changed.dtype.kind in "if" and changed.size:
            changed.flat[dice.randrange(changed.size)] = _number(dice, changed.dtype)
    tensor.CopyFrom(numpy_helper.from_array(changed, tensor.name))


def _fix_input(dice: random.Random, model: onnx.ModelProto) -> None:
    """Let an input of integers be a constant with extreme numbers."""
    whole = [
        info for info in model.graph.input
        if info.type.tensor_type.elem_type in (6, 7) and info.name not in _LONG
    ]  # fmt: skip
    if not whole:
        return
    info = dice.choice(whole)
    shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    array = np.array([_number(dice, dtype) for _ in range(min(int(np.prod(shape)), 64))], dtype)
    if array.size == int(np.prod(shape)):
        model.graph.initializer.append(numpy_helper.from_array(array.reshape(shape), info.name))
        model.graph.input.remove(info)


def _number(dice: random.Random, dtype: np.dtype[Any]) -> float:
    """Return an extreme number that a dtype has."""
    if dtype.kind == "f":
        return dice.choice(REALS)
    info = np.iinfo(dtype)
    return dice.choice([n for n in WHOLE if info.min <= n <= info.max])
