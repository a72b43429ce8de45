"""Reads the fields of config.json by which positions change scores, beside rotations."""

from __future__ import annotations

import math
from typing import NamedTuple

from intact.formats import MetadataFields
from intact.lm.description.families.config_fields import HARMLESS
from intact.lm.description.families.decoder_family import DecoderFamily
from intact.lm.description.linear_biases import LinearBiases, halving_slopes, mpt_slopes

_ONE_KIND = "no other attention is known of the family"
_OBJECT = "attn_config"
_USUAL = {
    "attn_type": "multihead_attention", "prefix_lm": False, "qk_ln": False, "alibi": True,
    "attn_uses_sequence_id": False, "alibi_bias_max": 8,
}  # fmt: skip
"""Fields of MPT's object, with the values that transformers computes."""
_LEAST_SCALE = 2.0**-40
"""Of scores: queries hold its inverse beside the biases of keys."""


class BiasedAttention(NamedTuple):
    """Attention with linear biases: the biases, and a scale and a bound beside them.

    Attributes:
        biases: None: there are none.
        scale: Of scores; None: another field says it.
        clip: Queries, keys and values lie between its negative and it; 0: anywhere.
    """

    biases: LinearBiases | None
    scale: float | None = None
    clip: float = 0.0


def read_biased_attention(
    fields: MetadataFields, family: DecoderFamily, heads: int, kv_heads: int, head_size: int
) -> BiasedAttention:
    """Read linear biases, and MPT's object of fields of attention.

    Raises:
        UnsupportedError: Heads share keys, or a variant that transformers does not compute either.
        FileFormatError: A field is of another kind.
    """
    kind = family.linear_biases
    if kind == "interleaved":
        return _read_object(fields, heads, head_size)
    if kind == "halving":
        return BiasedAttention(LinearBiases(halving_slopes(heads)))
    if not kind or not fields.flag(kind, False):
        return BiasedAttention(None)
    if kv_heads != heads:
        fields.refuse(kind, "false where heads share keys")
        return BiasedAttention(None)
    return BiasedAttention(LinearBiases(halving_slopes(heads), 1 / math.sqrt(head_size), rounds=True))


def _read_object(fields: MetadataFields, heads: int, head_size: int) -> BiasedAttention:
    inner = fields.inner_fields(_OBJECT) or MetadataFields({}, fields.file)
    for key, value in _USUAL.items():
        inner.require(key, (value,), _ONE_KIND)
    inner.harmless({
        **HARMLESS, "attn_impl": "it chooses how, not what, is computed",
        "is_encoder_decoder": "it is read beside the object alone",
    })  # fmt: skip
    clip = inner.number("clip_qkv", least=0.0) if "clip_qkv" in inner else 0.0
    scale = inner.number("softmax_scale", 1 / math.sqrt(head_size), least=_LEAST_SCALE)
    return BiasedAttention(LinearBiases(mpt_slopes(heads)), scale, clip)
