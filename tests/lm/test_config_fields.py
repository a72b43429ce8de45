"""Each field of a configuration decides what is computed, changes nothing, or is refused by its name."""

from __future__ import annotations

import dataclasses
import zlib

import pytest
from tests.lm.config_sweep import EQUAL, NO_MEANING, REFUSED, outcome
from tests.lm.config_variants import FAMILIES, variants

from intact.lm.description.families import FAMILIES as RECORDS
from intact.lm.description.families import config_fields

transformers = pytest.importorskip("transformers", reason="the package transformers says what fields mean")
pytest.importorskip("torch")
_EXPERT_FIELDS = {
    "decoder_sparse_step", "expert_layer_offset", "expert_layer_period", "first_k_dense_replace",
    "mlp_layer_types", "mlp_only_layers", "moe_intermediate_size",
    "moe_k", "moe_layer_end_index", "moe_layer_interval", "moe_layer_start_index", "moe_num_experts",
    "moe_num_shared_experts", "moe_topk", "n_group", "n_routed_experts", "n_shared_experts", "norm_topk_prob",
    "num_experts", "num_experts_per_tok", "num_local_experts", "num_shared_experts", "routed_scaling_factor",
    "router_scaling_factor", "q_lora_rank", "kv_lora_rank",
    "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    "moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size",
    "swiglu_alpha", "swiglu_limit",
    "topk_group",
}  # fmt: skip
_SHARE = 8
"""One of so many configurations is tried here; `python -m tests.lm.config_sweep` tries all."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_field_is_read_past(family, tmp_path):
    results = {}
    for number, (field, value, record) in enumerate(variants(family)):
        if not field or zlib.crc32(f"{family} {field} {value}".encode()) % _SHARE == 0:
            results[f"{field} = {value}"] = outcome(tmp_path / str(number), field, record)
    assert set(results.values()) <= {EQUAL, REFUSED, NO_MEANING}, results
    assert results[" = None"] == EQUAL, "the default opens"


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_are_those_of_transformers(family):
    kind = getattr(transformers, f"{family}Config")
    record = RECORDS[kind.model_type]
    own = {field.name: field.default for field in dataclasses.fields(kind) if field.init}
    for key, value in record.defaults.items():
        name = record.own_names.get(key, key)
        if value is not None and name in own:
            assert own[name] == value, name
    names = {*record.defaults, *record.own_names.values(), *record.fixed, *record.unread, *record.factors}
    names |= {*record.beyond, *({"layer_types"} if record.layer_kind else ())}
    names |= {"interleaved": {"attn_config"}}.get(record.linear_biases, {record.linear_biases})
    if record.mixer is not None:
        names |= {*record.mixer.fields.values(), *record.mixer.usual, record.mixer.attention}
        names |= {record.mixer.activation, "layer_types", "layers_block_type"}
    if record.experts is not None:
        names.add(record.experts.first)
    names |= {*config_fields.HARMLESS, *config_fields.FIXED, *_EXPERT_FIELDS}
    names |= {name for synonyms in config_fields.SYNONYMS.values() for name in synonyms}
    elsewhere = {"bos_token_id", "eos_token_id", "rope_parameters", "original_max_position_embeddings"}
    assert set(own) - names <= elsewhere | {"attn_logit_softcapping", "per_layer_config"}
