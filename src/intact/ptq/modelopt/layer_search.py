"""Searches of ModelOpt's algorithms on one group of layers: scales of channels, clipped ranges, low ranks.

Sources: Lin et al. 2024 (AWQ), sections 3.2 and the released search of clipped ranges; Xiao et al. 2023
(SmoothQuant); Li et al. 2024 (SVDQuant). Steps and ends are those of ModelOpt's settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.ptq.blocks import short_scales, smooth_channel_scales
from intact.ptq.modelopt.configurations import Algorithm
from intact.ptq.modelopt.quantizers import (
    MatrixCodes,
    Quantizer,
    QuantizerChain,
    Reals,
    quantize_rows,
)

_TINY = np.float32(1e-30)
_LEAST, _MOST = 1e-4, 1e4  # scales of channels beyond these say that a channel is nearly always zero


@dataclass(frozen=True)
class InputStatistics:
    """Holds what data say of the inputs of a group of layers.

    Attributes:
        peaks: The largest magnitude of each channel, [K].
        means: The mean magnitude of each channel, [K].
        rows: Some inputs, float32 [R, K].
    """

    peaks: Reals
    means: Reals
    rows: Reals


def weight_codes(rows: Reals, chain: QuantizerChain, clip: float | Reals = 1.0) -> list[MatrixCodes]:
    """Return the codes of a weight [N, K], and of what these stand for with each further quantizer."""
    codes: list[MatrixCodes] = []
    most = float(np.abs(rows).max(initial=0))
    for quantizer in chain.quantizers:
        codes.append(quantize_rows(rows, quantizer, clip if not codes else 1.0, most if codes else None))
        rows = codes[-1].floats()
    return codes


def round_inputs(rows: Reals, chain: QuantizerChain, most: float) -> Reals:
    """Return inputs [R, K] as quantizers round them, `most` the largest magnitude of their ranges."""
    for quantizer in chain.quantizers:
        stored = None if quantizer.is_dynamic and quantizer.scale_type != "float8_e4m3fn" else most
        rows = quantize_rows(rows, quantizer, most=stored).floats()
    return rows


def search_scales(
    weight: Reals, inputs: InputStatistics, chains: tuple[QuantizerChain, QuantizerChain],
    algorithm: Algorithm,
) -> Reals | None:  # fmt: skip
    """Return by what the columns of a weight are multiplied, [K]; None where the algorithm has no such step.

    Args:
        weight: Of the layers of a group, one below the other, float32 [N, K].
        inputs: Of the group.
        chains: Of the weights and of the inputs.
        algorithm: Method and steps.
    """
    if algorithm.method == "smoothquant":
        return smooth_channel_scales(weight, inputs.peaks, algorithm.alpha)
    if algorithm.method not in ("awq_lite", "awq_full", "svdquant") or not chains[0].quantizers:
        return None
    shares = _mean_share_of_range(weight, chains[0].quantizers[0])
    exact = inputs.rows @ weight.T
    best, least = np.ones(weight.shape[1], np.float32), np.inf
    for power in np.arange(0, 1 + algorithm.alpha_step / 2, algorithm.alpha_step):
        wanted = np.clip(inputs.means**power / (shares ** (1 - power) + _TINY), _LEAST, _MOST)
        scales = short_scales((wanted / np.sqrt(wanted.max() * wanted.min())).astype(np.float32))
        rows = round_inputs(inputs.rows / scales, chains[1], float((inputs.peaks / scales).max()))
        error = float(
            np.square(rows @ weight_codes(weight * scales, chains[0])[-1].floats().T - exact).mean()
        )
        if error < least:
            best, least = scales, error
    return best


def _mean_share_of_range(weight: Reals, quantizer: Quantizer) -> Reals:
    """Return the mean magnitude of each column relative to the range of its block, [K]."""
    width = quantizer.blocks.get(-1) or weight.shape[1]
    starts = np.arange(0, weight.shape[1], width)
    peaks = np.maximum.reduceat(np.abs(weight), starts, axis=1)
    columns = np.arange(weight.shape[1]) // width
    return np.asarray((np.abs(weight) / (peaks[:, columns] + _TINY)).mean(0), np.float32)


def search_clip(weight: Reals, rows: Reals, chain: QuantizerChain, algorithm: Algorithm) -> float | Reals:
    """Return what ranges of a weight are multiplied by: one number, or [N, blocks] of scales in float32.

    Args:
        weight: float32 [N, K].
        rows: Its inputs, float32 [R, K].
        chain: Of the weight.
        algorithm: Method and steps.
    """
    if algorithm.method not in ("awq_clip", "awq_full") or not chain.quantizers:
        return 1.0
    ratios = [*np.arange(algorithm.min_clip_ratio, 1, algorithm.shrink_step), 1.0]
    if chain.quantizers[0].scale_type == "float8_e4m3fn" or not chain.quantizers[0].blocks:
        exact = rows @ weight.T
        errors = [
            float(np.square(rows @ weight_codes(weight, chain, float(ratio))[-1].floats().T - exact).mean())
            for ratio in ratios
        ]
        return float(ratios[int(np.argmin(errors))])
    starts = np.arange(0, weight.shape[1], chain.quantizers[0].blocks[-1] or weight.shape[1])
    best, least = None, None
    for ratio in ratios:
        codes = weight_codes(weight, chain, float(ratio))[-1]
        errors_of_blocks = _block_errors(codes.floats() - weight, rows, starts)
        if best is None or least is None:
            best, least = np.full_like(errors_of_blocks, ratio), errors_of_blocks
        better = errors_of_blocks < least
        best, least = np.where(better, np.float32(ratio), best), np.where(better, errors_of_blocks, least)
    assert best is not None
    return np.asarray(best, np.float32)


def _block_errors(errors: Reals, rows: Reals, starts: NDArray) -> Reals:
    """Return the mean squares of what the errors of each block add to outputs, [N, blocks]."""
    squares = []
    for begin, end in zip(starts, [*starts[1:], errors.shape[1]], strict=True):
        products = rows[:, begin:end] @ errors[:, begin:end].T
        squares.append(np.square(products).mean(0))
    return np.asarray(np.stack(squares, 1), np.float32)


def low_rank(weight: Reals, rank: int) -> tuple[Reals, Reals] | None:
    """Return the best factors [N, rank] and [rank, K] of a weight [N, K]; None where it has fewer."""
    if min(weight.shape) < rank:
        return None
    u, s, vt = np.linalg.svd(weight.astype(np.float64), full_matrices=False)
    return (u[:, :rank] * s[:rank]).astype(np.float32), vt[:rank].astype(np.float32)


def hadamard(size: int) -> Reals | None:
    """Return the Hadamard matrix of a power of two, divided by its root, [size, size]; None for others."""
    if size < 1 or size & (size - 1):
        return None
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.asarray(matrix / np.sqrt(size), np.float32)


def stack(matrices: Sequence[Reals]) -> Reals:
    """Return matrices [N, K] one below the other."""
    return np.concatenate(matrices) if len(matrices) > 1 else matrices[0]
