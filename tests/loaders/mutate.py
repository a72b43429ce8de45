"""Other files out of good ones: bytes, JSON values, fields of protobuf messages, lines of text.

Every function takes a `random.Random` and gives the same for the same state of it.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    16,
    17,
    21,
    25,
    64,
    127,
    128,
    255,
    256,
    1000,
    30_000,
    65535,
    65536,
    2**20,
    2**24,
    2**26,
    2**30,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**53,
    2**62,
    2**63 - 1,
    -2,
    -5,
    -128,
    -(2**31),
    -(2**63),
)
REALS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e-8,
    1e-30,
    1e-38,
    1e-45,
    1e30,
    3e38,
    -3e38,
    1e300,
    5e-324,
    2.0**31,
    float("inf"),
    float("-inf"),
    float("nan"),
)
WORDS = (
    "",
    "x",
    "y",
    "n",
    "codes",
    "float32",
    "int8",
    "uint8",
    "int32",
    "int64",
    "bool",
    "float64",
    "SAME_UPPER",
    "NOTSET",
    "VALID",
    "constant",
    "edge",
    "linear",
    "nearest",
    "com.microsoft",
    "ai.onnx",
    "../x",
    "/etc/passwd",
    "\0",
    "\x1b[31m",
    "a" * 300,
    "é",
    "\ud800",
    "0",
    "-1",
    "nan",
    "histogram",
    "range",
)
OPERATORS = (
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Conv",
    "ConvTranspose",
    "DepthToSpace",
    "DequantizeLinear",
    "Dropout",
    "Elu",
    "Expand",
    "Flatten",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "HardSigmoid",
    "Identity",
    "If",
    "LayerNormalization",
    "LeakyRelu",
    "Loop",
    "MatMul",
    "MatMulInteger",
    "MaxPool",
    "Mul",
    "OneHot",
    "PRelu",
    "Pad",
    "Pow",
    "QLinearConv",
    "QuantizeLinear",
    "Range",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Resize",
    "Shape",
    "Sigmoid",
    "Size",
    "Slice",
    "Softmax",
    "Split",
    "Squeeze",
    "Sub",
    "Sum",
    "Tile",
    "TopK",
    "Transpose",
    "Unsqueeze",
    "Where",
)


def data(dice: random.Random, inputs: bytes) -> bytes:
    """Bytes cut, changed, doubled or moved."""
    result = bytearray(inputs)
    if dice.random() < 0.15:
        return bytes(result[: dice.randrange(len(result) + 1)])
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16))):
        if not result:
            break
        at = dice.randrange(len(result))
        act = dice.randrange(6)
        if act == 0:
            result[at] ^= 1 << dice.randrange(8)
        elif act == 1:
            result[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif act == 2:
            width = dice.choice((2, 4, 8))
            number = dice.choice(INTEGERS) % (1 << (8 * width))
            result[at : at + width] = number.to_bytes(width, dice.choice(("little", "big")))
        elif act == 3:
            del result[at : at + dice.choice((1, 2, 4, 16))]
        elif act == 4:
            result[at:at] = result[at : at + dice.choice((1, 4, 16))]
        else:
            other = dice.randrange(len(result))
            result[at : at + 8], result[other : other + 8] = result[other : other + 8], result[at : at + 8]
    return bytes(result)


def text(dice: random.Random, inputs: bytes, tokens: tuple[str, ...]) -> bytes:
    """Lines changed: tokens put in, lines doubled, moved, left out; or bytes."""
    if dice.random() < 0.3:
        return data(dice, inputs)
    lines = inputs.split(b"\n")
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(len(lines))
        act = dice.randrange(5)
        if act == 0:
            place = dice.randrange(len(lines[at]) + 1)
            token = dice.choice((*tokens, *WORDS)).encode(errors="surrogatepass")
            lines[at] = lines[at][:place] + token + lines[at][place:]
        elif act == 1:
            lines.insert(at, lines[dice.randrange(len(lines))])
        elif act == 2:
            lines[at] = data(dice, lines[at])
        elif act == 3 and len(lines) > 1:
            del lines[at]
        else:
            other = dice.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def json_places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value below `value`."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        items = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for key, inner in items:
            places.append((item, key))
            waiting.append(inner)
    return places


def json_value(dice: random.Random, value: Any) -> None:
    """Change one to three values below `value`, in place: mostly to others of their type."""
    for _ in range(dice.choice((1, 1, 2, 3))):
        places = json_places(value)
        if not places:
            return
        holder, key = dice.choice(places)
        old, act = holder[key], dice.random()
        if act < 0.08:
            del holder[key]
        elif act < 0.16:
            holder[key] = dice.choice((None, [], {}, "", 0, 1.5, True, [[]], [old], {"x": old}, -1, [0] * 5))
        elif act < 0.24:
            other, its = dice.choice(places)
            if other is not holder or its != key:
                holder[key] = copy.deepcopy(other[its]) if not _holds(other[its], holder) else None
        elif act < 0.3 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(old))
        else:
            holder[key] = _other(dice, old, places)


def _holds(value: Any, holder: Any) -> bool:
    return value is holder or any(container is holder for container, _ in json_places(value))


def _other(dice: random.Random, old: Any, places: list[tuple[Any, Any]]) -> Any:
    """Another value of the type of `old`."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return dice.choice((*INTEGERS, old + 1, old - 1, old * 2))
    if isinstance(old, float):
        return dice.choice((*REALS, old * 2, -old))
    if isinstance(old, str):
        words = [holder[key] for holder, key in places if isinstance(holder[key], str)]
        return dice.choice(WORDS) if dice.random() < 0.3 else dice.choice(words)
    if isinstance(old, list):
        return old[: dice.randrange(len(old) + 1)] if dice.random() < 0.5 else [*old, *old]
    return dice.choice((*INTEGERS, *REALS)) if old is None else {}


def message(dice: random.Random, inputs: Message) -> None:
    """Change fields somewhere in a protobuf message, in place."""
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        messages = _messages(inputs)
        item = dice.choice(messages)
        field = dice.choice(item.DESCRIPTOR.fields)
        if dice.random() < 0.7 and (there := [result for result, _ in item.ListFields()]):
            field = dice.choice(there)
        try:
            _change(dice, item, field, messages)
        except (ValueError, TypeError, UnicodeError):
            item.ClearField(field.name)


def _messages(top: Message) -> list[Message]:
    result, waiting = [], [top]
    while waiting:
        item = waiting.pop()
        result.append(item)
        for field, value in item.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                waiting.extend(value if _many(field) else [value])
    return result


def _many(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _change(dice: random.Random, item: Message, field: FieldDescriptor, messages: list[Message]) -> None:
    act = dice.random()
    if act < 0.12:
        item.ClearField(field.name)
        return
    value = getattr(item, field.name)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        _graft(dice, value, field, messages)
    elif _many(field):
        _list(dice, value, field)
    else:
        setattr(item, field.name, _scalar(dice, field, value))


def _graft(dice: random.Random, value: Any, field: FieldDescriptor, messages: list[Message]) -> None:
    """Put a copy of another message of the type there, or an empty one."""
    kin = [m for m in messages if m.DESCRIPTOR is field.message_type and m.ByteSize() < 20_000]
    into = value.add() if _many(field) and (not value or dice.random() < 0.4) else value
    if _many(field) and into is value:
        if dice.random() < 0.5:
            del value[dice.randrange(len(value))]
            return
        into = value[dice.randrange(len(value))]
    if kin and dice.random() < 0.8:
        into.CopyFrom(copy.deepcopy(dice.choice(kin)))
    else:
        into.SetInParent()


def _list(dice: random.Random, value: Any, field: FieldDescriptor) -> None:
    act = dice.randrange(4)
    if act == 0 and len(value):
        del value[dice.randrange(len(value))]
    elif act == 1 and len(value):
        at = dice.randrange(len(value))
        value[at] = _scalar(dice, field, value[at])
    elif act == 2:
        value.extend([_scalar(dice, field, value[0] if len(value) else None)] * dice.choice((1, 2, 5)))
    else:
        value.append(_scalar(dice, field, None))


def _scalar(dice: random.Random, field: FieldDescriptor, old: Any) -> Any:
    kind = field.cpp_type
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return dice.choice(REALS)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return dice.choice(range(32))
    if kind != FieldDescriptor.CPPTYPE_STRING:
        return dice.choice((*INTEGERS, *((old + 1, old - 1) if isinstance(old, int) else ())))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return data(dice, old) if old else dice.choice(WORDS).encode(errors="surrogatepass")
    return dice.choice((*OPERATORS, *WORDS, old or ""))
