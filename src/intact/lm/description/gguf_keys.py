"""Reads the metadata of GGUF files, as llama.cpp means it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from intact.errors import UnsupportedError
from intact.formats import INTERLEAVED, MetadataFields
from intact.lm.description.decoder_config import MOST_LAYERS, DecoderConfig
from intact.lm.description.families import FAMILIES
from intact.lm.description.families.decoder_family import DecoderFamily
from intact.lm.description.rotary_embedding import RotaryEmbedding

_SIZE = 2**24
_LOCAL_BASE = 10000.0


@dataclass(frozen=True)
class _Architecture:
    """Says what llama.cpp takes for one value of general.architecture.

    Attributes:
        family: Whose layers it has.
        window: By default; None: the key is not read.
        window_period: Every so many layers one has no window.
        score_cap, logit_cap: By default; None: the key is not read.
        scales: Whether the keys of Granite's factors are read.
        unrotated_period: Every so many layers one does not rotate.
        has_partial_rotary: Whether heads may rotate in part.
        large: Number of layers of the size whose scores are scaled by the width of the residual stream.
    """

    family: DecoderFamily
    window: int | None = None
    window_period: int = 0
    score_cap: float | None = None
    logit_cap: float | None = None
    scales: bool = False
    unrotated_period: int = 0
    has_partial_rotary: bool = False
    large: int = 0


ARCHITECTURES: Mapping[str, _Architecture] = {
    **{name: _Architecture(FAMILIES[name]) for name in ("llama", "qwen2", "qwen3", "gpt2", "starcoder2")},
    **{name: _Architecture(FAMILIES[name], has_partial_rotary=True) for name in ("phi3", "gemma")},
    "smollm3": _Architecture(FAMILIES["smollm3"], unrotated_period=4),
    "granite": _Architecture(FAMILIES["granite"], scales=True),
    "gemma2": _Architecture(FAMILIES["gemma2"], window=4096, window_period=2, score_cap=50.0, logit_cap=30.0,
                            has_partial_rotary=True, large=46),
    "gemma3": _Architecture(FAMILIES["gemma3_text"], window=0, window_period=6, logit_cap=0.0,
                            has_partial_rotary=True, large=62),
}  # fmt: skip
"""By general.architecture. Source: llama.cpp, `load_hparams`, 2026."""

_IMAGES = ("the part of a model that reads images or sound", "give the file of its language model")
_OTHER_FILES: Mapping[Any, tuple[str, str]] = {
    "adapter": ("an adapter", "merge it into its model by llama.cpp's llama-export-lora"),
    **dict.fromkeys(("mmproj", "clip", "clip-vision"), _IMAGES),
    "imatrix": ("statistics of activations", "give the file of the model"),
    "controlvector": ("a control vector", "give the file of the model"),
}  # fmt: skip
"""By general.type or general.architecture: what a file without a language model is, and what to do."""
_NAMES = "it names where the file comes from"
_TYPES, _QUANTIZED = "tensors say their own types", "it says how the file was quantized"
_HARMLESS_PREFIXES = {
    "general.sampling.": "requests choose how tokens are drawn",
    "general.alignment": "the tensors lie where it says", "general.file_type": _TYPES,
    "general.quantization_version": _TYPES, "general.": _NAMES, "quantize.": _QUANTIZED,
    "imatrix.": _QUANTIZED, "split.": "the parts of the file are read together",
}  # fmt: skip
_YARN = "YaRN alone reads it"
_HARMLESS = {
    "rope.scaling.original_context_length": _YARN, "rope.scaling.finetuned": "no file is computed otherwise",
    "rope.scaling.yarn_log_multiplier": _YARN, "rope.scaling.yarn_beta_fast": _YARN,
    "rope.scaling.yarn_beta_slow": _YARN, "rope.scaling.yarn_ext_factor": _YARN,
    "rope.scaling.yarn_attn_factor": _YARN, "tensor_data_layout": "llama.cpp does not read it",
}  # fmt: skip
_OFF = "this says that the model has no such variant"
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "expert_count": (0,), "expert_used_count": (0,), "attention.max_alibi_bias": (0.0, 0),
    "attention.clamp_kqv": (0.0, 0), "attention.causal": (True,), "use_parallel_residual": (),
    "rope.scaling.attn_factor": (1.0,), "leading_dense_block_count": (0,), "nextn_predict_layers": (0,),
}  # fmt: skip


def config_from_gguf(
    fields: MetadataFields, names: frozenset[str], divisors: tuple[float, ...]
) -> DecoderConfig:
    """Read what the metadata of a GGUF file say of a decoder.

    Args:
        fields: Keys of the file.
        names: Of the tensors.
        divisors: Of the wavelengths, from a tensor of the file; empty: none.
    Raises:
        UnsupportedError: Another architecture, or a variant that is not computed.
        FileFormatError: A key is missing or of another kind, or two contradict each other.
    """
    kind, name = fields.text("general.type", "model"), fields.text("general.architecture")
    for key, value in (("general.type", kind), ("general.architecture", name)):
        if value in _OTHER_FILES:
            what, fix = _OTHER_FILES[value]
            raise UnsupportedError(fields.file, f"{what} ({key} = {value!r})", "a language model", fix)
    if kind != "model":
        raise UnsupportedError(
            fields.file, f"general.type = {kind!r:.40}", "a model", "give the file of a language model"
        )
    if name not in ARCHITECTURES:
        raise UnsupportedError(
            fields.file, f"a model of the architecture {name!r:.40} (general.architecture)",
            ", ".join(ARCHITECTURES),
            "take its Hugging Face folder, export that to ONNX, and quantize and build the file",
        )  # fmt: skip
    return _KeyReader(fields, name, ARCHITECTURES[name]).read(names, divisors)


class _KeyReader:
    """Reads the keys of one architecture, which begin with its name."""

    def __init__(self, fields: MetadataFields, name: str, architecture: _Architecture) -> None:
        self._fields, self._name, self._architecture = fields, name, architecture

    def read(self, names: frozenset[str], divisors: tuple[float, ...]) -> DecoderConfig:
        about, family = self._architecture, self._architecture.family
        layers = self._integer("block_count", most=MOST_LAYERS)
        hidden, heads = self._integer("embedding_length"), self._same("attention.head_count", layers)
        kv_heads = self._same("attention.head_count_kv", layers, heads)
        if heads % kv_heads:
            own = f"{self._key('attention.head_count')} = {heads}"
            key = self._key("attention.head_count_kv")
            raise self._fields.contradiction(key, own, "a number that divides it")
        head_size = self._head_size(hidden // max(heads, 1))
        window, windowed = self._windows(layers)
        rotary, local = self._rotaries(head_size, divisors, bool(windowed))
        epsilon = "layer_norm_epsilon" if family.is_layer_norm else "layer_norm_rms_epsilon"
        embedding = float(np.float32(math.sqrt(hidden))) if family.scales_embedding else 1.0
        config = DecoderConfig(
            family=self._name, layers=layers, hidden=hidden, inner=self._same("feed_forward_length", layers),
            vocabulary=self._vocabulary(), heads=heads, kv_heads=kv_heads, head_size=head_size,
            context=min(self._integer("context_length", most=2**31 - 1), _SIZE),
            epsilon=self._number(f"attention.{epsilon}"), rotary=rotary, local_rotary=local,
            interleaved=self._name in INTERLEAVED, unrotated=self._layers_without_rotation(layers),
            tied="output.weight" not in names, window=window, windowed=windowed, qk_norm=family.qk_norm,
            norm_offset=0.0, norms=family.norms, activation=self._activation(),
            embedding_scale=self._factor("embedding_scale", embedding),
            residual_scale=self._factor("residual_scale", 1.0),
            logit_divisor=self._factor("logit_scale", 1.0),
            attention_scale=self._scale(layers, hidden, heads, head_size),
            attention_cap=self._cap("attn_logit_softcapping", about.score_cap),
            logit_cap=self._cap("final_logit_softcapping", about.logit_cap),
            is_layer_norm=family.is_layer_norm, is_gated=family.is_gated,
            learned_positions=family.learned_positions,
        )  # fmt: skip
        self._rest()
        return config.check(self._fields.file)

    def _rest(self) -> None:
        """List what changes nothing, and hold the rest to what a plain decoder has."""
        fields, name = self._fields, self._name
        if self._architecture.scales:  # llama.cpp takes this key for whether anything rotates
            fields.require(f"{name}.rope.scaling.finetuned", (True,), _OFF)
        fields.harmless({f"{name}.{key}": reason for key, reason in _HARMLESS.items()})
        for key, values in _FIXED.items():
            fields.require(f"{name}.{key}", values, _OFF)
        fields.harmless({
            key: reason for key in fields for prefix, reason in _HARMLESS_PREFIXES.items()
            if key.startswith(prefix)
        })  # fmt: skip

    def _key(self, key: str) -> str:
        return f"{self._name}.{key}"

    def _integer(self, key: str, default: int | None = None, most: int = _SIZE) -> int:
        return self._fields.integer(self._key(key), default, least=1, most=most)

    def _number(self, key: str, default: float | None = None, least: float = -1e38) -> float:
        return self._fields.number(self._key(key), default, least)

    def _same(self, key: str, layers: int, default: int | None = None) -> int:
        """Return a size that may stand there for each layer, and has to be the same for all."""
        full = self._key(key)
        if isinstance(self._fields.take(full), list):
            sizes = self._fields.items(full, int, layers) or []
            if len(set(sizes)) != 1 or not 0 < sizes[0] <= _SIZE:
                self._fields.refuse(full, "one size for all layers")
            return int(sizes[0])
        return self._integer(key, default)

    def _head_size(self, usual: int) -> int:
        size = self._integer("attention.key_length", max(usual, 1))
        if (value := self._integer("attention.value_length", size)) != size:
            self._fields.refuse(self._key("attention.value_length"), f"{size}, as keys have, not {value}")
        return size

    def _vocabulary(self) -> int:
        """Return how many tokens there are."""
        words = self._fields.peek("tokenizer.ggml.tokens")
        count = len(words) if isinstance(words, list) else None
        size = self._integer("vocab_size", count)
        if count is not None and size != count:
            raise self._fields.contradiction(
                self._key("vocab_size"), f"tokenizer.ggml.tokens has {count}", "one number of tokens"
            )
        return size

    def _activation(self) -> str:
        return (
            "gelu_tanh"
            if self._name.startswith("gemma") or not self._architecture.family.is_gated
            else "silu"
        )

    def _cap(self, key: str, default: float | None) -> float:
        """Return a bound of tanh, 0 for none; where the key is not read, it is left to be refused."""
        if default is None:
            return 0.0
        return self._fields.number(self._key(key), default, least=1e-6 if default else 0.0)

    def _factor(self, key: str, otherwise: float) -> float:
        """Return one of Granite's factors; 0 means 1, but that logits are not divided by it."""
        if not self._architecture.scales:
            return otherwise
        if key == "logit_scale" and not self._number(key):
            self._fields.refuse(self._key(key), "another number than 0")
        return self._number(key, 0.0) or otherwise

    def _scale(self, layers: int, hidden: int, heads: int, head_size: int) -> float:
        """Return the scale of scores."""
        if self._architecture.scales and (scale := self._number("attention.scale", 0.0)):
            return scale
        if layers == self._architecture.large:
            return 1 / math.sqrt(hidden // heads)
        return 1 / math.sqrt(head_size)

    def _layers_without_rotation(self, layers: int) -> frozenset[int]:
        period = self._architecture.unrotated_period
        return frozenset(range(period - 1, layers, period)) if period else frozenset()

    def _windows(self, layers: int) -> tuple[int, frozenset[int]]:
        """Return the window of attention, 0 for none, and the layers that have it."""
        key, about = self._key("attention.sliding_window"), self._architecture
        if about.window is None:
            longest = self._fields.peek(self._key("context_length"))
            window = self._fields.peek(key)
            if isinstance(window, int) and isinstance(longest, int) and window >= longest:
                self._fields.harmless({key: "it is as long as the context"})
            else:
                self._fields.require(key, (0,), _OFF)
            return 0, frozenset()
        window = min(self._fields.integer(key, about.window), _SIZE)
        if about.window and not window:  # llama.cpp then attends to nothing
            self._fields.refuse(key, "1 or more")
        pattern = self._key("attention.sliding_window_pattern")
        if not window:
            self._fields.harmless({pattern: "no layer has a window"})
            return 0, frozenset()
        period = self._fields.integer(pattern, about.window_period)
        return window, frozenset(layer for layer in range(layers) if not period or (layer + 1) % period)

    def _pairs(self, head_size: int) -> int:
        """Return how many pairs of a head rotate."""
        key = self._key("rope.dimension_count")
        width = self._integer("rope.dimension_count", head_size)
        if key in self._fields and (width > head_size or width % 2):
            raise self._fields.contradiction(key, self._head_text(head_size), "an even number, at most that")
        if width != head_size and not self._architecture.has_partial_rotary:
            self._fields.refuse(key, f"whole heads, as the architecture has: {self._head_text(head_size)}")
        return max(width // 2, 1)

    def _head_text(self, head_size: int) -> str:
        """Return how long heads are, with the keys that say so."""
        length = self._key("attention.key_length")
        heads = f"{self._key('embedding_length')} / {self._key('attention.head_count')}"
        return f"heads have {head_size} by {length if length in self._fields else heads}"

    def _rotaries(
        self, head_size: int, divisors: tuple[float, ...], has_windows: bool
    ) -> tuple[RotaryEmbedding, RotaryEmbedding | None]:
        """Return the rotation, and that of layers with a window where it is another one."""
        pairs = self._pairs(head_size)
        base, swa = self._number("rope.freq_base", 10000.0, 1e-6), self._key("rope.freq_base_swa")
        kind = self._fields.choice(self._key("rope.scaling.type"), ("none", "linear"), "linear")
        # The older key counts where the newer one is missing.
        older = self._number("rope.scale_linear", 0.0, 0.0)
        factor = self._number("rope.scaling.factor", older, 0.0) or 1.0
        factor = 1.0 if kind == "none" else factor
        scaled = (
            RotaryEmbedding(base, pairs) if factor == 1.0 else RotaryEmbedding(base, pairs, "linear", factor)
        )
        if divisors:
            whole = tuple(divisor * factor for divisor in divisors)
            scaled = RotaryEmbedding(base, pairs, "factors", divisors=whole)
        if not self._architecture.window_period:
            return scaled, None
        if not has_windows:
            self._fields.harmless({swa: "no layer has a window"})
            return scaled, None
        if self._name == "gemma2":
            return scaled, replace(scaled, base=self._fields.number(swa, base, 1e-6))
        return scaled, RotaryEmbedding(self._fields.number(swa, _LOCAL_BASE, 1e-6), pairs)
