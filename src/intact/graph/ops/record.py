"""`Operator`, the record of one ONNX operator: attributes with types and defaults, and its properties.

A record is a frozen dataclass called as its operator. Its fields are the attributes that INTact reads; its
class variables say what is known of the operator in any node; its methods what depends on attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from types import UnionType
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph.ops import attributes

Kind = Literal[
    "convolution",  # sums of products with a window over the axes behind the channels
    "product",  # sums of products along one axis
    "move",  # the elements that come in go out, at other places
    "pool",  # one number for each place of a window
    "arithmetic",  # element by element, of several tensors
    "function",  # element by element, of one tensor
    "reduction",  # one number for the elements along some axes
    "norm",  # each element, scaled by what the elements along some axes are together
    "order",  # compares or sorts
    "recurrent",  # one step after the other, with a state
    "shape",  # sizes, and what is made or cast by them
    "control",  # runs subgraphs
    "quantizer",  # between floats and codes
    "attention",  # several products in one node
    "quantized",  # one of the others, on codes
    "compound",  # several of the others in one node
]
Look = Callable[[ir.Value | None], NDArray[Any] | None]
"""Lookup of a value's constant, or None where it depends on an input. Callers bring their own."""


@dataclass(frozen=True)
class Operator:
    """Attributes of one node, and the properties of its operator.

    Attributes:
        kind: What it does.
        domain: Where its name means this; "" for ONNX's own.
        op_type: Its name there, where its record has another one.
        data: The inputs that hold what it works on; None: all. The others are parameters: sizes, axes.
        channels: The axis of its output's channels, where it has weights for each; None: it knows none.
        keeps_all: A move that hands each element on once.
        picks: Its further outputs say which elements it picked.
        shared: It is what several operators have in common, and no operator.
        exact: Each float that it makes is a copy, or one operation as IEEE 754 rounds it: the same in every
            runtime. `is_exact` says it of a node.
        curve: What it makes of arrays and numbers in float64, element by element; None: not written down.
    """

    kind: ClassVar[Kind]
    domain: ClassVar[str] = ""
    op_type: ClassVar[str] = ""
    data: ClassVar[tuple[int, ...] | None] = (0,)
    channels: ClassVar[int | None] = None
    keeps_all: ClassVar[bool] = False
    curve: ClassVar[Callable[..., NDArray[Any]] | None] = None

    exact: ClassVar[bool] = False
    picks: ClassVar[bool] = False
    shared: ClassVar[bool] = True

    def __init_subclass__(cls, *, shared: bool = False) -> None:
        cls.shared = shared

    @classmethod
    def of(cls, node: ir.Node) -> Self:
        """Read the attributes of `node` into a record, with defaults for missing ones.

        Raises:
            FileFormatError: An attribute is of another type; names the node.
        """
        node_attributes = node.attributes
        if not node_attributes.data:
            return _defaults(cls)  # type: ignore[arg-type, return-value]  # classes are hashable
        readers = _readers(cls)  # type: ignore[arg-type]  # classes are hashable
        return cls(**{name: read(node) for name, read in readers.items() if name in node_attributes})

    @property
    def display_name(self) -> str:
        """Return the operator's name in reports, with these attributes."""
        return self.op_type or type(self).__name__

    @property
    def weight_axis(self) -> int | None:
        """The axis of its weight along which output channels lie; None where it has no weight."""
        return None

    @property
    def is_exact(self) -> bool:
        """Return whether every runtime makes the same floats with these attributes."""
        return self.exact

    def data_inputs(self, node: ir.Node) -> tuple[int, ...]:
        """Return the inputs of `node` that hold its data."""
        return tuple(range(len(node.inputs))) if self.data is None else self.data

    def computes(self, node: ir.Node, constants: Look) -> str:
        """Return why `node`, of an operator that moves data, makes new values; "" where it does not.

        Where it does not, ``Op(DQ(q)) == DQ(Op(q))`` code by code: the largest code is the largest real.
        """
        return "" if self.kind == "move" else "it computes"


_READERS: Mapping[Any, tuple[Callable[..., Any], Any]] = {
    int: (attributes.integer, 0),
    float: (attributes.floating, 0.0),
    str: (attributes.text, ""),
    tuple: (attributes.integers, ()),
    tuple[str, ...]: (attributes.texts, ()),
    tuple[float, ...]: (attributes.floatings, ()),
}


@cache
def _defaults(record: Callable[[], Operator]) -> Operator:
    """Return a record without attributes, which all nodes without any share: it never changes."""
    return record()


@cache
def _readers(record: Callable[..., Operator]) -> dict[str, Callable[[ir.Node], Any]]:
    """Return how each attribute of a record is read, by the type that its field declares."""
    assert isinstance(record, type)
    hints = get_type_hints(record)
    readers: dict[str, Callable[[ir.Node], Any]] = {}
    for field in fields(record):
        options = [option for option in get_args(hints[field.name]) if option is not type(None)]
        optional = isinstance(hints[field.name], UnionType)
        kind = options[0] if optional else hints[field.name]
        read, nothing = _READERS[kind if kind in _READERS else get_origin(kind)]
        readers[field.name] = partial(_read_attribute, read, field.name, nothing)
    return readers


def _read_attribute(read: Callable[..., Any], name: str, nothing: Any, node: ir.Node) -> Any:
    return read(node, name, nothing)
