"""Operators of the user's own: registered by name, with a Python body, in floats or in codes.

A body in floats gets NumPy arrays and returns one, or a tuple of them. A body in codes gets `Quantized`
inputs, the grids of its outputs as `outputs`, and returns codes: such an operator takes part in an int8
subgraph, with no dequantize before it and no quantize behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError

Shape = tuple[int | str, ...]
Shapes = Callable[..., Any]
_NAME = re.compile(r"[\w.]+::\w+")


@dataclass(frozen=True)
class Quantized:
    """A tensor of codes as a body sees it.

    Attributes:
        codes: int8 or uint8.
        scale: Real size of one step.
        zero_point: The code that means 0.0.
    """

    codes: NDArray[Any]
    scale: np.float32
    zero_point: int


@dataclass(frozen=True)
class OutputGrid:
    """Grid of the codes that a body writes.

    Attributes:
        scale, zero_point: As of `Quantized`.
        dtype: Of the codes.
        low, high: The least and the largest code.
    """

    scale: np.float32
    zero_point: int
    dtype: np.dtype[Any]
    low: int
    high: int


@dataclass(frozen=True)
class Operator:
    """A registered operator.

    Attributes:
        name: "domain::Name".
        body: Computes it.
        shapes: Shapes of the outputs from those of the inputs, one argument for each input.
        codes: Whether the body is in codes.
        outputs: Number of outputs.
        defaults: Attributes that nodes may leave out, with their values.
    """

    name: str
    body: Callable[..., Any]
    shapes: Shapes
    codes: bool
    outputs: int
    defaults: Mapping[str, Any]

    def output_shapes(self, inputs: Sequence[Shape]) -> list[Shape]:
        """Return the shapes of the operator's outputs."""
        shapes = self.shapes(*inputs)
        return [tuple(shapes)] if self.outputs == 1 else [tuple(shape) for shape in shapes]


_OPERATORS: dict[str, Operator] = {}


def register(
    name: str,
    body: Callable[..., Any],
    *,
    shapes: Shapes | None = None,
    codes: bool = False,
    outputs: int = 1,
    dtypes: Sequence[str] | None = None,
) -> Operator:
    """Make an operator known, in place of one of that name.

    Args:
        name: "domain::Name": nodes of that domain with that operator type are it.
        body: Positional arguments are the inputs; keyword arguments with defaults are the attributes; a body
            in codes has a keyword argument `outputs` too, a tuple of `OutputGrid`.
        shapes: Shapes of the outputs from those of the inputs; None: every output is as the first input.
        codes: Whether the body reads and makes codes.
        outputs: Number of outputs.
        dtypes: Element types of the outputs; None: the first input's.
    Raises:
        QuantValueError: The name has no domain.
    """
    if not _NAME.fullmatch(name):
        raise QuantValueError("operator", repr(name), "'domain::Name'", "give it a domain of your own")
    keywords = signature(body).parameters.values()
    defaults = {
        p.name: p.default
        for p in keywords
        if p.kind is Parameter.KEYWORD_ONLY and p.default is not Parameter.empty and p.name != "outputs"
    }
    same = (lambda *s: s[0]) if outputs == 1 else (lambda *s: [s[0]] * outputs)
    operator = Operator(name, body, shapes or same, codes, outputs, defaults)
    domain, _, op_type = name.partition("::")
    from intact.graph import register_operator  # plans run without ONNX

    register_operator(domain, op_type, outputs, defaults, lambda sizes: operator.output_shapes(sizes), dtypes)
    _OPERATORS[name] = operator
    return operator


def find(name: str) -> Operator | None:
    """Look up the operator called "domain::Name"; None where none is registered."""
    return _OPERATORS.get(name)
