"""The arguments of a quantization of weights in blocks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from intact.errors import QuantValueError
from intact.patterns import no_option
from intact.ptq.blocks.block_format import BlockFormat
from intact.ptq.blocks.channel_scales import STRENGTH
from intact.ptq.blocks.round_group import RECIPES

METHODS = ("auto", *(name for name in RECIPES if name != "auto"))
"""Methods of choosing codes, `intact.ptq.blocks.round_group.RECIPES`; "auto" is what data allow."""

NEED_DATA = tuple(name for name, recipe in RECIPES.items() if recipe.needs_moments and name != "auto")
"""Those that choose codes by the inputs of layers, and cannot go without."""

ACTIVATIONS = ("float", "dynamic-int8")
"""Of the products: floats, or int8 in blocks of the weights' size, with ranges that the values give."""

OPERATORS = ("DequantizeLinear", "MatMulNBits", "BlockLinear")
"""Operators that hold the codes in the file. BlockLinear is INTact's own, with codes of 2 to 8 bits."""


@dataclass(frozen=True)
class BlockSettings:
    """Holds the arguments of `quantize_weights`.

    Attributes:
        weights: Format of the codes, as `BlockFormat` takes it.
        block: Elements along K that share a scale.
        activations: One of `ACTIVATIONS`.
        method: One of `METHODS`.
        bits_budget: The most bits for each weight, scales of 16 bits included, on average; layers that lose
            most get more than others. None: all have the bits of `weights`.
        state: A folder that keeps codes as they are chosen; the same call goes on from it. None: none
            is kept.
        strength: Of method "smoothquant", from 0 to 1: how much of the inputs' ranges goes into weights.
        formats: Formats of single layers by the names of their nodes, in place of `weights`; of layers that
            read one tensor the first one's counts.
        operator: One of `OPERATORS`; None: what says the activations: DequantizeLinear for floats,
            MatMulNBits for int8.
        include, exclude: Patterns over names of nodes and operator types.
        num_batches, batch_size, progress: As for `intact.ptq.quantize`.

    Raises:
        QuantValueError: A value is none of these.
    """

    weights: str = "int4"
    block: int = 32
    activations: str = "float"
    method: str = "auto"
    bits_budget: float | None = None
    state: str | os.PathLike[str] | None = None
    strength: float = STRENGTH
    formats: Mapping[str, str] = field(default_factory=dict)
    operator: str | None = None
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    num_batches: int | None = None
    batch_size: int | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name in (self.weights, *self.formats.values()):
            BlockFormat(name, self.block)  # checks it
        _one_of("activations", self.activations, ACTIVATIONS)
        _one_of("method", self.method, METHODS)
        if not isinstance(self.strength, int | float) or not 0 <= self.strength <= 1:
            raise QuantValueError("strength", f"{self.strength!r:.40}", "a number from 0 to 1", "take 0.5")
        if self.bits_budget is not None and not (
            isinstance(self.bits_budget, int | float) and 0 < self.bits_budget < 64
        ):
            raise QuantValueError("bits_budget", f"{self.bits_budget!r:.40}", "a number of bits", "take 5")
        if self.operator is not None:
            _one_of("operator", self.operator, OPERATORS)

    def check_operator(self) -> None:
        """Refuse a grid, or activations, that the operator of the file cannot say.

        Raises:
            QuantValueError: Names the options.
        """
        grid = self.grid
        if self.file_operator == "MatMulNBits":
            size = grid.block_size
            if grid.bits not in (2, 4, 8) or size not in (16, 32, 64, 128, 256):
                raise QuantValueError(
                    "weights", f"{grid.name} in blocks of {size} for MatMulNBits",
                    "2, 4 or 8 bits in blocks of 16, 32, 64, 128 or 256",
                    "choose another format, or operator='BlockLinear', which INTact runs",
                )  # fmt: skip
        elif self.file_operator == "DequantizeLinear" and self.activations != "float":
            raise QuantValueError(
                "operator", f"{self.operator} with activations {self.activations}", "MatMulNBits",
                "leave it out: a DequantizeLinear says floats",
            )  # fmt: skip

    def check_data(self, data: object) -> None:
        """Refuse a method that needs data where there are none.

        Raises:
            QuantValueError: There are none.
        """
        if data is None and self.method in NEED_DATA:
            raise QuantValueError(
                "data", f"none for method '{self.method}'", "inputs like those of its later work",
                "give some, or take method='rtn'",
            )  # fmt: skip

    @property
    def file_bits(self) -> tuple[int, ...]:
        """Bits of codes that the operator of the file stores as they are."""
        return {"MatMulNBits": (2, 4, 8), "BlockLinear": (2, 3, 4, 5, 6, 8)}.get(self.file_operator, (4, 8))

    @property
    def grid(self) -> BlockFormat:
        """The grid of the weights."""
        return BlockFormat(self.weights, self.block)

    def grid_of(self, names: Sequence[str]) -> BlockFormat:
        """Return the grid of a layer that has these names."""
        formats = (self.formats[name] for name in names if name in self.formats)
        return BlockFormat(next(formats, self.weights), self.block)

    @property
    def file_operator(self) -> str:
        """The operator that is written."""
        if self.operator is not None:
            return self.operator
        return "DequantizeLinear" if self.activations == "float" else "MatMulNBits"

    @property
    def accuracy_level(self) -> int:
        """The attribute of a MatMulNBits that says the activations."""
        return 4 if self.activations == "dynamic-int8" else 0


def wants_blocks(options: Mapping[str, Any]) -> bool:
    """Return whether the options of a quantization ask for weights in blocks alone.

    These are a block, an operator, activations that get their ranges while they run, or a method of weights.
    """
    return (
        options.get("block") is not None
        or options.get("operator") is not None
        or options.get("strength") is not None
        or options.get("bits_budget") is not None
        or options.get("state") is not None
        or options.get("activations") == "dynamic-int8"
        or options.get("method") in METHODS[1:]
    )


def settings_of(options: Mapping[str, Any]) -> BlockSettings:
    """Return the settings of options by name; those that are None are left out.

    Raises:
        QuantValueError: There is no such option, or a value is wrong.
    """
    names = [option.name for option in fields(BlockSettings)]
    if unknown := [name for name in options if name not in names]:
        raise no_option(unknown[0], names)
    return BlockSettings(**{name: value for name, value in options.items() if value is not None})


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise QuantValueError(name, f"{value!r:.60}", f"one of {', '.join(allowed)}", "choose one of these")
