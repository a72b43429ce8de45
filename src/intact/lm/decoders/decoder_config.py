"""Sizes and variants of a decoder, from config.json or from the metadata of a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, IntactError, UnsupportedError
from intact.formats import INTERLEAVED

FAMILIES = (
    "llama", "mistral", "qwen2", "qwen3", "smollm3", "phi3", "granite", "gemma", "gemma2", "gemma3",
    "gemma3_text", "gpt2", "starcoder2",
)  # fmt: skip
"""Values of `model_type` in config.json, and of general.architecture in GGUF files, that are read."""

_MOST_LAYERS, _MOST_SIZE = 1024, 2**24


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
        rope_base: Of the rotation's wavelengths.
        rope_scaling: What config.json says of it; empty: nothing.
        rotary_pairs: Pairs of a head that rotate.
        interleaved: Pairs are neighbours.
        unrotated: Layers without rotation.
        tied: The head is the embedding.
        window: Tokens that each attends to; 0: all.
        windowed: Layers with the window.
        local_rope_base: `rope_base` of layers with the window, which then scale nothing; 0: the same.
        qk_norm: Whether queries and keys are normed head by head.
        norm_offset: What is added to the weights of norms.
        post_norms: Whether what attention and MLP make is normed, too.
        embedding_scale, residual_scale: Of embeddings, and of what attention and MLP add.
        activation: "silu" or "gelu_tanh".
        attention_scale: Of scores.
        attention_cap, logit_cap: See `numerics.cached_attention`; 0: none.
        logit_divisor: Logits are divided by it.
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
    rope_base: float
    rope_scaling: Mapping[str, Any]
    rotary_pairs: int
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
    local_rope_base: float = 0.0
    is_layer_norm: bool = False
    is_gated: bool = True
    learned_positions: bool = False

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
            and self.layers <= _MOST_LAYERS
            and self.heads % self.kv_heads == 0
            and 0 < self.context <= _MOST_SIZE
            and 0 < 2 * self.rotary_pairs <= self.head_size
            and len(self.rope_scaling.get("factors") or [1] * self.rotary_pairs) == self.rotary_pairs
            and all(map(math.isfinite, (self.epsilon, self.rope_base)))
            and self.rope_base > 0
        )
        if not fits:
            got = f"layers, sizes and heads {sizes}, context {self.context}"
            raise FileFormatError(where, got, "sizes that fit each other", "download the model again")
        _scale_speeds(np.ones(self.rotary_pairs), self.rope_scaling)
        return self

    def angles(self, positions: int, local: bool = False) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the cosines and sines of the rotation, [positions, pairs].

        `local`: of layers with the window. They are computed in float64 and rounded once.
        Source: "RoFormer"; Llama 3.1's scaling of wavelengths.
        """
        base = self.local_rope_base if local else self.rope_base
        speeds = base ** -(np.arange(self.rotary_pairs) / self.rotary_pairs)
        if not local:
            speeds = _scale_speeds(speeds, self.rope_scaling)
        angles = np.arange(positions)[:, None] * speeds
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _scale_speeds(speeds: NDArray[np.float64], scaling: Mapping[str, Any]) -> NDArray[np.float64]:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return speeds
    factor = float(scaling.get("factor") or 1.0)
    if kind == "linear":
        return speeds / factor
    if kind == "factors":
        return speeds / np.asarray(scaling["factors"], np.float64)
    if kind != "llama3":
        raise UnsupportedError(
            "rope_scaling", f"'{kind}'", "default, linear or llama3", "take a model without it"
        )
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    turns = float(scaling["original_max_position_embeddings"]) * speeds / (2 * np.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return speeds * (share + (1 - share) / factor)


@contextmanager
def wrong_values(where: str) -> Iterator[None]:
    """Turn what a value of another kind than expected leads to into the error for a damaged file."""
    try:
        yield
    except IntactError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        got = f"'{type(error).__name__}: {error}'"[:200]
        raise FileFormatError(where, got, "numbers of a decoder", "download the model again") from error


def config_from_json(config: Mapping[str, Any], where: str) -> DecoderConfig:
    """Read what config.json of a Hugging Face folder says.

    Raises:
        UnsupportedError: Another family.
        FileFormatError: A size is missing, or no size.
    """
    family = config.get("model_type")
    _require_family(family, where)
    config = _with_usual_names(dict(config), where)
    take = _taker(config, where)
    heads, hidden, layers = take("num_attention_heads"), take("hidden_size"), take("num_hidden_layers")
    rope = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or (rope if "rope_type" in rope else {})
    head_size = int(config.get("head_dim") or (256 if str(family).startswith("gemma") else hidden // heads))
    window, windowed = _window_of(config, layers)
    skips = config.get("no_rope_layers") if family == "smollm3" else None
    return DecoderConfig(
        family=str(family), layers=layers, hidden=hidden, inner=take("intermediate_size"),
        vocabulary=take("vocab_size"), heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads), head_size=head_size,
        context=int(config.get("max_position_embeddings", 2048)),
        epsilon=float(config.get("rms_norm_eps", 1e-6)),
        rope_base=float(config.get("rope_theta") or rope.get("rope_theta") or 10000.0), rope_scaling=scaling,
        rotary_pairs=int(head_size * float(config.get("partial_rotary_factor") or 1.0)) // 2,
        interleaved=False,
        unrotated=frozenset(i for i, turns in enumerate(skips or ()) if not turns),
        tied=bool(config.get("tie_word_embeddings", str(family).startswith(("gemma", "gpt2", "starcoder2")))),
        window=window, windowed=windowed,
        **_variant(str(family), hidden, float(config.get("query_pre_attn_scalar") or head_size), config),
    ).check(where)  # fmt: skip


def _with_usual_names(config: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the configuration of a GPT-2 or StarCoder 2 under the names that other families have."""
    family = config["model_type"]
    if family not in ("gpt2", "starcoder2"):
        return config
    curve = config.get("activation_function" if family == "gpt2" else "hidden_act", "gelu_pytorch_tanh")
    variants = [name for name in _UNREAD_VARIANTS if config.get(name)]
    if curve not in ("gelu_new", "gelu_pytorch_tanh") or variants:
        raise UnsupportedError(
            where, variants[0] if variants else f"activation '{curve}'", "a plain one with tanh's GELU",
            "export it to ONNX, and quantize and build that file",
        )  # fmt: skip
    if family == "starcoder2":
        return config | {"rms_norm_eps": config.get("norm_epsilon", 1e-5)}
    hidden, heads = config.get("n_embd"), config.get("n_head")
    return config | {
        "num_attention_heads": heads, "num_key_value_heads": heads, "hidden_size": hidden,
        "num_hidden_layers": config.get("n_layer"),
        "max_position_embeddings": config.get("n_positions", 1024),
        "intermediate_size": config.get("n_inner") or (4 * hidden if isinstance(hidden, int) else None),
        "rms_norm_eps": config.get("layer_norm_epsilon", 1e-5),
    }  # fmt: skip


_UNREAD_VARIANTS = ("scale_attn_by_inverse_layer_idx", "add_cross_attention")


def config_from_gguf(
    fields: Mapping[str, Any], names: frozenset[str], factors: tuple[float, ...], where: str
) -> DecoderConfig:
    """Read what the metadata of a GGUF file says.

    Args:
        fields: Values by key.
        names: Of the tensors.
        factors: Of the wavelengths, from a tensor of the file; empty: none.
        where: The file, for errors.
    Raises:
        As `config_from_json`.
    """
    family = fields.get("general.architecture")
    _require_family(family, where)
    short = {key.removeprefix(f"{family}."): value for key, value in fields.items()}
    take = _taker(short, where)
    heads, hidden, layers = take("attention.head_count"), take("embedding_length"), take("block_count")
    head_size = int(short.get("attention.key_length") or hidden // heads)
    words = short.get("vocab_size") or len(fields.get("tokenizer.ggml.tokens") or ())
    window = int(short.get("attention.sliding_window") or 0)
    kind = str(short.get("rope.scaling.type") or "none")
    scaling = {} if kind == "none" else {"rope_type": kind, "factor": short.get("rope.scaling.factor")}
    if factors:
        scaling = {"rope_type": "factors", "factors": factors}
    return DecoderConfig(
        family=str(family), layers=layers, hidden=hidden, inner=take("feed_forward_length"),
        vocabulary=int(words), heads=heads, kv_heads=int(short.get("attention.head_count_kv") or heads),
        head_size=head_size, context=int(short.get("context_length") or 2048),
        epsilon=float(
            short.get("attention.layer_norm_rms_epsilon") or short.get("attention.layer_norm_epsilon") or 1e-6
        ),
        rope_base=float(short.get("rope.freq_base") or 10000.0), rope_scaling=scaling,
        rotary_pairs=int(short.get("rope.dimension_count") or head_size) // 2,
        interleaved=family in INTERLEAVED,
        unrotated=frozenset(range(3, _few(layers), 4)) if family == "smollm3" else frozenset(),
        tied="output.weight" not in names, window=window,
        windowed=_gguf_windows(str(family), layers) if window else frozenset(),
        **_variant(str(family), hidden, float(head_size), {
            "attn_logit_softcapping": short.get("attn_logit_softcapping"),
            "final_logit_softcapping": short.get("final_logit_softcapping"),
            "attention_multiplier": short.get("attention.scale"),
            "embedding_multiplier": short.get("embedding_scale"),
            "residual_multiplier": short.get("residual_scale"), "logits_scaling": short.get("logit_scale"),
        }, is_offset_stored=True),
    ).check(where)  # fmt: skip


def _variant(
    family: str, hidden: int, scalar: float, config: Mapping[str, Any], is_offset_stored: bool = False
) -> dict[str, Any]:
    """Return what follows from the family; GGUF files have the offset of norms in their weights."""
    is_gemma, is_gemma3 = family.startswith("gemma"), family.startswith("gemma3")
    is_plain = family in ("gpt2", "starcoder2")
    scale = config.get("attention_multiplier")
    return {
        "qk_norm": family == "qwen3" or is_gemma3,
        "norm_offset": 1.0 if is_gemma and not is_offset_stored else 0.0,
        "post_norms": family == "gemma2" or is_gemma3,
        "embedding_scale": float(np.float32(math.sqrt(hidden))) if is_gemma
        else float(config.get("embedding_multiplier") or 1.0),
        "residual_scale": float(config.get("residual_multiplier") or 1.0),
        "activation": "gelu_tanh" if is_gemma or is_plain else "silu",
        "is_layer_norm": is_plain, "is_gated": not is_plain, "learned_positions": family == "gpt2",
        "attention_scale": float(scale) if scale else 1 / math.sqrt(scalar),
        "attention_cap": float(config.get("attn_logit_softcapping") or 0.0),
        "logit_cap": float(config.get("final_logit_softcapping") or 0.0),
        "logit_divisor": float(config.get("logits_scaling") or 1.0),
        "local_rope_base": float(config.get("rope_local_base_freq") or 10000.0) if is_gemma3 else 0.0,
    }  # fmt: skip


def _window_of(config: Mapping[str, Any], layers: int) -> tuple[int, frozenset[int]]:
    """Return the window of attention, and the layers that have it."""
    window = int(config.get("sliding_window") or 0)
    if not window or config.get("use_sliding_window") is False:
        return 0, frozenset()
    kinds = config.get("layer_types")
    if kinds:
        return window, frozenset(i for i, kind in enumerate(kinds) if kind == "sliding_attention")
    if str(config.get("model_type")).startswith("gemma"):
        return window, _gguf_windows(str(config["model_type"]).removesuffix("_text"), layers)
    first = max(int(config.get("max_window_layers") or 0), 0) if config.get("use_sliding_window") else 0
    return window, frozenset(range(first, _few(layers)))


def _few(layers: int) -> int:
    """Return as many layers as a decoder may have at most: the record refuses what is more."""
    return min(layers, _MOST_LAYERS)


def _gguf_windows(family: str, layers: int) -> frozenset[int]:
    """Return the layers with a window, which GGUF files leave to the family."""
    if family == "gemma3":
        return frozenset(i for i in range(_few(layers)) if (i + 1) % 6)
    return frozenset(range(0, _few(layers), 2 if family == "gemma2" else 1))


def _require_family(family: object, where: str) -> None:
    if family not in FAMILIES:
        raise UnsupportedError(
            where, f"a model of the family {family!r}", ", ".join(FAMILIES),
            "export it to ONNX, and quantize and build that file",
        )  # fmt: skip


def _taker(config: Mapping[str, Any], where: str) -> Callable[[str], int]:
    """Return what reads a size, which must be there."""

    def take(key: str) -> int:
        value = config.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise FileFormatError(where, f"{key} {value!r}", "a size", "download the model again")
        return value

    return take
