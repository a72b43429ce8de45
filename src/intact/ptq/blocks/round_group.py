"""Chooses the codes of the weights that multiply one tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.formats import take_rows
from intact.numerics import BlockWeights, dequantize_blocks
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.channel_scales import STRENGTH, search_channel_scales, smooth_channel_scales
from intact.ptq.blocks.fit_scales import round_to_nearest
from intact.ptq.blocks.rounding_methods import (
    damp,
    refine,
    round_by_signs,
    round_half_quadratic,
    round_with_hessian,
)

_AT_ONCE = 2**22  # weights whose floats are compared at once
_HOLD = 0.05  # of the mean square of the inputs: weights stay near where little was seen


@dataclass
class InputMoments:
    """Holds sums, or means, over the inputs of a layer.

    Attributes:
        products: x x^T over the inputs x behind layers with codes, float64 [K, K].
        crossed: r x^T, with r the inputs of the float model, float64 [K, K]; None: not measured.
        magnitudes: abs(x), float64 [K].
        peaks: The largest abs(x), float32 [K], in sums and means alike.
        rows: Number of inputs.
    """

    products: NDArray[np.float64]
    crossed: NDArray[np.float64] | None
    magnitudes: NDArray[np.float64]
    peaks: NDArray[np.float32]
    rows: int

    @classmethod
    def zeros(cls, size: int, *, crossed: bool) -> InputMoments:
        """Return the sums over nothing.

        Args:
            size: K.
            crossed: Whether inputs of the float model are added, too.
        """
        square = np.zeros((size, size))
        peaks = np.zeros(size, np.float32)
        return cls(square, square.copy() if crossed else None, np.zeros(size), peaks, 0)

    def add(self, x: Reals, reference: Reals | None = None) -> None:
        """Add inputs, float32 [rows, K], and those of the float model, in place.

        Args:
            x: Inputs, float32 [rows, K].
            reference: Those of the float model, of the same shape.
        """
        self.products += x.T @ x
        if self.crossed is not None and reference is not None:
            self.crossed += reference.T @ x
        self.magnitudes += np.abs(x).sum(0)
        self.peaks = np.maximum(self.peaks, np.abs(x).max(0, initial=0))
        self.rows += len(x)

    def mean(self) -> InputMoments:
        """Return the sums over the number of inputs."""
        count = max(self.rows, 1)
        crossed = None if self.crossed is None else self.crossed / count
        return InputMoments(self.products / count, crossed, self.magnitudes / count, self.peaks, self.rows)


@dataclass(frozen=True)
class Recipe:
    """Says which steps a method has.

    Attributes:
        scaling: How input channels are scaled: "awq", "smoothquant", or "" for not at all.
        rounding: How codes are chosen: "nearest", "half-quadratic", "signs" or "hessian" (GPTQ, and codes
            moved until that is best).
        corrects: Whether weights first take back what the layers in front of them lost.
    """

    scaling: str = ""
    rounding: str = "nearest"
    corrects: bool = False

    @property
    def needs_moments(self) -> bool:
        """True where a step looks at what the weights multiply."""
        return bool(self.scaling) or self.rounding in ("signs", "hessian") or self.corrects


RECIPES = {
    "rtn": Recipe(),
    "hqq": Recipe(rounding="half-quadratic"),
    "smoothquant": Recipe(scaling="smoothquant"),
    "awq": Recipe(scaling="awq"),
    "autoround": Recipe(rounding="signs"),
    "gptq": Recipe(rounding="hessian"),
    "auto": Recipe(scaling="awq", rounding="hessian", corrects=True),
}
"""The steps of each method, by name."""


@dataclass(frozen=True)
class RoundedGroup:
    """Holds the codes of the weights that multiply one tensor.

    Attributes:
        weights: Shape [N, K], the outputs of all layers one behind the other.
        channel_scales: By what columns were multiplied, float32 [K]; None: by nothing.
        errors: By output, the squared error and the square, float64 [N, 2].
    """

    weights: BlockWeights
    channel_scales: Reals | None
    errors: NDArray[np.float64]


def round_group(
    weight: Reals, moments: InputMoments | None, grid: BlockFormat, recipe: Recipe,
    strength: float = STRENGTH,
) -> RoundedGroup:  # fmt: skip
    """Choose the codes of weights that multiply one tensor.

    Args:
        weight: float32 [N, K].
        moments: The means over what they multiply; None: not known, each weight counts alike.
        grid: Format and block size.
        recipe: The steps; without moments those that need none.
        strength: Of "smoothquant".
    Returns:
        The codes, of weights multiplied by the channel scales.
    """
    if moments is None:
        is_split = recipe.rounding == "half-quadratic"
        weights = round_half_quadratic(weight, grid) if is_split else round_to_nearest(weight, grid)
        return RoundedGroup(weights, None, _errors(weights, None, weight, None))
    hessian = damp(moments.products)
    scales = None
    if recipe.scaling == "awq":
        scales, _ = search_channel_scales(weight, hessian, moments.magnitudes, grid)
    elif recipe.scaling == "smoothquant":
        scales = smooth_channel_scales(weight, moments.peaks, strength)
    scales = None if scales is None or (scales == 1).all() else scales
    target = _correct_weight(weight, moments) if recipe.corrects else weight
    factors = np.ones(weight.shape[1], np.float32) if scales is None else scales
    scaled, spread = target * factors, hessian / np.outer(factors, factors)
    if recipe.rounding == "hessian":
        weights = refine(round_with_hessian(scaled, spread, grid), scaled, spread, grid)
    elif recipe.rounding == "signs":
        weights = round_by_signs(scaled, spread, grid)
    else:
        weights = round_to_nearest(scaled, grid, np.diagonal(spread))
    return RoundedGroup(weights, scales, _errors(weights, scales, weight, moments.products))


def _correct_weight(weight: Reals, moments: InputMoments) -> Reals:
    """Return W' with W' x nearest to W r, x the inputs and r those of the float model.

    W' = W (E[r x^T] + d) (E[x x^T] + d)^-1, d a multiple of the identity that holds W' at W.
    Source: the least-squares solution, as in GPTAQ (Li et al. 2025, section 4) and ERQ (Zhong et al. 2024).
    """
    if moments.crossed is None:
        return weight
    size = weight.shape[1]
    hold = np.eye(size) * (_HOLD * float(np.trace(moments.products)) / size or 1.0)
    solution = np.linalg.solve(moments.products + hold, (moments.crossed + hold).T).T
    return np.asarray(weight @ solution.astype(np.float32))


def _errors(
    weights: BlockWeights, factors: Reals | None, weight: Reals, products: NDArray | None
) -> NDArray[np.float64]:
    """Return the squared error and the square of each output, float64 [N, 2]; some outputs at a time."""
    h = None if products is None else products.astype(np.float32)
    rows = max(1, _AT_ONCE // weight.shape[1])
    parts = []
    for begin in range(0, len(weight), rows):
        part = slice(begin, begin + rows)
        values = dequantize_blocks(take_rows(weights, part))
        errors = (values if factors is None else values / factors) - weight[part]
        parts.append(np.stack([_squares(errors, h), _squares(weight[part], h)], axis=1))
    return np.concatenate(parts)


def _squares(rows: Reals, h: Reals | None) -> NDArray[np.float64]:
    """Return r H r of each row, float64 [N]; r r for None."""
    return np.asarray(np.einsum("nk,nk->n", rows if h is None else rows @ h, rows, dtype=np.float64))
