"""Reads config.json of Hugging Face folders, as transformers 5 means it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from intact.errors import UnsupportedError
from intact.formats import MetadataFields
from intact.graph import ops
from intact.lm.description.decoder_config import (
    MOST_LAYERS,
    DecoderConfig,
    Experts,
    LatentAttention,
    QueryScale,
)
from intact.lm.description.expert_fields import layer_parts, read_experts, read_latent
from intact.lm.description.families import FAMILIES
from intact.lm.description.families.config_fields import FIXED, HARMLESS, SYNONYMS
from intact.lm.description.families.decoder_family import DecoderFamily
from intact.lm.description.mixer_fields import mixer_biases, read_mixer, with_factors
from intact.lm.description.position_fields import read_biased_attention
from intact.lm.description.rope_fields import FULL, ROPE_FIELDS, SLIDING, RotaryReader, yarn_strength
from intact.lm.description.rotary_embedding import RotaryEmbedding

_FUNCTIONS: Mapping[str, str] = {
    **{name: variant.step or name for _, variant in ops.VARIANTS for name in variant.models},
    **{name: name for name in ("linear", "relu2")},
}
"""Names that transformers has for functions of MLPs."""
_MODALITIES = ("vision_config", "text_config", "audio_config", "image_token_id", "image_token_index")
_WITHOUT = "the family has no such variant, and this says so"
_CLASSES = ("ForCausalLM", "LMHeadModel", "Model", "TextModel", "TextForCausalLM")
"""Ends of the names of classes whose logits are those of a language model."""
_SIZE, _LONGEST = 2**24, 2**31 - 1
_TAKEN_OVER = (
    "is_layer_norm", "has_norm_weights", "has_norm_biases", "inner_norms", "embedding_norm", "qk_norm_biases",
    "norms_rotated", "has_sinks", "is_gated", "learned_positions", "position_offset", "gates_attention",
)  # fmt: skip
"""Attributes that a decoder has from its family."""


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
        self._longest, self._unrotated = 0, frozenset[int]()
        self._query_scale: QueryScale | None = None

    def read(self) -> DecoderConfig:
        family = self._family
        self._check_class()
        has_parts = family.mixer is not None and family.mixer.layers == "parts"
        if has_parts:
            layers = len(layer_parts(self._fields))
            self._fields.harmless({"num_hidden_layers": "the list of layers says it"})
        else:
            layers = self._integer("num_hidden_layers", most=MOST_LAYERS)
        hidden = self._integer("hidden_size")
        heads = self._integer("num_attention_heads") if family.has_attention else 1
        latent = read_latent(self._fields, family, hidden // max(heads, 1))
        head_size = self._integer("head_dim", hidden // max(heads, 1)) if latent is None else latent.head_size
        epsilon = self._number("rms_norm_eps", family.epsilon)
        mixer, attention = None, None
        if family.mixer is not None:
            mixer, attention = read_mixer(self._fields, family.mixer, layers, hidden, epsilon)
        window, windowed = self._windows(layers)
        rotary, local = self._rotaries(head_size if latent is None else latent.rotated, windowed, layers)
        kv_heads, qkv_order = self._kv_heads(heads)
        biased = read_biased_attention(self._fields, family, heads, kv_heads, head_size)
        if biased.biases is not None:
            self._unrotated = frozenset(range(layers))
        scale = self._scale(head_size) * self._strength(latent) if biased.scale is None else biased.scale
        config = DecoderConfig(
            family=family.name, layers=layers, hidden=hidden, inner=self._inner(hidden),
            vocabulary=self._integer("vocab_size"), heads=heads, kv_heads=kv_heads, head_size=head_size,
            context=min(self._integer("max_position_embeddings", _LONGEST, most=_LONGEST), _SIZE),
            longest=self._longest,
            epsilon=epsilon, mixer=mixer, attention_layers=attention, rotary=rotary, local_rotary=local,
            interleaved=self._flag("rope_interleave", family.interleaved),
            unrotated=self._unrotated | self._layers_without_rotation(layers, windowed),
            tied=self._flag("tie_word_embeddings", False), window=window, windowed=windowed,
            norms=self._norms(), qk_norm=self._qk_norm(), norm_offset=family.norm_offset,
            activation=self._activation(), attention_scale=scale, linear_biases=biased.biases,
            query_scale=self._query_scale,
            embedding_scale=self._embedding_scale(hidden), attention_cap=self._cap("attn_logit_softcapping"),
            logit_cap=self._cap("final_logit_softcapping"), clip=biased.clip or self._cap("clip_qkv"),
            logit_divisor=self._logit_divisor(hidden), residual_scale=self._residual_scale(layers),
            biases=self._biases(), qkv_order=qkv_order, experts=self._experts(layers), latent=latent,
            mlp_layers=self._mlp_layers(has_parts),
            **{name: getattr(family, name) for name in _TAKEN_OVER},
        )  # fmt: skip
        if family.factors:
            config = with_factors(config, self._fields)
        self._check_synonyms()
        for key, values in {**FIXED, **family.fixed}.items():
            if key not in family.defaults and not (family.experts and key in family.experts.count):
                self._fields.require(key, values, _WITHOUT)
        unread = dict.fromkeys(family.unread, "transformers does not read it")
        beyond = dict.fromkeys(family.beyond, "it chooses among more tokens than are computed")
        self._fields.harmless({**HARMLESS, **unread, **beyond})
        return config.check(self._fields.file)

    def _inner(self, hidden: int) -> int:
        """Return the width of MLPs, which some families have as four times that of the residual stream."""
        key, family = "intermediate_size", self._family
        if family.shared_inner and self._fields.peek("num_local_experts") == 0:
            assert family.experts is not None
            return self._fields.integer(
                family.shared_inner, family.experts.usual[family.shared_inner], least=1, most=_SIZE
            )
        is_optional = self._name(key) in ("n_inner", "ffn_hidden_size") or key not in self._family.defaults
        inner = self._integer(key, 4 * hidden if is_optional else None)
        return self._inner_of_lfm2(inner) if "block_auto_adjust_ff_dim" in self._family.defaults else inner

    def _mlp_layers(self, has_parts: bool) -> frozenset[int] | None:
        """Return the layers with an MLP or experts; None: all."""
        if has_parts:
            kinds = layer_parts(self._fields)
            return frozenset(layer for layer, kind in enumerate(kinds) if kind in ("mlp", "moe"))
        return None if self._family.has_mlp else frozenset()

    def _inner_of_lfm2(self, inner: int) -> int:
        """Return the width of LFM2's MLPs: two thirds of the field, rounded up."""
        is_adjusted = self._flag("block_auto_adjust_ff_dim", False)
        factor, step = self._number("block_ffn_dim_multiplier", 1.0), self._integer("block_multiple_of")
        if not is_adjusted:
            return inner
        return -(-int(factor * int(2 * inner / 3)) // step) * step

    def _kv_heads(self, heads: int) -> tuple[int, str]:
        """Return the heads of keys, and the order of the rows where a tensor holds them with queries."""
        order = self._family.qkv_order
        has_one, has_groups = self._flag("multi_query", False), self._flag("new_decoder_architecture", False)
        if "multi_query" not in self._family.defaults:
            return self._integer("num_key_value_heads", heads), order
        if has_groups:
            count, source = self._integer("num_kv_heads", heads), "num_kv_heads"
        else:
            self._fields.harmless({"num_kv_heads": "it is read with new_decoder_architecture alone"})
            count, source = 1 if has_one else heads, "multi_query"
        if self._fields.peek("num_key_value_heads") not in (None, count):
            raise self._fields.contradiction("num_key_value_heads", f"{source} says {count}", "one number")
        self._fields.harmless({"num_key_value_heads": f"it repeats {source}"})
        return count, order if has_groups or has_one else "groups"

    def _norms(self) -> str:
        """Return where norms stand."""
        family, usual = self._family, self._family.norms
        is_parallel = self._flag("use_parallel_residual", usual in ("parallel", "shared"))
        if "use_parallel_residual" in family.defaults:
            return usual if is_parallel else "before"
        if self._flag("use_post_norm", False):
            return "both"
        if "parallel_attn" not in family.defaults:
            return usual
        count = self._fields.take("num_ln_in_parallel_attn")
        is_new = self._flag("new_decoder_architecture", False)
        if not self._flag("parallel_attn", False):
            if is_new:
                self._fields.refuse("parallel_attn", "true with new_decoder_architecture")
            return "before"
        if count not in (None, 1, 2) or (count == 2 and not is_new):
            self._fields.refuse("num_ln_in_parallel_attn", "1, or 2 with new_decoder_architecture")
        return "parallel" if is_new and count != 1 else "shared"

    def _qk_norm(self) -> str:
        """Return how queries and keys are normed."""
        for key in ("qk_layernorm", "use_qk_norm"):
            if key in self._family.defaults:
                return self._family.qk_norm if self._flag(key, False) else ""
        return self._family.qk_norm

    def _strength(self, latent: LatentAttention | None) -> float:
        """Return what YaRN multiplies the scores of attention with latent keys by."""
        inner = self._fields.peek("rope_parameters") or self._fields.peek("rope_scaling")
        if (
            latent is None
            or not isinstance(inner, Mapping)
            or inner.get("rope_type", inner.get("type")) != "yarn"
        ):
            return 1.0
        scale, factor = inner.get("mscale_all_dim") or 0.0, inner.get("factor")
        if not isinstance(factor, int | float):
            raise self._fields.error("rope_parameters", "a factor")
        return yarn_strength(factor, scale) ** 2

    def _experts(self, layers: int) -> Experts | None:
        """Return the experts; None where no layer has any."""
        family = self._family.experts
        if family is None:
            return None
        if self._family.shared_inner and self._fields.peek("num_local_experts") == 0:
            self._fields.take("num_local_experts")
            self._fields.harmless(dict.fromkeys(
                (family.chosen, family.inner, "output_router_logits"), "there are no experts"
            ))  # fmt: skip
            return None
        experts = read_experts(self._fields, family, layers, lambda key: self._integer(key, 0))
        return experts if experts.layers else None

    def _embedding_scale(self, hidden: int) -> float:
        is_scaled = self._family.scales_embedding or self._flag("scale_embedding", False)
        if is_scaled:
            return float(np.float32(math.sqrt(hidden)))
        return self._number("embedding_multiplier", 1.0)

    def _residual_scale(self, layers: int) -> float:
        """Return what is multiplied to what attention and MLP add."""
        if (key := "scale_depth") in self._family.defaults:
            is_scaled = self._fields.take(key, 1.0) is not None
            return self._number(key, 1.0) / math.sqrt(layers) if is_scaled else 1.0
        return self._number("residual_multiplier", 1.0)

    def _logit_divisor(self, hidden: int) -> float:
        """Return what logits are divided by."""
        if (key := "dim_model_base") in self._family.defaults:
            return hidden / self._integer(key) if self._fields.take(key, 1) is not None else 1.0
        scale = self._number("logit_scale", 1.0)
        if scale == 0:
            self._fields.refuse(self._name("logit_scale"), "another number than 0")
        return 1 / scale if "logit_scale" in self._family.defaults else self._number("logits_scaling", 1.0)

    def _check_class(self) -> None:
        """Refuse a class with another head than that of a language model."""
        names = self._fields.items("architectures", str) or []
        beginnings = {self._family.architecture, self._family.alias or self._family.architecture}
        classes = {f"{beginning}{end}".lower() for beginning in beginnings for end in _CLASSES}
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
                if name not in self._fields or name in self._family.unread:
                    continue
                if self._fields.peek(name) != value:
                    raise self._fields.contradiction(name, f"{own} is {value!r:.60}", "one value for both")
                self._fields.harmless({name: f"it repeats {own}"})

    def _has(self, key: str, absent: Any) -> bool:
        """Return whether the family has a field; otherwise refuse another value of it than `absent`."""
        if key in self._family.defaults:
            return True
        of_mixer = () if self._family.mixer is None else self._family.mixer.fields.values()
        if key not in self._family.unread and key not in of_mixer:
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
        value = self._fields.flag(self._name(key), self._family.defaults[key])
        if key in self._family.own_names:
            self._values[key] = value
        return value

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
        if key not in self._family.defaults:
            self._fields.require(key, (self._family.function,), _WITHOUT)
            return _FUNCTIONS[self._family.function]
        name = self._fields.choice(self._name(key), _FUNCTIONS, self._family.defaults[key])
        if (
            self._family.name == "gemma" and name == "gelu"
        ):  # as the first files said it, and transformers mends it
            name = "gelu_pytorch_tanh"
        for other in ("hidden_act", "hidden_activation"):
            if other == self._name(key) or other not in self._fields:
                continue
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
            usual = self._family.defaults["attention_multiplier"]
            if usual is not None or "attention_multiplier" in self._fields:
                return self._number("attention_multiplier", 1.0)
        return 1 / math.sqrt(max(self._number("query_pre_attn_scalar", float(head_size)), 1e-30))

    def _biases(self) -> frozenset[str]:
        defaults, roles = self._family.defaults, set(self._family.biases)
        shared = ("shared_gate", "shared_up", "shared_down") if self._family.experts else ()
        attention = self._family.attention_biases
        fields = (
            ("attention_bias", attention), ("use_qkv_bias", "qkv"), ("attention_out_bias", "o"),
            ("mlp_bias", ("gate", "up", "down", *shared)), ("bias", ("q", "k", "v", "o", "up", "down")),
            ("use_bias", ("q", "k", "v", "o", *(("gate",) if self._family.is_gated else ()), "up", "down")),
        )  # fmt: skip
        for key, named in fields:
            if key in self._family.fixed:
                continue
            if (
                self._flag(key, key != "bias" and key != "use_bias" and set(named) <= roles)
                and key in defaults
            ):
                roles |= set(named)
        if self._family.mixer is not None:
            roles |= mixer_biases(self._fields, self._family.mixer)
        return frozenset(roles)

    def _layers_without_rotation(self, layers: int, windowed: frozenset[int]) -> frozenset[int]:
        """Return the layers without rotation."""
        if self._family.unrotated == "all":
            return frozenset(range(layers))
        if self._family.unrotated in self._family.defaults:
            kind = self._fields.take(self._family.unrotated, self._family.defaults[self._family.unrotated])
            if kind not in (None, "rope", "nope"):
                self._fields.refuse(self._family.unrotated, "rope, or nope")
            return frozenset() if kind == "rope" else frozenset(range(layers))
        if self._family.unrotated == "full":
            has_windows = (
                self._fields.peek("sliding_window") is not None or "sliding_window" not in self._fields
            )
            return frozenset(range(layers)) - windowed if has_windows else frozenset()
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
                if key == "layer_types" and self._family.mixer is not None:
                    continue
                fields.require(key, ([self._family.layer_kind] * layers,), _WITHOUT)
            return 0, frozenset()
        size = fields.take("sliding_window", defaults["sliding_window"])
        size = 0 if size is None else fields.integer("sliding_window", defaults["sliding_window"])
        if may_slide and not size and fields.peek("sliding_window") is not None:
            raise fields.contradiction(
                "sliding_window", "use_sliding_window is true", "a window, or none used"
            )
        size = min(size, _SIZE) if may_slide else 0
        usual = self._usual_windows(layers, size)
        if not self._has("layer_types", [FULL] * layers):
            return size, usual
        kinds = fields.items("layer_types", str, layers)
        if kinds is None:
            return size, usual if size else frozenset()
        if not set(kinds) <= {FULL, SLIDING}:
            fields.refuse("layer_types", f"{FULL} and {SLIDING}")
        windowed = frozenset(layer for layer, kind in enumerate(kinds) if kind == SLIDING)
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
            return self._layers_without_rotation(layers, frozenset()) if size else frozenset()
        return frozenset(
            layer for layer in range(begin, layers)
            if not period or (layer - self._family.window_offset) % period
        )  # fmt: skip

    def _rotaries(
        self, head_size: int, windowed: frozenset[int], layers: int
    ) -> tuple[RotaryEmbedding, RotaryEmbedding | None]:
        """Return the rotation, and that of layers with a window where it is another one."""
        family = self._family
        if family.longest:
            self._longest = self._integer(family.longest, most=_LONGEST)
        is_biased = family.linear_biases in ("halving", "interleaved")
        if family.learned_positions or family.unrotated == "all" or is_biased:
            for key in ROPE_FIELDS:
                self._fields.require(key, (), _WITHOUT)
            return RotaryEmbedding(10000.0, max(head_size // 2, 1)), None
        if "rotary_dim" in family.defaults:
            width = self._integer("rotary_dim")
            for key in ROPE_FIELDS:
                self._fields.require(key, (), _WITHOUT)
            return RotaryEmbedding(family.rope_base, max(width // 2, 1)), None
        reader = RotaryReader(self._fields, family, head_size)
        full, local = reader.by_layer_type() if family.local_rope else (reader.flat(), None)
        if "layer_rope_theta" in family.defaults:
            full, local, self._unrotated = reader.by_layer(full, windowed, layers)
        self._longest = min(self._longest or _LONGEST, reader.longest or _LONGEST) % _LONGEST
        if reader.query_growth is not None:
            self._query_scale = QueryScale(*reader.query_growth, 0, frozenset(range(layers)))
        return full, local
