"""A decoder whose residual stream and values are rotated: the same function, with fewer outliers to round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.formats import floats_of
from intact.lm.decoders.decoder_weights import DecoderWeights

_READERS = {"q": "attention_norm", "k": "attention_norm", "v": "attention_norm", "gate": "mlp_norm",
            "up": "mlp_norm", "head": "norm"}  # fmt: skip
"""Roles that read the residual stream, and the norm in front of each."""
_WRITERS = ("o", "down")
_NORMS = frozenset(_READERS.values())


class RotatedWeights:
    """Gives the weights of another decoder, rotated.

    With an orthogonal R, ``x R`` takes the place of the residual stream x: layers that read it become
    ``W diag(g) R``, where g are the weights of the norm in front of them, and layers that add to it ``R' W``.
    The root of the mean square does not change. The values of each head are rotated likewise between v and o.
    A head that was the embedding is a layer of its own then, because of its norm.

    Args:
        weights: Of the decoder.
        seed: Of the rotation.
    Attributes:
        config: What the decoder is.
    Raises:
        UnsupportedError: Norms take the mean away, stand behind layers, or positions have vectors; or layers
            have experts or states.
    Source: "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs", without rotations that run; "SliceGPT".
    """

    def __init__(self, weights: DecoderWeights, seed: int = 0) -> None:
        config = weights.config
        fits = config.norms == "before" and config.has_norm_weights and not config.inner_norms
        fits = fits and config.mixer is None and not config.gates_attention
        if config.is_layer_norm or config.learned_positions or not fits or config.experts or config.latent:
            raise UnsupportedError(
                str(weights.path), f"a '{config.family}', whose norms do not let a rotation through",
                "norms by the root of the mean square, in front of layers alone", "leave the rotation out",
            )  # fmt: skip
        self._weights = weights
        self.path, self.config = weights.path, replace(config, tied=False)
        self._stream = random_rotation(config.hidden, seed)
        self._values = random_rotation(config.head_size, seed + 1)

    def linear(self, role: str, layer: int = 0) -> NDArray[np.float32]:
        """Return the weight [outputs, inputs] of a linear layer, as `DecoderWeights.linear`."""
        is_tied_head = role == "head" and self._weights.config.tied
        source = self._weights.linear("embedding" if is_tied_head else role, layer)
        weight = np.asarray(floats_of(source), np.float64)
        if role in _READERS:
            norm = self._weights.vector(_READERS[role], layer).astype(np.float64)
            weight = weight * (norm + self.config.norm_offset)
        if role in _READERS or role == "embedding":
            weight = weight @ self._stream
        if role == "o":
            weight = _each_head(weight, self._values)
        if role in _WRITERS:
            weight = self._stream.T @ weight
        if role == "v":
            weight = _each_head(weight.T, self._values).T
        return np.asarray(weight, np.float32)

    def vector(self, role: str, layer: int = 0, part: str = "weight") -> NDArray[np.float32]:
        """Return the weight of a norm, or a bias, as `DecoderWeights.vector`."""
        vector = self._weights.vector(role, layer, part)
        if part == "weight" and role in _NORMS:
            return np.full_like(vector, 1.0 - self.config.norm_offset)
        if part == "bias" and role in _WRITERS:
            return np.asarray(vector.astype(np.float64) @ self._stream, np.float32)
        if part == "bias" and role == "v":
            return np.asarray(_each_head(vector[None].astype(np.float64), self._values)[0], np.float32)
        return vector

    def has_bias(self, role: str, layer: int = 0) -> bool:
        """Return whether a linear layer has a bias."""
        return self._weights.has_bias(role, layer)

    def check_all_read(self) -> None:
        """Refuse files with tensors that nobody has read, as `DecoderWeights.check_all_read`."""
        self._weights.check_all_read()


def random_rotation(size: int, seed: int) -> NDArray[np.float64]:
    """Return an orthogonal matrix [size, size] that spreads every element over all others.

    Hadamard's matrix of the largest power of 2 in `size`, times a random rotation of what is left, behind
    random signs.
    """
    rng = np.random.default_rng(seed)
    rest, hadamard = size, np.ones((1, 1))
    while rest % 2 == 0:
        hadamard = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), hadamard)
        rest //= 2
    spread, triangle = np.linalg.qr(rng.normal(size=(rest, rest)))
    rotation = np.kron(spread * np.sign(np.diag(triangle)), hadamard / np.sqrt(len(hadamard)))
    return rng.choice([-1.0, 1.0], size)[:, None] * rotation


def _each_head(x: NDArray[np.float64], rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotate the elements [.., heads * size] of each head."""
    return (x.reshape(len(x), -1, len(rotation)) @ rotation).reshape(x.shape)
