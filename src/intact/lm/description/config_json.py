"""Reads config.json of Hugging Face folders, as transformers 5 means it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from intact.errors import UnsupportedError
from intact.formats import MetadataFields
from intact.graph import ops
from intact.lm.description.decoder_config import MOST_LAYERS, DecoderConfig
from intact.lm.description.families import FAMILIES, FIXED, HARMLESS, SYNONYMS, DecoderFamily
from intact.lm.description.rotary_embedding import RotaryEmbedding

_FUNCTIONS: Mapping[str, str] = {
    **{name: variant.step or name for _, variant in ops.VARIANTS for name in variant.models},
    **{name: name for name in ("linear", "relu2")},
}
"""Names that transformers has for functions of MLPs."""
_MODALITIES = ("vision_config", "text_config", "audio_config", "image_token_id", "image_token_index")
_FULL, _SLIDING = "full_attention", "sliding_attention"
_ROPE_FIELDS = (
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "partial_rotary_factor",
    "rope_local_base_freq",
)
_WITHOUT = "the family has no such variant, and this says so"
_CLASSES = ("ForCausalLM", "LMHeadModel", "Model", "TextModel", "TextForCausalLM")
"""Ends of the names of classes whose logits are those of a language model."""
_SIZE, _LONGEST = 2**24, 2**31 - 1


def config_from_json(fields: MetadataFields) -> DecoderConfig:
    """Read what config.json says of a decoder.

    Fields that `families.HARMLESS` lists change nothing. What is left is refused by the caller.

    Raises:
        UnsupportedError: Another family, or a variant that is not computed.
        FileFormatError: A field is missing or of another kind, or two contradict each other.
    """
    return _ConfigReader(fields, family_of(fields)).read()


def family_of(fields: MetadataFields) -> DecoderFamily:
    """Return the family that config.json names.

    Raises:
        UnsupportedError: Another one, or a model that reads more than text.
    """
    kind = fields.take("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES or any(key in fields for key in _MODALITIES[:1]):
        if beside := [key for key in _MODALITIES if key in fields]:
            raise UnsupportedError(
                fields.file, f"a model of the family {kind!r} that reads more than text ({beside[0]})",
                f"a text model: {', '.join(FAMILIES)}",
                "take the text model of the family, or export the language part to ONNX",
            )  # fmt: skip
        raise UnsupportedError(
            fields.file, f"a model of the family {kind!r}", ", ".join(FAMILIES),
            "export it to ONNX, and quantize and build that file",
        )  # fmt: skip
    return FAMILIES[kind]


class _ConfigReader:
    """Reads the fields of one configuration."""

    def __init__(self, fields: MetadataFields, family: DecoderFamily) -> None:
        self._fields, self._family = fields, family
        self._values: dict[str, float] = {}

    def read(self) -> DecoderConfig:
        family = self._family
        self._check_class()
        layers = self._integer("num_hidden_layers", most=MOST_LAYERS)
        hidden, heads = self._integer("hidden_size"), self._integer("num_attention_heads")
        head_size = self._integer("head_dim", hidden // max(heads, 1))
        inner = self._integer("intermediate_size", 4 * hidden if family.learned_positions else None)
        window, windowed = self._windows(layers)
        rotary, local = self._rotaries(head_size)
        config = DecoderConfig(
            family=family.name, layers=layers, hidden=hidden, inner=inner,
            vocabulary=self._integer("vocab_size"), heads=heads,
            kv_heads=self._integer("num_key_value_heads", heads), head_size=head_size,
            context=min(self._integer("max_position_embeddings", most=_LONGEST), _SIZE),
            epsilon=self._number("rms_norm_eps", 0.0), rotary=rotary, local_rotary=local, interleaved=False,
            unrotated=self._layers_without_rotation(layers), tied=self._flag("tie_word_embeddings", False),
            window=window, windowed=windowed, qk_norm=family.qk_norm, norm_offset=family.norm_offset,
            post_norms=family.post_norms, activation=self._activation(),
            attention_scale=self._scale(head_size),
            embedding_scale=float(np.float32(math.sqrt(hidden))) if family.scales_embedding
            else self._number("embedding_multiplier", 1.0),
            attention_cap=self._cap("attn_logit_softcapping"), logit_cap=self._cap("final_logit_softcapping"),
            logit_divisor=self._number("logits_scaling", 1.0),
            residual_scale=self._number("residual_multiplier", 1.0), is_layer_norm=family.is_layer_norm,
            is_gated=family.is_gated, learned_positions=family.learned_positions, biases=self._biases(),
        )  # fmt: skip
        self._check_synonyms()
        for key, values in FIXED.items():
            self._fields.require(key, values, _WITHOUT)
        self._fields.harmless(HARMLESS)
        return config.check(self._fields.file)

    def _check_class(self) -> None:
        """Refuse a class with another head than that of a language model."""
        names = self._fields.items("architectures", str) or []
        classes = {f"{self._family.architecture}{end}".lower() for end in _CLASSES}
        if any(name.lower() not in classes for name in names):
            self._fields.refuse("architectures", f"{self._family.architecture}ForCausalLM")

    def _name(self, key: str) -> str:
        """Return the name under which the family has a field."""
        own = self._family.own_names.get(key, key)
        return key if own not in self._fields and key in self._family.mapped else own

    def _check_synonyms(self) -> None:
        """Let names that other families have for a field repeat its value, and refuse other values."""
        for key, value in self._values.items():
            own = self._name(key)
            for name in {key, *SYNONYMS.get(key, ())} - {own}:
                if name not in self._fields:
                    continue
                if self._fields.peek(name) != value:
                    raise self._fields.contradiction(name, f"{own} is {value!r:.60}", "one value for both")
                self._fields.harmless({name: f"it repeats {own}"})

    def _has(self, key: str, absent: Any) -> bool:
        """Return whether the family has a field; otherwise refuse another value of it than `absent`."""
        if key in self._family.defaults:
            return True
        self._fields.require(key, (absent,), _WITHOUT)
        return False

    def _integer(self, key: str, default: int | None = None, most: int = _SIZE) -> int:
        if not self._has(key, default):
            assert default is not None
            return default
        usual = self._family.defaults[key]
        value = self._fields.integer(self._name(key), default if usual is None else usual, least=1, most=most)
        self._values[key] = value
        return value

    def _number(self, key: str, absent: float) -> float:
        if not self._has(key, absent):
            return absent
        value = self._values[key] = self._fields.number(self._name(key), self._family.defaults[key])
        return value

    def _flag(self, key: str, absent: bool) -> bool:
        if not self._has(key, absent):
            return absent
        return self._fields.flag(self._name(key), self._family.defaults[key])

    def _cap(self, key: str) -> float:
        """Return a bound of tanh; 0 for none, which null says."""
        if not self._has(key, None):
            return 0.0
        if self._fields.take(key, self._family.defaults[key]) is None:
            return 0.0
        return self._fields.number(key, self._family.defaults[key], least=1e-6)

    def _activation(self) -> str:
        """Return the function of MLPs; the name that belongs to other families may only repeat it."""
        key = "hidden_activation" if "hidden_activation" in self._family.defaults else "hidden_act"
        name = self._fields.choice(self._name(key), _FUNCTIONS, self._family.defaults[key])
        if (
            self._family.name == "gemma" and name == "gelu"
        ):  # as the first files said it, and transformers mends it
            name = "gelu_pytorch_tanh"
        other = "hidden_act" if key == "hidden_activation" else "hidden_activation"
        if other in self._fields:
            stray = self._fields.choice(other, _FUNCTIONS, name)
            is_old_gemma = self._family.name.startswith("gemma") and stray == "gelu"
            if _FUNCTIONS.get(stray) != _FUNCTIONS[name] and not is_old_gemma:
                raise self._fields.contradiction(other, f"{self._name(key)} = {name!r}", "one function")
        return _FUNCTIONS[name]

    def _scale(self, head_size: int) -> float:
        """Return the scale of scores."""
        if not self._flag("scale_attn_weights", True):
            return 1.0
        if self._has("attention_multiplier", None):
            return self._number("attention_multiplier", 1.0)
        return 1 / math.sqrt(max(self._number("query_pre_attn_scalar", float(head_size)), 1e-30))

    def _biases(self) -> frozenset[str]:
        roles = set(self._family.biases)
        if self._flag("attention_bias", "q" in roles):
            roles |= {"q", "k", "v", "o"} if "attention_bias" in self._family.defaults else set()
        if self._flag("mlp_bias", "up" in roles):
            roles |= {"gate", "up", "down"} if "mlp_bias" in self._family.defaults else set()
        if self._flag("use_bias", False):
            roles |= {"q", "k", "v", "o", "up", "down"}
        return frozenset(roles)

    def _layers_without_rotation(self, layers: int) -> frozenset[int]:
        """Return the layers without rotation."""
        if not self._has("no_rope_layers", None):
            self._fields.require("no_rope_layer_interval", (), _WITHOUT)
            return frozenset()
        default = self._family.defaults["no_rope_layer_interval"]
        interval = self._fields.integer("no_rope_layer_interval", default, least=1)
        turns = self._fields.items("no_rope_layers", (int, bool))
        if turns is None:
            return frozenset(range(interval - 1, layers, interval))
        if len(turns) < layers:
            raise self._fields.error("no_rope_layers", f"a list of {layers}")
        return frozenset(layer for layer in range(layers) if not turns[layer])

    def _windows(self, layers: int) -> tuple[int, frozenset[int]]:
        """Return the window of attention, 0 for none, and the layers that have it."""
        fields, defaults = self._fields, self._family.defaults
        may_slide = self._flag("use_sliding_window", "sliding_window" in defaults)
        if not self._has("sliding_window", None):
            for key in ("layer_types", "max_window_layers", "sliding_window_pattern"):
                fields.require(key, ([_FULL] * layers,), _WITHOUT)
            return 0, frozenset()
        size = fields.take("sliding_window", defaults["sliding_window"])
        size = 0 if size is None else fields.integer("sliding_window", defaults["sliding_window"], least=1)
        size = min(size, _SIZE) if may_slide else 0
        usual = self._usual_windows(layers, size)
        if not self._has("layer_types", [_FULL] * layers):
            return size, usual
        kinds = fields.items("layer_types", str, layers)
        if kinds is None:
            return size, usual if size else frozenset()
        if not set(kinds) <= {_FULL, _SLIDING}:
            fields.refuse("layer_types", f"{_FULL} and {_SLIDING}")
        windowed = frozenset(layer for layer, kind in enumerate(kinds) if kind == _SLIDING)
        if windowed and not size:
            raise fields.contradiction(
                "layer_types", "no sliding_window is used", "a window for these layers"
            )
        return size, windowed

    def _usual_windows(self, layers: int, size: int) -> frozenset[int]:
        """Return the layers with a window where `layer_types` does not say them."""
        fields, period = self._fields, self._family.window_period
        fields.harmless({"_sliding_window_pattern": "layer_types says it"})
        if self._has("sliding_window_pattern", period or None):
            period = self._integer("sliding_window_pattern", period)
        begin = self._integer("max_window_layers", 0) if self._has("max_window_layers", None) else 0
        if self._family.name == "smollm3":
            return self._layers_without_rotation(layers) if size else frozenset()
        return frozenset(layer for layer in range(begin, layers) if not period or (layer + 1) % period)

    def _rotaries(self, head_size: int) -> tuple[RotaryEmbedding, RotaryEmbedding | None]:
        """Return the rotation, and that of layers with a window where it is another one."""
        if self._family.learned_positions:
            for key in _ROPE_FIELDS:
                self._fields.require(key, (), _WITHOUT)
            return RotaryEmbedding(self._family.rope_base, max(head_size // 2, 1)), None
        reader = _RotaryReader(self._fields, self._family, head_size)
        return reader.by_layer_type() if self._family.name == "gemma3_text" else (reader.flat(), None)


class _RotaryReader:
    """Reads `rope_parameters`, and the fields before it: `rope_scaling`, `rope_theta` and others."""

    def __init__(self, fields: MetadataFields, family: DecoderFamily, head_size: int) -> None:
        self._fields, self._family, self._head_size = fields, family, head_size

    def flat(self) -> RotaryEmbedding:
        """Read one rotation for all layers."""
        fields = self._fields
        fields.require("rope_local_base_freq", (), _WITHOUT)
        inner, old = fields.inner_fields("rope_parameters"), fields.inner_fields("rope_scaling")
        if (
            inner is not None
            and old is not None
            and fields.take("rope_scaling") != fields.take("rope_parameters")
        ):
            both = set(fields.take("rope_scaling").items()) <= set(fields.take("rope_parameters").items())
            if not both:
                raise fields.contradiction("rope_scaling", "rope_parameters says otherwise", "one of them")
        return self._read(inner or old, "rope_theta", self._family.rope_base)

    def by_layer_type(self) -> tuple[RotaryEmbedding, RotaryEmbedding]:
        """Read one rotation for layers with full attention, and one for those with a window."""
        fields = self._fields
        inner, old = fields.inner_fields("rope_parameters"), fields.inner_fields("rope_scaling")
        full = inner.inner_fields(_FULL) if inner is not None else None
        sliding = inner.inner_fields(_SLIDING) if inner is not None else None
        if full is not None and old is not None:
            raise fields.contradiction("rope_scaling", f"rope_parameters.{_FULL} says it, too", "one of them")
        return (
            self._read(full if full is not None else old, "rope_theta", self._family.rope_base),
            self._read(sliding, "rope_local_base_freq", 10000.0),
        )

    def _read(self, inner: MetadataFields | None, outer_key: str, default: float) -> RotaryEmbedding:
        base = self._common_number(inner, "rope_theta", outer_key, default)
        share = self._common_number(inner, "partial_rotary_factor", "partial_rotary_factor", 1.0)
        if share != 1.0 and not self._family.has_partial_rotary:
            (inner if inner is not None and "partial_rotary_factor" in inner else self._fields).refuse(
                "partial_rotary_factor", "1.0: the family rotates whole heads"
            )
        pairs = int(self._head_size * share) // 2
        inner = inner if inner is not None else MetadataFields({}, self._fields.file)
        kind = self._kind(inner)
        if kind == "linear":
            return RotaryEmbedding(base, pairs, kind, inner.number("factor", least=1e-6))
        if kind == "llama3":
            longest = self._fields.integer(
                "max_position_embeddings", self._family.defaults["max_position_embeddings"]
            )
            return RotaryEmbedding(
                base, pairs, kind, inner.number("factor", least=1e-6), inner.number("low_freq_factor"),
                inner.number("high_freq_factor"), inner.number("original_max_position_embeddings", longest),
            )  # fmt: skip
        self._fields.harmless({"original_max_position_embeddings": "the rotation is not stretched"})
        return RotaryEmbedding(base, pairs)

    def _kind(self, inner: MetadataFields) -> str:
        key = "rope_type" if "rope_type" in inner or "type" not in inner else "type"
        kind = inner.choice(key, ("default", "linear", "llama3"), "default")
        if key == "rope_type" and "type" in inner and inner.take("type") != kind:
            raise inner.contradiction("type", f"rope_type = {kind!r}", "one kind")
        return kind

    def _common_number(self, inner: MetadataFields | None, key: str, outer_key: str, default: float) -> float:
        """Return a number of `rope_parameters`, or beside it; where it is in both, it has to be the same."""
        outer = self._fields.number(outer_key, default)
        if inner is None or key not in inner:
            return outer
        value = inner.number(key)
        if outer_key in self._fields and outer != value:
            raise self._fields.contradiction(outer_key, f"rope_parameters.{key} = {value:g}", "one value")
        return value
