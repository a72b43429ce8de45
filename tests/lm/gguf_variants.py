"""Small GGUF files of each architecture that differ from the first of them in one key of the metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.lm.small_decoders import draw_weights

from intact import formats

VOCABULARY, WINDOW = 64, 8
Shapes = dict[str, list[int]]

_SIZES = {
    "block_count": 4, "context_length": 128, "embedding_length": 32, "feed_forward_length": 48,
    "attention.head_count": 4, "attention.head_count_kv": 2,
}  # fmt: skip
_ROPE = {"rope.freq_base": 10000.0, "rope.dimension_count": 8}
_RMS = _SIZES | _ROPE | {"attention.layer_norm_rms_epsilon": 1e-5}
_LENGTHS = {"attention.key_length": 8, "attention.value_length": 8}
ARCHITECTURES: Mapping[str, dict[str, Any]] = {
    "llama": _RMS | _LENGTHS,
    "qwen2": _RMS,
    "qwen3": _RMS | _LENGTHS,
    "smollm3": _RMS,
    "phi3": _RMS | {"attention.sliding_window": 0, "rope.scaling.original_context_length": 128},
    "granite": _RMS | {
        "attention.scale": 0.3, "embedding_scale": 2.0, "residual_scale": 0.7, "logit_scale": 3.0,
    },
    "gemma": _RMS | _LENGTHS,
    "gemma2": _RMS | _LENGTHS | {
        "attention.sliding_window": WINDOW, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0,
    },
    "gemma3": _RMS | _LENGTHS | {"attention.sliding_window": WINDOW, "block_count": 7},
    "gpt2": _SIZES | {"attention.layer_norm_epsilon": 1e-5, "attention.head_count_kv": 4},
    "starcoder2": _SIZES | _ROPE | {"attention.layer_norm_epsilon": 1e-5},
}  # fmt: skip
"""Keys of the first file of each architecture, without its name in front."""

KEYS = tuple(f"{prefix}{name}" for prefix, names in {
    "": "vocab_size context_length embedding_length embedding_length_out features_length block_count "
        "leading_dense_block_count feed_forward_length expert_feed_forward_length expert_count "
        "expert_used_count expert_shared_count expert_weights_scale expert_weights_norm expert_gating_func "
        "moe_every_n_layers nextn_predict_layers n_deepstack_layers hidden_activation pooling_type "
        "use_parallel_residual tensor_data_layout logit_scale decoder_start_token_id decoder_block_count "
        "attn_logit_softcapping router_logit_softcapping final_logit_softcapping swin_norm residual_scale "
        "embedding_scale rescale_every_n_layers token_shift_count full_attention_interval num_loops "
        "interleave_moe_layer_step embedding_length_per_layer_input swiglu_clamp_exp swiglu_clamp_shexp",
    "attention.": "head_count head_count_kv key_length value_length key_length_swa value_length_swa causal "
        "clamp_kqv max_alibi_bias layer_norm_epsilon layer_norm_rms_epsilon group_norm_epsilon "
        "group_norm_groups sliding_window sliding_window_pattern scale output_scale value_scale "
        "temperature_length temperature_scale shared_kv_layers relative_buckets_count q_lora_rank "
        "kv_lora_rank key_length_mla value_length_mla recurrent_layers rope_pattern",
    "rope.": "dimension_count dimension_count_swa dimension_sections freq_base freq_base_swa scale_linear "
        "scaling.type scaling.factor scaling.alpha scaling.attn_factor scaling.original_context_length "
        "scaling.finetuned scaling.yarn_log_multiplier scaling.yarn_ext_factor scaling.yarn_attn_factor "
        "scaling.yarn_beta_fast scaling.yarn_beta_slow",
    "classifier.": "output_labels pooling_type activation",
    "convnext.": "embedding_length block_count",
    "ssm.": "conv_kernel inner_size state_size time_step_rank group_count dt_b_c_rms",
}.items() for name in names.split())  # fmt: skip
"""Keys of llama.cpp (`LLM_KV_NAMES`) that stand behind the architecture's name, but those of one family."""

_FLOATS = ("epsilon", "scale", "freq_base", "freq_base_swa", "softcapping", "factor", "alpha", "clamp",
           "bias", "beta_fast", "beta_slow", "multiplier", "scale_linear", "swin_norm")  # fmt: skip
_FLAGS = ("causal", "finetuned", "use_parallel_residual", "expert_weights_norm", "dt_b_c_rms", "swin_norm")
_OTHERS: Mapping[str, tuple[Any, ...]] = {
    "rope.scaling.type": ("none", "linear", "yarn", "longrope", "other"),
    "hidden_activation": ("silu", "gelu", "relu"),
    "tensor_data_layout": ("Meta AI original pth",),
    "attention.sliding_window": (0, 4, 64, 1024),
    "attention.sliding_window_pattern": (1, 2, 3, [True, False] * 2, [False] * 4, [1, 0, 0, 1]),
    "attention.head_count": (2, 8, [4, 4, 4, 4], [4, 4, 4, 2]),
    "attention.head_count_kv": (1, 4, [2, 2, 2, 2], [2, 1, 2, 2]),
    "feed_forward_length": (24, [48, 48, 48, 48], [48, 48, 24, 48]),
    "block_count": (2, 3, 6), "context_length": (32, 4096), "embedding_length": (64,),
    "attention.key_length": (16, 4), "attention.value_length": (16,), "rope.dimension_count": (4, 6, 16),
    "rope.dimension_sections": ([4, 0, 0, 0],), "rope.freq_base": (500.0, 1e6), "vocab_size": (64, 32),
    "rope.freq_base_swa": (30.0, 10000.0), "rope.scaling.factor": (0.0, 0.5, 4.0),
    "rope.scale_linear": (0.0, 0.5, 4.0), "attention.scale": (0.0, 0.05, 1.0),
    "logit_scale": (0.0, 0.25, 8.0), "embedding_scale": (0.0, 0.25, 8.0), "residual_scale": (0.0, 0.25, 3.0),
    "attention.layer_norm_rms_epsilon": (0.1, 1e-12), "attention.layer_norm_epsilon": (0.1, 1e-12),
    "attn_logit_softcapping": (0.5, 50.0), "final_logit_softcapping": (0.5, 30.0),
    "classifier.output_labels": (["a", "b"],), "full_attention_interval": (2,), "pooling_type": (0, 1, 2, 3),
    "rope.scaling.original_context_length": (16, 64), "attention.recurrent_layers": ([0, 1, 0, 0],),
}  # fmt: skip


def shapes_of(architecture: str, keys: Mapping[str, Any]) -> Shapes:
    """Return the shapes of the tensors that fit the keys of a file."""

    def size(key: str, default: int = 0) -> int:
        value = keys.get(key, default)
        return int(value[0] if isinstance(value, list) else value)

    hidden, inner, heads = (
        size("embedding_length"), size("feed_forward_length"), size("attention.head_count")
    )  # fmt: skip
    kv, head = size("attention.head_count_kv", heads), size("attention.key_length", hidden // heads)
    value = size("attention.value_length", head)
    q, k, v = [heads * head, hidden], [kv * head, hidden], [kv * value, hidden]
    block: Shapes = {"attn_norm": [hidden], "ffn_norm": [hidden], "attn_output": [hidden, heads * value]}
    if architecture in ("gpt2", "phi3"):
        block["attn_qkv"] = [q[0] + k[0] + v[0], hidden]
    else:
        block |= {"attn_q": q, "attn_k": k, "attn_v": v}
    block |= {"ffn_up": [2 * inner if architecture == "phi3" else inner, hidden], "ffn_down": [hidden, inner]}
    if architecture not in ("gpt2", "starcoder2", "phi3"):
        block["ffn_gate"] = [inner, hidden]
    if architecture in ("qwen3", "gemma3"):
        block |= {"attn_q_norm": [head], "attn_k_norm": [head]}
    if architecture in ("gemma2", "gemma3"):
        block |= {"post_attention_norm": [hidden], "post_ffw_norm": [hidden]}
    shapes: Shapes = {"token_embd.weight": [VOCABULARY, hidden], "output_norm.weight": [hidden]}
    if architecture not in ("gemma", "gemma2", "gemma3", "gpt2"):
        shapes["output.weight"] = [VOCABULARY, hidden]
    biases = {"gpt2": tuple(block), "starcoder2": tuple(block), "qwen2": ("attn_q", "attn_k", "attn_v")}
    for layer in range(size("block_count")):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
        for name in biases.get(architecture, ()):
            shapes[f"blk.{layer}.{name}.bias"] = block[name][:1]
    if architecture in ("gpt2", "starcoder2"):
        shapes["output_norm.bias"] = [hidden]
    if architecture == "gpt2":
        shapes["position_embd.weight"] = [size("context_length"), hidden]
    return shapes


def write_variant(
    path: Path, architecture: str, keys: Mapping[str, Any], more: Mapping[str, Any] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None, left_out: tuple[str, ...] = (),
) -> Path:  # fmt: skip
    """Write a file with keys of its architecture, other keys, and tensors beside those of its sizes."""
    drawn = draw_weights(shapes_of(architecture, ARCHITECTURES[architecture] | keys))
    arrays = {name: array for name, array in drawn.items() if name not in left_out} | dict(tensors or {})
    arrays["token_embd.weight"] = arrays["token_embd.weight"] * np.float32(0.4)
    metadata = {"general.architecture": architecture, **(more or {})}
    metadata |= {f"{architecture}.{key}": value for key, value in keys.items()}
    metadata |= {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": [],
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(VOCABULARY)], "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
    }  # fmt: skip
    kinds = {n: formats.GgufTensor(formats.GGML_TYPES["F32"], array.shape) for n, array in arrays.items()}
    fields = {key: _field(value) for key, value in metadata.items()}
    formats.write_gguf(path, fields, kinds, arrays.__getitem__)
    return path


def _field(value: Any) -> formats.GgufField:
    first = value[0] if isinstance(value, list) and value else "" if isinstance(value, list) else value
    kinds = {bool: "bool", int: "uint32", float: "float32", str: "string"}
    return formats.GgufField.of(kinds[type(first)], value)


def values_of(key: str) -> tuple[Any, ...]:
    """Return legal values of a key."""
    if key in _OTHERS:
        return _OTHERS[key]
    last = key.rpartition(".")[2]
    if last in _FLAGS:
        return (True, False)
    if key.endswith(_FLOATS):
        return (0.3, 2.0)
    return (1, 2)


def tensor_variants(
    architecture: str,
) -> Iterator[tuple[str, dict[str, Any], dict[str, np.ndarray], tuple[str, ...]]]:
    """Yield a label, keys, tensors beside those of the sizes, and names of tensors that are left out."""
    base = ARCHITECTURES[architecture]
    shapes, rng = shapes_of(architecture, base), np.random.default_rng(5)
    pairs = int(base.get("rope.dimension_count", 8)) // 2
    factors = rng.uniform(1, 4, pairs).astype(np.float32)
    yield "rope_freqs", base, {"rope_freqs.weight": factors}, ()
    yield "rope_freqs", base | {"rope.scaling.factor": 2.0}, {"rope_freqs.weight": factors}, ()
    yield "rope_freqs", base, {"rope_freqs.weight": np.ones_like(factors)}, ()
    longer = {"rope_factors_long.weight": factors, "rope_factors_short.weight": factors / 2}
    yield "rope_factors", base, longer, ()
    head = {"output.weight": rng.normal(size=(VOCABULARY, 32)).astype(np.float32) / 4}
    yield "output", base, head, ()
    if "output.weight" in shapes:
        yield "output", base, {}, ("output.weight",)
    for name, size in (
        ("attn_q", 32),
        ("attn_output", 32),
        ("ffn_up", 48),
        ("ffn_norm", 32),
        ("attn_sinks", 4),
        ("attn_rel_b", 4),
    ):
        bias = rng.normal(size=size).astype(np.float32) * np.float32(0.3)
        suffix = "weight" if name.startswith(("attn_sinks", "attn_rel")) else "bias"
        added = {f"blk.{layer}.{name}.{suffix}": bias for layer in range(base["block_count"])}
        if not added.keys() & shapes.keys():
            yield name, base, added, ()
    if architecture == "phi3":
        inner, q = base["feed_forward_length"], 32
        apart = {
            f"blk.{i}.ffn_gate.weight": rng.normal(size=(inner, q)).astype(np.float32) / 5 for i in range(4)
        }
        yield "ffn_up", base, apart, ()
    layers = {"gemma2": 46, "gemma3": 62}.get(architecture)
    if layers is not None:  # the size of 27B has another scale of scores
        lengths = {"attention.key_length": 16, "attention.value_length": 16, "rope.dimension_count": 16}
        yield "block_count", base | lengths | {"block_count": layers}, {}, ()
        yield "block_count", base | lengths, {}, ()


def variants(architecture: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield key, value and all keys of each variant, first ("", None) for none; None: the key is missing."""
    base = ARCHITECTURES[architecture]
    yield "", None, dict(base)
    for key in base:
        yield key, None, {name: value for name, value in base.items() if name != key}
    for key in KEYS:
        for value in values_of(key):
            if base.get(key) != value or type(base.get(key)) is not type(value):
                both = {"attention.value_length": value} if key == "attention.key_length" else {}
                yield key, value, base | {key: value} | both
