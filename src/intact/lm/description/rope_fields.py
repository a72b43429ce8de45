"""Reads the fields of config.json that say how queries and keys are rotated."""

from __future__ import annotations

import math
from dataclasses import replace

from intact.errors import FileFormatError
from intact.formats import MetadataFields
from intact.lm.description.families.decoder_family import DecoderFamily
from intact.lm.description.rotary_embedding import RotaryEmbedding, yarn_ramp

FULL, SLIDING = "full_attention", "sliding_attention"
ROPE_FIELDS = (
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "partial_rotary_factor",
    "rope_local_base_freq",
)
_KINDS = ("default", "linear", "llama3", "yarn", "longrope", "dynamic")


def yarn_strength(factor: float, scale: float) -> float:
    """Return YaRN's factor of scores."""
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0


class RotaryReader:
    """Reads `rope_parameters`, and the fields before it: `rope_scaling`, `rope_theta` and others.

    Args:
        fields: Of config.json.
        family: Of the decoder.
        head_size: Channels of a head.
    Attributes:
        longest: Positions for which the rotation that was read holds; 0: all.
        query_growth: Gain and length of `QueryScale`, where `rope_parameters` say them.
    """

    def __init__(self, fields: MetadataFields, family: DecoderFamily, head_size: int) -> None:
        self._fields, self._family, self._head_size = fields, family, head_size
        self.longest = 0
        self.query_growth: tuple[float, float] | None = None

    def flat(self) -> RotaryEmbedding:
        """Read one rotation for all layers."""
        fields = self._fields
        fields.require("rope_local_base_freq", (), "the family has one rotation")
        inner, old = fields.inner_fields("rope_parameters"), fields.inner_fields("rope_scaling")
        if (
            inner is not None
            and old is not None
            and fields.take("rope_scaling") != fields.take("rope_parameters")
        ):
            both = set(fields.take("rope_scaling").items()) <= set(fields.take("rope_parameters").items())
            if not both:
                raise fields.contradiction("rope_scaling", "rope_parameters says otherwise", "one of them")
        if inner is None and old is None and self._family.rope:
            inner = MetadataFields(dict(self._family.rope), fields.file)
        return self._read_rotation(inner or old, self._name("rope_theta"), self._family.rope_base)

    def _name(self, key: str) -> str:
        return self._family.own_names.get(key, key)

    def by_layer_type(self) -> tuple[RotaryEmbedding, RotaryEmbedding]:
        """Read one rotation for layers with full attention, and one for those with a window."""
        fields = self._fields
        assert self._family.local_rope is not None
        inner, old = fields.inner_fields("rope_parameters"), fields.inner_fields("rope_scaling")
        if inner is None and old is None and self._family.rope:
            inner = MetadataFields(dict(self._family.rope), fields.file)
        full = inner.inner_fields(FULL) if inner is not None else None
        sliding = inner.inner_fields(SLIDING) if inner is not None else None
        if full is not None and old is not None:
            raise fields.contradiction("rope_scaling", f"rope_parameters.{FULL} says it, too", "one of them")
        return (
            self._read_rotation(full if full is not None else old, "rope_theta", self._family.rope_base),
            self._read_rotation(sliding, *self._family.local_rope),
        )

    def by_layer(
        self, rotary: RotaryEmbedding, windowed: frozenset[int], layers: int
    ) -> tuple[RotaryEmbedding, RotaryEmbedding | None, frozenset[int]]:
        """Read bases of each layer: return both rotations, and the layers that have none.

        Raises:
            UnsupportedError: Layers of one kind rotate by several bases.
        """
        key = "layer_rope_theta"
        bases = self._fields.items(key, (int, float), layers)
        if bases is None:
            return rotary, None, frozenset()
        kinds = (frozenset(range(layers)) - windowed, windowed)
        own = [{float(bases[layer]) for layer in kind if bases[layer]} for kind in kinds]
        are_others = any(each - {rotary.base} for each in own)
        is_mixed = any(len(each) > 1 or min(each, default=1.0) < 0 for each in own)
        if is_mixed or (are_others and rotary.kind == "yarn"):  # whose ramp follows from the base
            self._fields.refuse(key, "one base for all layers with a window, and one for all others")
        full, local = (replace(rotary, base=each.pop()) if each else rotary for each in own)
        return full, local, frozenset(layer for layer in range(layers) if not bases[layer])

    def _read_rotation(self, inner: MetadataFields | None, outer_key: str, default: float) -> RotaryEmbedding:
        base = self._common_number(inner, "rope_theta", outer_key, default)
        if base <= 0 or (not self._family.rope_base and inner is None):
            got = f"{outer_key} = {base:g} without rope_parameters"
            raise FileFormatError(
                self._fields.file,
                got,
                "rope_parameters, which this family always has",
                "download the model again",
            )
        key = "partial_rotary_factor"
        share = self._common_number(inner, key, self._name(key), self._family.rotary_share)
        if share != 1.0 and not self._family.has_partial_rotary:
            (inner if inner is not None and key in inner else self._fields).refuse(
                key, "1.0: the family rotates whole heads"
            )
        pairs = int(self._head_size * share) // 2
        if pairs < 1:
            sizes = f"hidden_size and num_attention_heads make heads of {self._head_size}"
            raise self._fields.contradiction(key, sizes, "two channels or more of a head that rotate")
        inner = inner if inner is not None else MetadataFields({}, self._fields.file)
        if self._family.has_sections:
            same = "all sections of a text have the same positions"
            inner.harmless(dict.fromkeys(("mrope_section", "mrope_interleaved"), same))
        if self._family.reads_query_scale:
            length = inner.number("original_max_position_embeddings", least=1.0)
            self.query_growth = inner.number("llama_4_scaling_beta"), length
            inner.harmless({"max_position_embeddings": "transformers does not read it there"})
        kind = self._kind(inner)
        rotary = RotaryEmbedding(base, pairs, reverses=self._family.reverses)
        if kind == "linear":
            return replace(rotary, kind=kind, factor=inner.number("factor", least=1e-6))
        if kind == "llama3":
            return replace(
                rotary, kind=kind, factor=inner.number("factor", least=1e-6),
                low_frequency=inner.number("low_freq_factor"),
                high_frequency=inner.number("high_freq_factor"), trained=self._original_length(inner),
            )  # fmt: skip
        if kind == "yarn":
            return self._yarn(inner, rotary)
        if kind == "longrope":
            return self._longrope(inner, rotary)
        if kind == "dynamic":  # the base grows for sequences that are longer than the context alone
            inner.number("factor", least=1.0)
            self.longest = self._context()
        inner.harmless({"original_max_position_embeddings": "the rotation is not stretched"})
        self._fields.harmless({"original_max_position_embeddings": "the rotation is not stretched"})
        return rotary

    def _context(self) -> int:
        key = "max_position_embeddings"
        return self._fields.integer(self._name(key), self._family.defaults[key], least=1)

    def _original_length(self, inner: MetadataFields) -> float:
        """Return the positions that the model was trained for before its rotation was stretched."""
        key = "original_max_position_embeddings"
        own = inner.number(key) if key in inner else None
        if key not in self._fields and key not in self._family.defaults:
            return float(self._context()) if own is None else own
        outer = self._fields.number(key, self._family.defaults.get(key))
        if own is not None and own != outer:
            raise self._fields.contradiction(key, f"rope_parameters.{key} = {own:g}", "one value")
        return outer

    def _yarn(self, inner: MetadataFields, rotary: RotaryEmbedding) -> RotaryEmbedding:
        trained = self._original_length(inner)
        factor = inner.number("factor", self._context() / max(trained, 1.0), least=1e-6)
        strengths = [inner.number(key, 0.0) for key in ("mscale", "mscale_all_dim")]
        if "attention_factor" in inner:
            gain = inner.number("attention_factor")
        elif all(strengths):
            gain = yarn_strength(factor, strengths[0]) / yarn_strength(factor, strengths[1])
        else:
            gain = yarn_strength(factor, 1.0)
        fast, slow = inner.number("beta_fast", 32.0) or 32.0, inner.number("beta_slow", 1.0) or 1.0
        ramp = yarn_ramp(rotary.base, rotary.pairs, trained, fast, slow, inner.flag("truncate", True))
        return replace(rotary, kind="yarn", factor=factor, trained=trained, ramp=ramp, gain=gain)

    def _longrope(self, inner: MetadataFields, rotary: RotaryEmbedding) -> RotaryEmbedding:
        """Read LongRoPE, whose longer sequences rotate otherwise: only the shorter ones are computed."""
        trained = self._original_length(inner)
        factor = inner.number("factor", self._context() / max(trained, 1.0), least=1e-6)
        usual = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
        gain = inner.number("attention_factor", usual)
        short = inner.items("short_factor", (int, float), rotary.pairs) or []
        inner.items("long_factor", (int, float), rotary.pairs)
        self.longest = int(trained)
        return replace(rotary, kind="factors", trained=trained, divisors=tuple(map(float, short)), gain=gain)

    def _kind(self, inner: MetadataFields) -> str:
        key = "rope_type" if "rope_type" in inner or "type" not in inner else "type"
        kind = inner.choice(key, _KINDS, "default")
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
