"""Records what the decoders of one family have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ExpertFamily:
    """Describes the experts of a family by the fields of config.json that say so.

    Attributes:
        count: Names of the field that says how many there are.
        chosen: Field of those of a token.
        inner: Field of the width of each.
        scores, has_correction, gates_shared: As `Experts`.
        normalizes: Field, or True or False.
        scale: Field of the scale of weights; "": 1.
        has_groups: Whether `n_group` and `topk_group` are read.
        shared: Field of the number of shared experts, or of the width of the one; "" for none.
        first: Field of the number of layers in front that have none.
        layers: How layers with experts are named: "all", "first" (behind `first`), "types"
            (`mlp_layer_types`), "steps" (`decoder_sparse_step` and `mlp_only_layers`), "interval"
            (`moe_layer_interval` and the first and the last one) or "period" (`expert_layer_period` and
            `expert_layer_offset`).
        is_clamped: `swiglu_limit` bounds gates and values, `swiglu_alpha` is the slope of gates, and one is
            added to values.
        has_biases: Experts have biases.
        rows_alternate: A tensor of gates and values has a row of each in turn, not one half of each.
        turned: Files hold floats of all experts as [experts, inputs, outputs].
        is_gated: As `Experts`.
        usual: Values that transformers takes where config.json does not have a field.
    """

    count: tuple[str, ...] = ("num_experts", "num_local_experts")
    chosen: str = "num_experts_per_tok"
    inner: str = "moe_intermediate_size"
    scores: str = "softmax"
    has_correction: bool = False
    normalizes: str | bool = True
    scale: str = ""
    has_groups: bool = False
    shared: str = ""
    gates_shared: bool = False
    first: str = "first_k_dense_replace"
    layers: str = "all"
    is_clamped: bool = False
    has_biases: bool = False
    rows_alternate: bool = False
    turned: bool = False
    is_gated: bool = True
    usual: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MixerFamily:
    """Describes the layers of a family that have states in place of keys and values.

    Attributes:
        kind: As `Mixer`.
        fields: Names of fields, by what a `Mixer` has, and "expand", "width", "norm_first", "conv_bias", and
            "bias" and "out_bias" of products.
        usual: Values that transformers takes where config.json does not have a field.
        word: What `layer_types` calls such a layer.
        layers: How they are named: "types" (`layer_types`), "all", "both" for all, which attend, too, or
            "parts": each layer attends, has a state, an MLP or experts, as `layers_block_type` says.
        attention: Field of the layers that attend, where `layer_types` is missing; or of how many layers one
            attends.
        has_norm: The field that says whether values are normed, or True or False.
        has_groups: Norms take the groups of keys apart.
        gates_first: As `Mixer`.
        has_steps: `time_step_limit` is read.
        activation: Field of the function behind convolutions, which has to be "silu"; "": that of MLPs.
        scan_norms: As `Mixer`.
        scan_epsilon: Field of the epsilon of these norms; "": that of all.
        offset: With it `attention` is a period, of which this field says the layer that attends.
    """

    kind: str
    fields: Mapping[str, str]
    usual: Mapping[str, Any]
    word: str = "linear_attention"
    layers: str = "types"
    attention: str = ""
    has_norm: str | bool = True
    has_groups: bool = False
    gates_first: bool = True
    has_steps: bool = False
    activation: str = ""
    scan_norms: str = ""
    scan_epsilon: str = ""
    offset: str = ""


@dataclass(frozen=True)
class DecoderFamily:
    """Describes what the decoders of one family have in common.

    Attributes:
        name: `model_type` of config.json.
        architecture: Beginning of the names of its classes in transformers.
        alias: Beginning of the names of classes of another family that has the same layers.
        defaults: Fields of its configuration that decide what it computes, with the values that transformers
            takes where config.json does not have them; None: worked out of others, or required. A field that
            other families have and this one does not must say what it would do without.
        own_names: Names that the family has for fields of the others.
        mapped: Those of them that transformers takes under the others' names, too.
        fixed: Fields that only this family has, with the values that are computed.
        unread: Fields that only this family has, and that transformers does not read.
        tensors: Names of tensors by role, where they are not those of Llama.
        norm_tensors: Names of the tensors of norms, by where norms stand.
        rope_base: Of the rotation, where config.json says none; 0: it has to.
        rope: What `rope_parameters` hold where config.json has none.
        local_rope: Of layers with a window that have a rotation of their own, the field of its base, "" for
            none, and the value without.
        rotary_share: Of a head, that rotates by default.
        has_partial_rotary: Whether `partial_rotary_factor` is read.
        reads_longrope: Whether the length that LongRoPE was trained for stands beside `rope_parameters`.
        unrotated: Layers without rotation: "full", those without a window where others have one; "all"; or a
            field that has to be "rope" where layers rotate.
        biases: Roles of layers that always have a bias.
        attention_biases: Those that have one where `attention_bias` is true.
        epsilon: Of the norms, where no field says it.
        scales_embedding: Embeddings are multiplied by the root of their length.
        window_period: Every so many layers one has no window; 0: `layer_types` or all.
        window_offset: The first layer of those without a window.
        experts: Of layers with experts.
        mixer: Of layers with states.
        has_attention, has_mlp: Whether any layer attends, and whether each has an MLP.
        shared_inner: Field of the width of MLPs where there are no experts, which then are the shared ones.
        unread_tensors: Beginnings of the names of tensors that nothing reads, "*" for a number of a layer.
        has_sections: Whether positions may have sections, which are the same for texts.
        factors: Fields of the factors of products, which Falcon-H1 has.
        latent: Values that transformers takes for the fields of latent attention; None: it has none.
        qkv_order: Rows of a tensor that holds queries, keys and values: "parts", one after the other;
            "groups", for each head of keys its queries, key and value; "quarters", four times queries, values
            and keys.
        turned: Whether files hold weights as [inputs, outputs].
        function: Of MLPs, where no field says it.
        linear_biases: Slopes of linear biases: "halving" or "interleaved" (`linear_biases.py`), or the field
            that says whether there are any, which are halving then; "" for none.
        longest: Field of the number of positions for which the family is computed; "": all.
        beyond: Fields of what chooses tokens in longer sequences, and keeps all of shorter ones.
        layer_kind: What `layer_types` calls all layers, where they are of one kind.
        reads_query_scale: Whether `rope_parameters` say how queries grow with positions.
        is_layer_norm, has_norm_weights, has_norm_biases, norms, is_gated, learned_positions, position_offset,
        embedding_norm, interleaved, reverses, qk_norm, qk_norm_biases, norms_rotated, norm_offset,
        inner_norms, has_sinks, gates_attention: As `DecoderConfig`.
    """

    name: str
    architecture: str
    defaults: Mapping[str, Any]
    own_names: Mapping[str, str] = field(default_factory=dict)
    mapped: frozenset[str] = frozenset()
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    alias: str = ""
    unread: tuple[str, ...] = ()
    tensors: Mapping[str, str] = field(default_factory=dict)
    norm_tensors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rope_base: float = 10000.0
    rope: Mapping[str, Any] = field(default_factory=dict)
    local_rope: tuple[str, float] | None = None
    rotary_share: float = 1.0
    has_partial_rotary: bool = False
    reads_longrope: bool = False
    unrotated: str = ""
    biases: frozenset[str] = frozenset()
    attention_biases: frozenset[str] = frozenset("qkvo")
    epsilon: float = 0.0
    is_layer_norm: bool = False
    has_norm_weights: bool = True
    has_norm_biases: bool = True
    norms: str = "before"
    is_gated: bool = True
    learned_positions: bool = False
    position_offset: int = 0
    embedding_norm: bool = False
    interleaved: bool = False
    reverses: bool = False
    qk_norm: str = ""
    qk_norm_biases: bool = False
    norms_rotated: bool = False
    inner_norms: bool = False
    has_sinks: bool = False
    norm_offset: float = 0.0
    scales_embedding: bool = False
    window_period: int = 0
    window_offset: int = -1
    experts: ExpertFamily | None = None
    mixer: MixerFamily | None = None
    latent: Mapping[str, int | None] | None = None
    gates_attention: bool = False
    has_attention: bool = True
    has_mlp: bool = True
    shared_inner: str = ""
    unread_tensors: tuple[str, ...] = ()
    has_sections: bool = False
    factors: tuple[str, ...] = ()
    qkv_order: str = "parts"
    turned: bool = False
    function: str = "silu"
    linear_biases: str = ""
    longest: str = ""
    beyond: tuple[str, ...] = ()
    layer_kind: str = "full_attention"
    reads_query_scale: bool = False
