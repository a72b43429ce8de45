"""Scale, cap and window of decomposed attention, read off what its operators compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import atanh, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.lm.decoders.decomposed_attention import DecomposedAttention, Mask
from intact.lm.decoders.position_values import FIX, GraphPart, Lengths, PositionValues

_EXCLUDED = -1e4
"""Scores that mean: this token does not count. Masks hold at most this."""
_LARGE = 1e4
_CLOSE = 1e-4


@dataclass(frozen=True)
class AttentionForm:
    """Attributes of GroupQueryAttention.

    Attributes:
        scale: Of products of queries and keys.
        softcap: See `numerics.cached_attention`; 0: none.
        window: Tokens that each attends to; 0: all.
    """

    scale: float
    softcap: float
    window: int


def read_forms(
    attentions: Sequence[DecomposedAttention], positions: PositionValues, most: int, where: str
) -> list[AttentionForm]:
    """Read what each attention computes, and check it against `numerics.cached_attention`'s formula.

    Args:
        attentions: Of all layers.
        positions: Computes masks.
        most: The longest sequence.
        where: The file, for errors.
    Raises:
        UnsupportedError: Masks are not causal, or something else is computed; names the node.
    """
    windows = _Windows(attentions, positions, most, where).windows()
    return [
        _read_form(attention, positions, window, where)
        for attention, window in zip(attentions, windows, strict=True)
    ]


def causal(lengths: Lengths, window: int) -> NDArray[np.bool_]:
    """Return which tokens each new one attends to, [tokens, total]."""
    ahead = np.arange(lengths.total) - np.arange(lengths.past, lengths.total)[:, None]
    return (ahead <= 0) & ((ahead > -window) if window else True)


class _Windows:
    """Reads the windows of all layers: their masks run together, for short and for the longest sequences."""

    def __init__(
        self, attentions: Sequence[DecomposedAttention], positions: PositionValues, most: int, where: str
    ) -> None:
        self._attentions, self._most, self._where = attentions, most, where
        self._masks = list({mask.value: mask for attention in attentions for mask in attention.masks})
        self._positions = positions
        self._part = positions.part(self._masks) if self._masks else None

    def windows(self) -> list[int]:
        """Return the window of each layer; 0: none."""
        long = self._positions.lengths_until(self._most, min(3, self._most))
        short = Lengths(0, min(24, self._most))
        windows = [int(reach[-1].sum()) % self._most for reach in self._reaches(long)]
        edges = [self._positions.lengths_until(window + 5, 9) for window in {*windows} - {0} if window > 4]
        cases = [long, short, *edges]
        for lengths in cases:
            if lengths.total > self._most:
                continue
            for attention, reach, window in zip(
                self._attentions, self._reaches(lengths), windows, strict=True
            ):
                if not np.array_equal(reach, causal(lengths, window)):
                    got = f"a mask that keeps {reach.sum()} of {reach.size} scores of {lengths.tokens} tokens"
                    raise _refuse(
                        attention, self._where, got, "those of earlier tokens, or of a window of them"
                    )
        return windows

    def _reaches(self, lengths: Lengths) -> list[NDArray[np.bool_]]:
        """Return which scores of each layer count, [tokens, total]."""
        arrays = dict(zip(self._masks, self._part.run(lengths), strict=True)) if self._part else {}
        shape, reach = (lengths.tokens, lengths.total), []
        for attention in self._attentions:
            layer = np.ones(shape, bool)
            for mask in attention.masks:
                layer &= self._reach_of_mask(attention, mask, arrays[mask.value], shape)
            reach.append(layer)
        return reach

    def _reach_of_mask(
        self, attention: DecomposedAttention, mask: Mask, array: NDArray[Any], shape: tuple[int, int]
    ) -> NDArray[np.bool_]:
        try:
            rows = np.broadcast_to(array, (*array.shape[:-2], *shape)).reshape(-1, *shape)
        except ValueError:
            got = f"a mask of shape {array.shape}"
            raise _refuse(attention, self._where, got, f"one for {shape} scores") from None
        if mask.kind == "added" and not np.all((rows == 0) | (rows <= _EXCLUDED)):
            raise _refuse(attention, self._where, "biases of scores", "masks alone")
        reach = rows == 0 if mask.kind == "added" else rows.astype(bool) == (mask.kind == "kept")
        if not len(reach) or not (reach == reach[:1]).all():
            raise _refuse(attention, self._where, "heads with masks of their own", "one mask")
        return np.asarray(reach[0])


def _read_form(
    attention: DecomposedAttention, positions: PositionValues, window: int, where: str
) -> AttentionForm:
    """Read scale and cap off scores of known products, and compare the outputs for random inputs."""
    inputs = (attention.q, attention.keys, attention.values)
    scores = attention.softmax.inputs[0]
    assert scores is not None
    part = positions.part([scores, attention.product.outputs[0]], inputs)
    form = _scale_and_cap(attention, part, positions, window)
    lengths = positions.lengths_until(7, 3)
    rng = np.random.default_rng(0)
    q, keys, values = (rng.normal(size=shape).astype(np.float32) for shape in _shapes(attention, lengths))
    _, y = part.run(lengths, dict(zip(inputs, (q, keys, values), strict=True)))
    expected = _attend(q, keys, values, form, causal(lengths, window))
    if y.shape != expected.shape or not np.allclose(y, expected, rtol=_CLOSE, atol=_CLOSE):
        got = f"outputs that differ from softmax(q k * {form.scale:.6g}) v"
        raise _refuse(attention, where, got, "attention of one product of queries and keys")
    return form


def _scale_and_cap(
    attention: DecomposedAttention, part: GraphPart, positions: PositionValues, window: int
) -> AttentionForm:
    """Return the form whose scores for products 0, 1 and a large one are those of the graph."""
    lengths = positions.lengths_until(4, 1)
    q, keys, values = (np.zeros(shape, np.float32) for shape in _shapes(attention, lengths))
    q[..., 0] = 1
    keys[:, :, -2:, 0] = 1, _LARGE
    scores, _ = part.run(lengths, {attention.q: q, attention.keys: keys, attention.values: values})
    unit, large = (float(score) for score in scores.reshape(-1, lengths.total)[-1, -2:])
    cap = 0.0 if abs(large - unit * _LARGE) <= 1e-3 * abs(large) else large
    scale = unit if not cap else cap * atanh(max(min(unit / cap, 0.999), -0.999))
    usual = 1 / sqrt(attention.size)
    return AttentionForm(usual if abs(scale - usual) < 1e-6 * usual else scale, cap, window)


def _shapes(attention: DecomposedAttention, lengths: Lengths) -> list[tuple[int, ...]]:
    return [
        (1, attention.heads, lengths.tokens, attention.size),
        (1, attention.kv_heads, lengths.total, attention.size),
        (1, attention.kv_heads, lengths.total, attention.value_size),
    ]


def _attend(
    q: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], form: AttentionForm, reach: NDArray[np.bool_]
) -> NDArray[Any]:
    group = q.shape[1] // keys.shape[1]
    keys, values = (np.repeat(x.astype(np.float64), group, axis=1) for x in (keys, values))
    scores = q @ keys.swapaxes(2, 3) * form.scale
    if form.softcap:
        scores = np.tanh(scores / form.softcap) * form.softcap
    scores = np.where(reach, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ values)


def _refuse(attention: DecomposedAttention, where: str, got: str, want: str) -> UnsupportedError:
    return UnsupportedError(f"{where}: node '{attention.name}' (Softmax)", got, want, FIX)
