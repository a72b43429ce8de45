"""Sizes and variants of a decoder, whatever files say them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, IntactError
from intact.lm.description.linear_biases import LinearBiases
from intact.lm.description.rotary_embedding import RotaryEmbedding

MOST_LAYERS = 1024
_MOST_SIZE = 2**24


@dataclass(frozen=True)
class Experts:
    """Experts in place of an MLP, of which each token has some.

    Attributes:
        layers: That have them.
        count, chosen: How many there are, and how many of them a token has.
        inner: Width of each.
        scores: What experts are chosen by: "softmax" of the router's logits, their "sigmoid", or "chosen",
            the logits, whose softmax over those that were chosen is the weights.
        has_correction: A vector is added to the scores before experts are chosen, and not to the weights.
        normalizes: Weights of the experts of a token add up to 1, before `scale`.
        scale: Of the weights.
        groups, chosen_groups: Experts are chosen from the groups whose two best scores add up to most.
        shared: Width of an MLP that all tokens have beside; 0: none.
        gates_shared: Its output is multiplied by a sigmoid of a product.
        has_biases: The layers of experts add.
        limit: Gates are at most it, and values lie between its negative and it; 0: anywhere.
        slope: The function of gates is ``x sigmoid(slope x)``; 0: that of MLPs.
        offset: What is added to values.
        is_gated: They multiply two layers.
    """

    layers: frozenset[int]
    count: int
    chosen: int
    inner: int
    scores: str
    has_correction: bool = False
    normalizes: bool = True
    scale: float = 1.0
    groups: int = 1
    chosen_groups: int = 1
    shared: int = 0
    gates_shared: bool = False
    has_biases: bool = False
    limit: float = 0.0
    slope: float = 0.0
    offset: float = 0.0
    is_gated: bool = True


@dataclass(frozen=True)
class LatentAttention:
    """Queries, and keys with values, that are made of shorter vectors.

    Attributes:
        q_rank, kv_rank: Lengths of these; 0 for queries that are made at once.
        plain, rotated: Channels of a head that do not rotate, and that do; keys share the latter.
        value: Channels of a value.
        epsilon: Of the norms of the shorter vectors.

    Source: "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model".
    """

    q_rank: int
    kv_rank: int
    plain: int
    rotated: int
    value: int
    epsilon: float = 1e-6

    @property
    def head_size(self) -> int:
        """Channels of a query and a key."""
        return self.plain + self.rotated


@dataclass(frozen=True)
class Mixer:
    """Describes layers in which tokens meet in states of fixed size, in place of attention or beside it.

    Attributes:
        kind: "conv", a short convolution between two gates; "delta", the gated delta rule; "ssm", a
            selective state space with a step for each head (Mamba 2); or "scan", one with a step for each
            column and a rate for each element of the state (Mamba 1).
        layers: That have it.
        kernel: Tokens that its convolution reads, its own included.
        heads, key_heads: Matrices of the state, and keys and queries, which they share.
        key_size, value_size: Of a matrix.
        groups: Norms take so many parts of a row apart, of "ssm"; 0: there is no norm.
        gates_first: Values are gated in front of the norm.
        least_step, most_step: Steps of "ssm" lie between both.
        epsilon: Of its norms.
        activation: The function behind convolutions; "": that of MLPs.
        step_rank: Width of the rows that the steps of "scan" are made of.
        scan_norms: What of "scan" is normed before it is used: "weights", steps, keys and queries, each with
            weights; "plain", the same without; "" nothing.
        scan_epsilon: Of these norms.

    Source: "Gated Delta Networks: Improving Mamba2 with Delta Rule"; "Transformers are SSMs";
    "Mamba: Linear-Time Sequence Modeling with Selective State Spaces".
    """

    kind: str
    layers: frozenset[int]
    kernel: int
    heads: int = 0
    key_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    groups: int = 1
    gates_first: bool = True
    least_step: float = 0.0
    most_step: float = math.inf
    epsilon: float = 1e-6
    activation: str = ""
    step_rank: int = 0
    scan_norms: str = ""
    scan_epsilon: float = 1e-6

    @property
    def inner(self) -> int:
        """Width of all values."""
        return self.heads * self.value_size

    @property
    def keys(self) -> int:
        """Width of all keys."""
        return self.key_heads * self.key_size

    @property
    def conv_width(self) -> int:
        """Width of what is convolved; of "conv" that of the residual stream, which it does not know."""
        return self.inner + (0 if self.kind == "scan" else 2 * self.keys)


@dataclass(frozen=True)
class QueryScale:
    """Queries of later tokens are longer: by ``1 + gain log(1 + floor((position + offset) / length))``.

    Attributes:
        gain, length, offset: Of the formula.
        layers: That have it.

    Source: "Scalable-Softmax Is Superior for Attention", as Llama 4 and Ministral 3 have it.
    """

    gain: float
    length: float
    offset: int
    layers: frozenset[int]

    def table(self, positions: int) -> NDArray[np.float32]:
        """Return the factors, float32 [positions, 1]."""
        steps = np.floor((np.arange(positions, dtype=np.float64) + self.offset) / self.length)
        return np.asarray(1 + self.gain * np.log1p(steps), np.float32)[:, None]


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
        is_layer_norm: Norms take the mean away.
        has_norm_weights, has_norm_biases: Whether norms multiply, and, if they take the mean away, add.
        norms: Where norms stand: "before" attention and MLP, "after" them, "both"; "parallel" where attention
            and MLP read one residual stream through a norm each; "shared" where through the same.
        inner_norms: What the last layers of attention and MLP read is normed, too.
        embedding_norm: Embeddings are normed.
        is_gated: MLPs multiply two layers.
        learned_positions: Each position has a vector; then nothing rotates.
        position_offset: Of the vectors of positions, so many come before that of the first token.
        rotary: The rotation of queries and keys.
        interleaved: Pairs are neighbours.
        unrotated: Layers without rotation.
        tied: The head is the embedding.
        window: Tokens that each attends to; 0: all.
        windowed: Layers with the window.
        local_rotary: The rotation in layers with the window; None: the same.
        qk_norm: How queries and keys are normed: "head", head by head; "heads", with weights of its own for
            each; "whole"; "" not.
        qk_norm_biases: These norms add.
        norms_rotated: Queries and keys are normed behind the rotation.
        norm_offset: What is added to the weights of norms.
        has_sinks: Each head has one, see `numerics.cached_attention`.
        embedding_scale, residual_scale: Of embeddings, and of what attention and MLP add.
        activation: The function of MLPs: a name in `numerics.FUNCTIONS`, "linear" for none, "relu2" for the
            square of relu, or "quick_gelu" for x sigmoid(1.702 x).
        attention_scale: Of scores.
        attention_cap, logit_cap: See `numerics.cached_attention`; 0: none.
        logit_divisor: Logits are divided by it.
        clip: Queries, keys and values lie between its negative and it; 0: anywhere.
        longest: Positions for which all of this holds; 0: all.
        qkv_order: See `DecoderFamily`.
        experts: Of layers that have them in place of an MLP.
        latent: How queries, keys and values are made of shorter vectors; None: they are not.
        mixer: Of layers with states in place of keys and values.
        attention_layers: Layers with attention; None: all.
        mlp_layers: Layers with an MLP or experts; None: all.
        gates_attention: What attention makes is multiplied by a sigmoid of a product.
        input_factors: By role, what the products of a layer are multiplied by, in front of a bias.
        output_factors: Likewise behind it: so many outputs, and their factor, one pair after the other.
        biases: Roles of layers with a bias; None: the tensors of the file decide.
        linear_biases: What positions add to scores; None: nothing.
        query_scale: How queries grow with positions; None: they do not.
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
    qk_norm: str
    norm_offset: float
    norms: str
    embedding_scale: float
    activation: str
    attention_scale: float
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    logit_divisor: float = 1.0
    residual_scale: float = 1.0
    local_rotary: RotaryEmbedding | None = None
    is_layer_norm: bool = False
    has_norm_weights: bool = True
    has_norm_biases: bool = True
    inner_norms: bool = False
    embedding_norm: bool = False
    qk_norm_biases: bool = False
    norms_rotated: bool = False
    has_sinks: bool = False
    is_gated: bool = True
    learned_positions: bool = False
    position_offset: int = 0
    clip: float = 0.0
    longest: int = 0
    qkv_order: str = "parts"
    experts: Experts | None = None
    latent: LatentAttention | None = None
    mixer: Mixer | None = None
    attention_layers: frozenset[int] | None = None
    mlp_layers: frozenset[int] | None = None
    gates_attention: bool = False
    input_factors: Mapping[str, float] = field(default_factory=dict)
    output_factors: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    biases: frozenset[str] | None = None
    linear_biases: LinearBiases | None = None
    query_scale: QueryScale | None = None

    @property
    def cached_size(self) -> int:
        """Channels of a key in the cache: linear biases take one more."""
        return self.head_size + (self.linear_biases is not None)

    def has_attention(self, layer: int) -> bool:
        """Return whether a layer attends."""
        return self.attention_layers is None or layer in self.attention_layers

    def has_mixer(self, layer: int) -> bool:
        """Return whether a layer has a state."""
        return self.mixer is not None and layer in self.mixer.layers

    def has_mlp(self, layer: int) -> bool:
        """Return whether a layer has an MLP or experts."""
        return self.mlp_layers is None or layer in self.mlp_layers

    def cache_shapes(self) -> dict[str, tuple[int, int | None, int]]:
        """Return what layers keep: heads, tokens and size of each by name; None: as many tokens as there are.

        The name of what comes back begins with "new_".
        """
        shapes: dict[str, tuple[int, int | None, int]] = {}
        for layer in range(self.layers):
            if self.has_attention(layer):
                shapes |= {
                    f"{name}.{layer}": (self.kv_heads, None, self.cached_size) for name in ("keys", "values")
                }
            if self.mixer is None or not self.has_mixer(layer):
                continue
            mixer, is_conv = self.mixer, self.mixer.kind == "conv"
            columns = self.hidden if is_conv else mixer.conv_width
            if mixer.kernel > 1:
                shapes[f"convolved.{layer}"] = (1, mixer.kernel - 1, columns)
            if not is_conv:
                shapes[f"recurrent.{layer}"] = (mixer.heads, mixer.key_size, mixer.value_size)
        return shapes

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
        experts = self.experts
        if experts is not None:
            numbers = (experts.count, experts.chosen, experts.inner, experts.groups, experts.chosen_groups)
            whole = experts.chosen <= experts.count and experts.chosen_groups <= experts.groups
            if min(numbers) < 1 or max(numbers) > _MOST_SIZE or not whole or experts.count % experts.groups:
                got = f"{experts.count} experts in {experts.groups} groups, {experts.chosen} for each token"
                raise FileFormatError(where, got, "sizes that fit each other", "download the model again")
        mixer = self.mixer
        if mixer is not None and mixer.kind != "conv":
            of_state = (mixer.heads, mixer.key_heads, mixer.key_size, mixer.value_size)
            parts = max(mixer.groups, 1)
            if (
                min(of_state) < 1
                or max(of_state) > 2**16
                or mixer.heads % mixer.key_heads
                or mixer.inner % parts
            ):
                got = f"heads, keys and sizes of states {of_state} in {parts} groups"
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
