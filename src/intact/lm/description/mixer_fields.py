"""Reads the fields of config.json that say which layers have states in place of keys and values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from intact.formats import MetadataFields
from intact.lm.description.decoder_config import DecoderConfig, Mixer
from intact.lm.description.expert_fields import layer_parts
from intact.lm.description.families.decoder_family import MixerFamily

FULL = "full_attention"
_LAYER_TYPES = ("layer_types", "layers_block_type")


def read_mixer(
    fields: MetadataFields, family: MixerFamily, layers: int, hidden: int, epsilon: float
) -> tuple[Mixer, frozenset[int]]:
    """Read what config.json says of layers with states; return it, and the layers that attend.

    Args:
        fields: Of config.json.
        family: How it says so.
        layers: Of the decoder.
        hidden: Width of the residual stream.
        epsilon: Of norms.
    Raises:
        UnsupportedError: A variant that is not computed.
        FileFormatError: A field is missing, of another kind, or contradicts another one.
    """
    return _MixerReader(fields, family).read(layers, hidden, epsilon)


def mixer_biases(fields: MetadataFields, family: MixerFamily) -> frozenset[str]:
    """Return the roles of layers with states that have a bias."""
    roles = {"mixer_step"} if family.kind == "scan" else set[str]()
    products = frozenset(("mixer_in", "mixer_out"))
    if "out_bias" in family.fields:
        products = frozenset(("mixer_in",))
    named_roles = {
        "bias": products, "conv_bias": frozenset(("mixer_conv",)), "out_bias": frozenset(("mixer_out",)),
    }  # fmt: skip
    for key, named in named_roles.items():
        name = family.fields.get(key)
        if name is not None and fields.flag(name, family.usual[name]):
            roles |= named | (products if family.kind == "conv" else frozenset())
    return frozenset(roles)


def with_factors(config: DecoderConfig, fields: MetadataFields) -> DecoderConfig:
    """Return a configuration with the factors of products that Falcon-H1 has.

    Raises:
        FileFormatError: One is no number, or a list has another length.
    """
    mixer = config.mixer
    assert mixer is not None

    def number(key: str) -> float:
        return fields.number(key, 1.0)

    def numbers(key: str, count: int) -> list[float]:
        values = fields.items(key, (int, float), count)
        return [1.0] * count if values is None else [float(value) for value in values]

    gate, down = numbers("mlp_multipliers", 2)
    of_z, of_x, of_b, of_c, of_step = numbers("ssm_multipliers", 5)
    whole = {
        "k": number("key_multiplier"), "o": number("attention_out_multiplier"), "gate": gate, "down": down,
        "mixer_z": of_z, "mixer_step": of_step, "mixer_out": number("ssm_out_multiplier"),
    }  # fmt: skip
    outputs: dict[str, tuple[tuple[int, float], ...]] = {
        role: ((1, factor),) for role, factor in whole.items() if factor != 1.0
    }
    if {of_x, of_b, of_c} != {1.0}:
        outputs["mixer_x"] = ((mixer.inner, of_x), (mixer.keys, of_b), (mixer.keys, of_c))
    into = {
        **dict.fromkeys("qkv", number("attention_in_multiplier")),
        **dict.fromkeys(("mixer_z", "mixer_x", "mixer_step"), number("ssm_in_multiplier")),
    }
    inputs = {role: factor for role, factor in into.items() if factor != 1.0}
    return replace(config, input_factors=inputs, output_factors=outputs)


class _MixerReader:
    """Reads the fields of one configuration."""

    def __init__(self, fields: MetadataFields, family: MixerFamily) -> None:
        self._fields, self._family = fields, family

    def read(self, layers: int, hidden: int, epsilon: float) -> tuple[Mixer, frozenset[int]]:
        family = self._family
        own, attention = self._layers(layers)
        kernel = self._integer("kernel")
        if family.kind == "conv":
            return Mixer("conv", own, kernel), attention
        if family.kind == "scan":
            return self._scan(own, kernel, hidden, epsilon), attention
        heads, key_heads = self._integer("heads"), self._integer("key_heads")
        has_norm = family.has_norm
        if isinstance(has_norm, str):
            has_norm = self._fields.flag(has_norm, family.usual[has_norm])
        least, most = self._steps()
        mixer = Mixer(
            family.kind, own, kernel, heads, key_heads, self._integer("key_size"),
            self._value_size(hidden, heads), (key_heads if family.has_groups else 1) if has_norm else 0,
            self._gates_first(), least, most, epsilon, "silu" if family.activation else "",
        )  # fmt: skip
        if family.activation:
            self._fields.require(family.activation, ("silu",), "no other function is known of it")
        return mixer, attention

    def _scan(self, layers: frozenset[int], kernel: int, hidden: int, epsilon: float) -> Mixer:
        """Read Mamba 1, whose one key has a value of the whole width."""
        family, name = self._family, self._family.fields["rank"]
        rank = self._fields.take(name, "auto")
        rank = -(-hidden // 16) if rank == "auto" else self._integer("rank")
        own = family.scan_epsilon
        width = self._width(hidden)
        assert width is not None
        return Mixer(
            "scan", layers, kernel, 1, 1, self._integer("key_size"), width, 0, epsilon=epsilon,
            step_rank=rank, scan_norms=family.scan_norms,
            scan_epsilon=self._fields.number(own, family.usual[own], least=0.0) if own else epsilon,
        )  # fmt: skip

    def _integer(self, key: str) -> int:
        name = self._family.fields[key]
        return self._fields.integer(name, self._family.usual.get(name), least=1, most=2**20)

    def _gates_first(self) -> bool:
        name = self._family.fields.get("norm_first")
        if name is None:
            return self._family.gates_first
        return not self._fields.flag(name, self._family.usual[name])

    def _value_size(self, hidden: int, heads: int) -> int:
        """Return the size of a head of values, which may follow from the width of all."""
        name, width = self._family.fields["value_size"], self._width(hidden)
        own = self._fields.take(name, self._family.usual.get(name))
        if width is None:
            return self._integer("value_size")
        if own in ("auto", None):
            own = width // heads
        elif not isinstance(own, int) or isinstance(own, bool):
            raise self._fields.error(name, "an integer")
        if own * heads != width:
            heads_text = f"{self._family.fields['heads']} = {heads} of {width} columns"
            raise self._fields.contradiction(name, heads_text, "heads that fill the width")
        return int(own)

    def _width(self, hidden: int) -> int | None:
        """Return the width of all values where a field says it."""
        expand, whole = (self._family.fields.get(key, "") for key in ("expand", "width"))
        if whole and whole in self._fields:
            self._fields.harmless({expand: f"{whole} says the width"})
            return self._fields.integer(whole, least=1, most=2**24)
        if not expand:
            return None
        return int(self._fields.number(expand, self._family.usual[expand], least=0.01) * hidden)

    def _steps(self) -> tuple[float, float]:
        """Return the bounds of steps."""
        key = "time_step_limit"
        if not self._family.has_steps:
            return 0.0, math.inf
        value = self._fields.take(key, (0.0, math.inf))
        bounds = [_number(bound) for bound in value] if isinstance(value, list | tuple) else []
        if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1]:
            raise self._fields.error(key, "two numbers, the lower one first")
        return bounds[0], bounds[1]

    def _layers(self, layers: int) -> tuple[frozenset[int], frozenset[int]]:
        """Return the layers that have states, and those that attend."""
        family, every = self._family, frozenset(range(layers))
        if family.layers == "parts":
            parts = list(enumerate(layer_parts(self._fields)))
            own, attention = (
                frozenset(layer for layer, part in parts if part == kind) for kind in (family.word, FULL)
            )
            return own, attention
        if family.layers != "types":
            return every, every if family.layers == "both" else frozenset()
        names = [name for name in _LAYER_TYPES if name in self._fields]
        kinds = self._fields.items(names[0], str, layers) if names else None
        if kinds is None:
            attention = self._usual_attention(layers)
            return every - attention, attention
        if len(names) > 1 and self._fields.take(names[1]) != self._fields.take(names[0]):
            raise self._fields.contradiction(names[1], f"{names[0]} says otherwise", "one of them")
        words = {"attention": FULL, "mamba": family.word}
        kinds = [words.get(kind, kind) for kind in kinds]
        if not set(kinds) <= {FULL, family.word}:
            self._fields.refuse(names[0], f"{FULL} and {family.word}")
        if family.attention:
            self._fields.harmless({family.attention: f"{names[0]} says it"})
        own = frozenset(layer for layer in range(layers) if kinds[layer] == family.word)
        return own, every - own

    def _usual_attention(self, layers: int) -> frozenset[int]:
        """Return the layers that attend where `layer_types` does not say them."""
        key = self._family.attention
        value: Any = self._fields.take(key, self._family.usual.get(key)) if key else None
        if value is None:
            return frozenset(range(layers)) if self._family.kind == "conv" else frozenset()
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            if not self._family.offset:
                return frozenset(range(value - 1, layers, value))
            first = self._fields.integer(self._family.offset, self._family.usual[self._family.offset])
            if first >= value:
                raise self._fields.contradiction(self._family.offset, f"{key} = {value}", "less than that")
            return frozenset(range(first, layers, value))
        if not isinstance(value, list) or not all(isinstance(layer, int) for layer in value):
            raise self._fields.error(key, "numbers of layers")
        return frozenset(value) & frozenset(range(layers))


def _number(value: Any) -> float:
    """Return a number; JSON has no infinity, which transformers writes as an object with a word."""
    if isinstance(value, Mapping):
        value = value.get("__float__")
    if isinstance(value, str) and value.lower() in ("infinity", "inf"):
        return math.inf
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
