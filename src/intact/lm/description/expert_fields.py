"""Reads the fields of config.json that say what experts a decoder has, or latent attention."""

from __future__ import annotations

from collections.abc import Callable

from intact.formats import MetadataFields
from intact.lm.description.decoder_config import Experts, LatentAttention
from intact.lm.description.families.decoder_family import DecoderFamily, ExpertFamily

_DENSE, _SPARSE = "dense", "sparse"


_PARTS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
"""Letters of `hybrid_override_pattern`."""
_OLD_PARTS = {"mamba": "linear_attention", "attention": "full_attention"}


def read_experts(
    fields: MetadataFields, family: ExpertFamily, layers: int, width: Callable[[str], int]
) -> Experts:
    """Read what config.json says of experts.

    Args:
        fields: Of config.json.
        family: The fields that the family has for them.
        layers: Of the decoder.
        width: Reads a width that other decoders have as well.
    Raises:
        UnsupportedError: A variant that is not computed.
        FileFormatError: A field is missing, of another kind, or contradicts another one.
    """
    return _ExpertReader(fields, family).read(layers, width)


def read_latent(fields: MetadataFields, family: DecoderFamily, value_size: int) -> LatentAttention | None:
    """Read how queries, keys and values are made of shorter vectors; None where a family has none.

    Args:
        fields: Of config.json.
        family: Of the decoder.
        value_size: Channels of a value where neither the file nor the family says it.
    Raises:
        FileFormatError: A field is missing, of another kind, or contradicts another one.
        UnsupportedError: Values are longer than keys.
    """
    usual = family.latent
    if usual is None:
        return None
    sizes = {
        key: fields.integer(key, usual.get(key, value_size), least=1, most=2**20)
        for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    }
    q_rank = fields.take("q_lora_rank", usual["q_lora_rank"])
    if q_rank is not None:
        q_rank = fields.integer("q_lora_rank", usual["q_lora_rank"], least=1, most=2**20)
    latent = LatentAttention(
        q_rank or 0, sizes["kv_lora_rank"], sizes["qk_nope_head_dim"], sizes["qk_rope_head_dim"],
        sizes["v_head_dim"],
    )  # fmt: skip
    if latent.value > latent.head_size:
        fields.refuse("v_head_dim", f"at most {latent.head_size}, as keys have")
    fields.harmless(dict.fromkeys(("qk_head_dim", "head_dim"), "transformers works them out"))
    return latent


def layer_parts(fields: MetadataFields) -> list[str]:
    """Return what each layer of a decoder is whose layers have one part each.

    Raises:
        FileFormatError: Nothing says it, or two fields say different things.
        UnsupportedError: A layer of another kind.
    """
    key, pattern = "layers_block_type", fields.peek("hybrid_override_pattern")
    key = "layer_types" if "layer_types" in fields and key not in fields else key
    kinds = fields.items(key, str)
    if isinstance(pattern, str):
        if not set(pattern) <= set(_PARTS):
            fields.refuse("hybrid_override_pattern", f"the letters {', '.join(_PARTS)}")
        fields.take("hybrid_override_pattern")
        named = [_PARTS.get(letter, "") for letter in pattern]
        if kinds is not None and [_OLD_PARTS.get(kind, kind) for kind in kinds] != named:
            raise fields.contradiction(key, "hybrid_override_pattern says otherwise", "one of them")
        kinds = named
    if kinds is None:
        raise fields.error(key, "a list of texts")
    kinds = [_OLD_PARTS.get(kind, kind) for kind in kinds]
    if not kinds or not set(kinds) <= set(_PARTS.values()):
        fields.refuse(key, ", ".join(_PARTS.values()))
    return kinds


class _ExpertReader:
    """Reads the fields of one configuration."""

    def __init__(self, fields: MetadataFields, family: ExpertFamily) -> None:
        self._fields, self._family = fields, family

    def read(self, layers: int, width: Callable[[str], int]) -> Experts:
        family, inner = self._family, self._family.inner
        size = width(inner) if inner == "intermediate_size" else self._integer(inner)
        groups, chosen_groups = (
            (self._integer("n_group", null=1), self._integer("topk_group", null=1)) if family.has_groups
            else (1, 1)
        )  # fmt: skip
        return Experts(
            self._layers(layers), self._count(), self._integer(family.chosen), size, family.scores,
            family.has_correction, self._normalizes(),
            self._fields.number(family.scale, self._usual(family.scale)) if family.scale else 1.0,
            groups, chosen_groups, self._shared_width(size), family.gates_shared, family.has_biases,
            *(self._clamps() if family.is_clamped else (0.0, 0.0, 0.0)), family.is_gated,
        )  # fmt: skip

    def _clamps(self) -> tuple[float, float, float]:
        """Return the limit of gates and values, the slope of gates and the offset of values."""
        self._fields.require("hidden_act", ("silu",), "transformers does not read it")
        limit, slope = (
            self._fields.number(key, self._usual(key), least=1e-6) for key in ("swiglu_limit", "swiglu_alpha")
        )
        return limit, slope, 1.0

    def _usual(self, key: str) -> int | None:
        return self._family.usual.get(key)

    def _integer(self, key: str, least: int = 1, null: int | None = None) -> int:
        usual = self._usual(key)
        return self._fields.integer(key, null if usual is None else usual, least=least, most=2**24)

    def _count(self) -> int:
        names = self._family.count
        present = [name for name in names if name in self._fields]
        counts = [self._integer(name) for name in present or names[:1]]
        if len(set(counts)) > 1:
            raise self._fields.contradiction(present[0], f"{present[1]} = {counts[1]}", "one number")
        return counts[0]

    def _normalizes(self) -> bool:
        key = self._family.normalizes
        return key if isinstance(key, bool) else self._fields.flag(key, self._family.usual.get(key))

    def _shared_width(self, inner: int) -> int:
        """Return the width of the MLP that all tokens have."""
        key = self._family.shared
        if not key or key == "intermediate_size":
            return inner if key else 0
        value = self._integer(key, least=0)
        return value if key.endswith("_size") else value * inner

    def _layers(self, layers: int) -> frozenset[int]:
        """Return the layers that have experts."""
        every, kind = range(layers), self._family.layers
        if kind == "parts":
            kinds = layer_parts(self._fields)
            return frozenset(layer for layer in every if kinds[layer] == "moe")
        if kind == "first":
            return frozenset(range(self._integer(self._family.first, least=0), layers))
        if kind == "types":
            types = self._fields.items("mlp_layer_types", str, layers)
            first = self._integer("first_k_dense_replace", least=0, null=0)
            if types is None:
                return frozenset(range(first, layers))
            if not set(types) <= {_DENSE, _SPARSE}:
                self._fields.refuse("mlp_layer_types", f"{_DENSE} and {_SPARSE}")
            return frozenset(layer for layer in every if types[layer] == _SPARSE)
        if kind == "steps":
            step = self._integer("decoder_sparse_step")
            dense = self._fields.items("mlp_only_layers", int) or []
            return frozenset(layer for layer in every if layer not in dense and (layer + 1) % step == 0)
        if kind == "period":
            period = self._integer("expert_layer_period")
            offset = self._integer("expert_layer_offset", least=0)
            return frozenset(range(offset, layers, period)) if self._count() > 1 else frozenset()
        if kind == "interval":
            first, last = (
                self._fields.integer(
                    f"moe_layer_{end}_index", self._usual(f"moe_layer_{end}_index"), least=-1
                )
                for end in ("start", "end")
            )
            step, last = self._integer("moe_layer_interval"), layers - 1 if last < 0 else last
            return frozenset(layer for layer in every if first <= layer <= last and (layer + 1) % step == 0)
        return frozenset(every)
