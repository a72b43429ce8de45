"""The quantizer of block weights: matrices that multiply one tensor, a stream of inputs, and a method.

ONNX files, torch modules and language models find their layers, run them and store codes in ways of their
own. What lies between, from weights and inputs to codes, formats under a budget and errors, is here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from intact.errors import CalibrationError
from intact.formats import take_rows
from intact.numerics import BlockWeights
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.block_settings import BlockSettings
from intact.ptq.blocks.group_store import GroupStore
from intact.ptq.blocks.mixed_bits import candidate_formats, choose_formats, measure_formats, stored_bits
from intact.ptq.blocks.round_group import RECIPES, InputMoments, Recipe

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class LayerCodes:
    """Describes one layer with codes.

    Attributes:
        name: Of the node or module; in a branch of an If behind that of the branch.
        shape: Outputs N and inputs K.
        error: Squared error of its outputs relative to their squares, on the calibration data; without data
            that of its weights.
        format: Of its codes.
        twins: Names of nodes of other branches that have the same codes.
    """

    name: str
    shape: tuple[int, int]
    error: float
    format: str = ""
    twins: tuple[str, ...] = ()


@dataclass(repr=False)
class BlockResult:
    """Holds the outcome of a quantization of weights in blocks; `print` shows a summary.

    Attributes:
        settings: What was asked for.
        layers: Those with codes, in the order in which they were quantized.
        in_float: Why each other linear layer stays as it is, by name or path.
    """

    settings: BlockSettings
    layers: list[LayerCodes] = field(default_factory=list)
    in_float: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = self.summary()
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {figure}" for label, figure in rows)

    def summary(self) -> list[tuple[str, str]]:
        """Return (label, figure) rows."""
        settings, shapes = self.settings, [layer.shape for layer in self.layers]
        weights = sum(n * k for n, k in shapes)
        twins = sum(bool(layer.twins) for layer in self.layers)
        worst = max(self.layers, key=lambda layer: layer.error)
        counts = Counter(layer.format for layer in self.layers)
        formats = ", ".join(
            f"{name} ({count})" if len(counts) > 1 else name for name, count in counts.items()
        )
        bits = [stored_bits(BlockFormat(layer.format, settings.block)) for layer in self.layers]
        mean = sum(b * n * k for b, (n, k) in zip(bits, shapes, strict=True)) / weights
        return [
            ("layers with block weights", f"{len(self.layers):,}"),
            *([("of them in several branches", f"{twins:,}")] if twins else []),
            ("layers in float", f"{len(self.in_float):,}"),
            ("weights in codes", f"{weights:,}"),
            ("format", f"{formats} in blocks of {settings.block}"),
            ("bits for each weight", f"{mean:.2f}"),
            ("activations", settings.activations),
            ("written as", settings.file_operator),
            ("worst layer", f"{worst.name}: error {worst.error:.1e} of its output"),
        ]


class BlockQuantizer:
    """Chooses codes for groups of matrices, each group of those that multiply one tensor.

    Args:
        settings: Format, block, method and budget.
        bits: Numbers of bits that a budget chooses from.

    Attributes:
        recipe: The steps of the method.
        layers: What became of each matrix, in the order of the calls of `round`.

    Raises:
        FileAccessError: The folder of `settings.state` cannot be made.
    """

    def __init__(self, settings: BlockSettings, bits: Sequence[int]) -> None:
        self.recipe: Recipe = RECIPES[settings.method]
        self.layers: list[LayerCodes] = []
        self._settings, self._bits = settings, bits
        self._store = GroupStore(settings.state)

    def choose_formats(
        self, groups: Iterable[tuple[_Key, Reals, InputMoments | None]]
    ) -> dict[_Key, BlockFormat]:
        """Choose the format of each group within the budget, by the errors of the nearest codes.

        Args:
            groups: Key, weights float32 [N, K], and the moments of what they multiply in floats.
        Raises:
            QuantValueError: The cheapest format costs more than the budget.
        """
        assert self._settings.bits_budget is not None
        grids = candidate_formats(self._settings.grid, self._bits)
        errors = {key: measure_formats(weight, moments, grids) for key, weight, moments in groups}
        return choose_formats(errors, grids, self._settings.bits_budget)

    def round(
        self, names: Sequence[str], matrices: Sequence[Reals], moments: InputMoments | None,
        grid: BlockFormat, twins: Sequence[tuple[str, ...]] | None = None,
    ) -> tuple[list[BlockWeights], Reals | None]:  # fmt: skip
        """Choose the codes of matrices that multiply one tensor, and record them in `layers`.

        Args:
            names: Of the layers.
            matrices: Weights of each layer, float32 [N, K].
            moments: Of what they multiply; None: not known, each weight counts alike.
            grid: Format and block size.
            twins: Names of further layers that get the codes of each.
        Returns:
            The codes of each layer, and by what the columns of all were multiplied, float32 [K], or None.
        Raises:
            FileFormatError: A file of the folder of `settings.state` is damaged; names it.
            FileAccessError: A file there cannot be read or written.
        """
        rounded = self._store.round(stack_rows(matrices), moments, grid, self.recipe, self._settings.strength)
        codes, begin = list[BlockWeights](), 0
        for name, matrix, further in zip(names, matrices, twins or [()] * len(names), strict=True):
            rows = slice(begin, begin := begin + len(matrix))
            codes.append(take_rows(rounded.weights, rows))
            error, square = rounded.errors[rows].sum(0)
            relative, shape = float(error / max(square, 1e-300)), (len(matrix), matrix.shape[1])
            self.layers.append(LayerCodes(name, shape, relative, grid.name, further))
        return codes, rounded.channel_scales


def stack_rows(matrices: Sequence[Reals]) -> Reals:
    """Return matrices [N, K] one below the other; a single one is not copied."""
    return np.concatenate(matrices) if len(matrices) > 1 else matrices[0]


def measure_inputs(
    tensors: Iterable[tuple[str, Iterable[tuple[Reals, ...]]]], size: int, *, crossed: bool
) -> InputMoments | None:
    """Measure what the weights of a group multiply; None where no row reaches them.

    Args:
        tensors: What errors call each tensor, and its rows, float32 [rows, K]; with `crossed` those of the
            float model beside them.
        size: K.
        crossed: Whether a method compares with the float model.
    Raises:
        CalibrationError: NaN or infinities in an input; names it.
    """
    moments = InputMoments.zeros(size, crossed=crossed)
    for where, batches in tensors:
        for rows in batches:
            moments.add(*rows)
        if not np.isfinite(moments.products).all():
            raise CalibrationError(
                where, "NaN or infinity", "finite numbers", "look for the layer that gives it"
            )
    return moments.mean() if moments.rows else None
