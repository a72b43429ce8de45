"""Sizes and variants of a decoder, whatever files say them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from intact.errors import FileFormatError, IntactError
from intact.lm.description.rotary_embedding import RotaryEmbedding

MOST_LAYERS = 1024
_MOST_SIZE = 2**24


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and variants of a decoder.

    Attributes:
        family: One of `FAMILIES`.
        layers: How many.
        hidden, inner, vocabulary: Sizes of the residual stream, of MLPs and of the logits.
        heads, kv_heads, head_size: Of queries, of keys and values, and of each.
        context: Positions that the model was trained for.
        epsilon: Of the norms.
        is_layer_norm: Norms take the mean away, and have biases.
        is_gated: MLPs multiply two layers.
        learned_positions: Each position has a vector; then nothing rotates.
        rotary: The rotation of queries and keys.
        interleaved: Pairs are neighbours.
        unrotated: Layers without rotation.
        tied: The head is the embedding.
        window: Tokens that each attends to; 0: all.
        windowed: Layers with the window.
        local_rotary: The rotation in layers with the window; None: the same.
        qk_norm: Whether queries and keys are normed head by head.
        norm_offset: What is added to the weights of norms.
        post_norms: Whether what attention and MLP make is normed, too.
        embedding_scale, residual_scale: Of embeddings, and of what attention and MLP add.
        activation: The function of MLPs: a name in `numerics.FUNCTIONS`, "linear" for none, "relu2" for the
            square of relu, or "quick_gelu" for x sigmoid(1.702 x).
        attention_scale: Of scores.
        attention_cap, logit_cap: See `numerics.cached_attention`; 0: none.
        logit_divisor: Logits are divided by it.
        biases: Roles of layers with a bias; None: the tensors of the file decide.
    """

    family: str
    layers: int
    hidden: int
    inner: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_size: int
    context: int
    epsilon: float
    rotary: RotaryEmbedding
    interleaved: bool
    unrotated: frozenset[int]
    tied: bool
    window: int
    windowed: frozenset[int]
    qk_norm: bool
    norm_offset: float
    post_norms: bool
    embedding_scale: float
    activation: str
    attention_scale: float
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    logit_divisor: float = 1.0
    residual_scale: float = 1.0
    local_rotary: RotaryEmbedding | None = None
    is_layer_norm: bool = False
    is_gated: bool = True
    learned_positions: bool = False
    biases: frozenset[str] | None = None

    def check(self, where: str) -> DecoderConfig:
        """Refuse sizes that no model has.

        Raises:
            FileFormatError: Names the file.
        """
        sizes = (
            self.layers,
            self.hidden,
            self.inner,
            self.vocabulary,
            self.heads,
            self.kv_heads,
            self.head_size,
        )
        fits = (
            min(sizes) > 0
            and max(sizes) <= _MOST_SIZE
            and self.layers <= MOST_LAYERS
            and self.heads % self.kv_heads == 0
            and 0 < self.context <= _MOST_SIZE
            and 0 < 2 * self.rotary.pairs <= self.head_size
            and all(map(math.isfinite, (self.epsilon, self.attention_scale, self.attention_cap)))
        )
        if not fits:
            got = f"layers, sizes and heads {sizes}, context {self.context}"
            raise FileFormatError(where, got, "sizes that fit each other", "download the model again")
        for rotary in (self.rotary, self.local_rotary):
            if rotary is not None:
                rotary.check(where)
        return self


@contextmanager
def wrong_values(where: str) -> Iterator[None]:
    """Turn what a value of another kind than expected leads to into the error for a damaged file.

    Args:
        where: What errors call the file.
    Raises:
        FileFormatError: A value has another kind than expected.
    """
    try:
        yield
    except IntactError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        got = f"'{type(error).__name__}: {error}'"[:200]
        raise FileFormatError(where, got, "numbers of a decoder", "download the model again") from error
