"""Gives groups of layers more bits within a budget of the whole, where they lower the error most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from intact.errors import QuantValueError
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.round_group import RECIPES, InputMoments, round_group
from intact.ptq.budget_search import BudgetProgram

_SCALE_BITS = 16
_SAMPLE = 2**17  # weights of a layer that are rounded to each format: an eighth of the time for large layers
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class FormatErrors:
    """Holds what each format costs a group of layers.

    Attributes:
        weights: Number of weights.
        errors: Squared error of the outputs relative to their squares, in the order of the formats.
    """

    weights: int
    errors: tuple[float, ...]


def stored_bits(grid: BlockFormat) -> float:
    """Return the bits for each weight: of its code, and its share of a 16-bit scale and a zero point."""
    shared = _SCALE_BITS + (0 if grid.symmetric else grid.bits)
    return grid.bits + shared / grid.block_size


def measure_formats(
    weight: Reals, moments: InputMoments | None, grids: Sequence[BlockFormat]
) -> FormatErrors:
    """Measure what the nearest codes of each format cost weights [N, K] on the inputs of `moments`.

    Some rows stand for all: those of a layer are alike.

    Args:
        weight: float32 [N, K].
        moments: The means over what it multiplies; None: each weight counts alike.
        grids: The formats.
    """
    errors, sample = [], weight[:: max(1, weight.size // _SAMPLE)]
    for grid in grids:
        error, square = round_group(sample, moments, grid, RECIPES["rtn"]).errors.sum(0)
        errors.append(float(error / max(square, 1e-300)))
    return FormatErrors(weight.size, tuple(errors))


def candidate_formats(grid: BlockFormat, bits: Sequence[int]) -> tuple[BlockFormat, ...]:
    """Return formats like `grid` with these numbers of bits, the fewest first.

    Args:
        grid: Whose sign and block size all have.
        bits: Numbers of bits.
    """
    sign = grid.name.rstrip("0123456789")
    return tuple(BlockFormat(f"{sign}{count}", grid.block_size) for count in sorted(bits))


def choose_formats(
    groups: Mapping[_Key, FormatErrors], grids: Sequence[BlockFormat], budget: float,
    costs: Sequence[float] | None = None, what: str = "bits_budget",
) -> dict[_Key, BlockFormat]:  # fmt: skip
    """Choose a format for each group: from the cheapest on, always the step that saves the most error for
    its cost.

    Args:
        groups: Measured errors.
        grids: The formats, the cheapest first.
        budget: The most cost for each weight, on average.
        costs: Of a weight in each format; None: bits, scales included.
        what: What the budget is called in errors.
    Raises:
        QuantValueError: The cheapest format costs more than that.
    """
    costs = [stored_bits(grid) for grid in grids] if costs is None else costs
    total, least = sum(group.weights for group in groups.values()), costs[0]
    if budget < least:
        raise QuantValueError(
            what, f"{budget:g}", f"at least {least:g}, of {grids[0].name} in "
            f"blocks of {grids[0].block_size}", "give more, larger blocks, or fewer bits",
        )  # fmt: skip
    names = {grid.name: grid for grid in grids}
    shares = [group.weights / total / least for group in groups.values()]
    table = {
        "error": np.array([group.errors for group in groups.values()]).reshape(len(groups), len(grids)),
        "cost": np.outer(shares, np.subtract(costs, least)),
    }
    program = BudgetProgram(list(groups), list(names), table)
    steps = program.upgrades("error", "cost", budget / least - 1)
    return dict.fromkeys(groups, grids[0]) | {step.item: names[step.choice] for step in steps}
