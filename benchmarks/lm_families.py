"""Language models of every class that transformers has: which open, and whether they compute the same.

    python -m pip install torch transformers
    python benchmarks/lm_families.py [FAMILY ...] [--quick] [--json FILE]

The classes are those of transformers' own table for `AutoModelForCausalLM` whose configuration names a public
checkpoint. Each becomes a folder (config.json and safetensors files as `save_pretrained` writes them) with
small sizes and random weights, and is opened by `intact.lm`. One counts as equal where its logits are within
1e-3 of those of transformers in float32, 24 greedy tokens behind them are the same, and with int4 weights
threads, chunks and batches change no bit (not with --quick). A family is refused where an error of INTact
names what it does not compute. Everything else is wrong, and the exit status 1.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intact import lm
from intact.errors import IntactError

EQUAL, REFUSED, WRONG, NO_PEER = "equal", "refused by name", "wrong", "transformers does not run it"
TOKENS = [int(token) for token in np.random.default_rng(1).integers(3, 64, 24)]
GREEDY, CLOSE = 24, 1e-3
_SIZES = {
    64: "mamba_d_ssm vocab_size decoder_vocab_size vocab_size_per_layer_input",
    32: "hidden_size d_model n_embd dim embedding_size emb_dim dim_model rotary_dim_model word_embed_proj_dim"
        "embed_dim attention_hidden_size",
    48: "intermediate_size ffn_dim n_inner d_ff decoder_ffn_dim encoder_ffn_dim ffn_hidden_size dim_ff "
        "shared_expert_intermediate_size prefix_dense_intermediate_size dense_intermediate_size "
        "intermediate_size_mlp block_ff_dim shared_intermediate_size",
    4: "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers num_decoder_layers "
       "num_attention_heads n_head n_heads num_heads decoder_attention_heads encoder_attention_heads "
       "num_experts num_local_experts n_routed_experts moe_num_experts num_decoder_attention_heads "
       "num_encoder_layers num_encoder_attention_heads moe_num_primary_experts mamba_n_heads "
       "mamba_num_heads linear_num_value_heads",
    2: "num_key_value_heads num_kv_heads n_head_kv num_experts_per_tok num_experts_per_token moe_k moe_topk "
       "top_k_experts n_group n_groups mamba_n_groups linear_num_key_heads "
       "num_swa_key_value_heads num_global_key_value_heads swa_num_key_value_heads",
    24: "moe_intermediate_size expert_intermediate_size expert_ffn_hidden_size",
    128: "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length seq_length "
         "max_target_positions model_max_length",
    8: "sliding_window attention_window_size attention_chunk_size sliding_window_size local_attention",
    16: "head_dim swa_head_dim global_head_dim kv_lora_rank q_lora_rank d_kv v_head_dim mamba_d_state "
        "state_size ssm_state_size mamba_head_dim linear_key_head_dim linear_value_head_dim chunk_size "
        "mamba_chunk_size",
    12: "qk_nope_head_dim",
    6: "qk_rope_head_dim rotary_dim",
    1: "topk_group n_shared_experts",
}  # fmt: skip
"""Small sizes, and the names that configurations have for them; the first that a class takes."""
_MIXED_LAYERS = {
    "lfm2": ["conv", "conv", "full_attention", "conv"],
    "lfm2_moe": ["conv", "conv", "full_attention", "conv"],
    "granitemoehybrid": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
}
"""Kinds of layers of classes that have but one kind, or none, by default."""
_TOKEN_FIELDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_LAYERS, _MOST_WEIGHTS = 4, 20_000_000


@dataclass
class Family:
    """A row of transformers' table: `model_type`, the class of models and that of configurations."""

    name: str
    model: str
    config: Any


def families() -> Iterator[Family]:
    """Yield the rows whose configuration names a checkpoint."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    for name, model in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        kind = getattr(transformers, CONFIG_MAPPING_NAMES[name])
        if re.search(r'auto_docstring\(\s*checkpoint="', inspect.getsource(kind)):
            yield Family(name, model, kind)


def small_config(kind: Any) -> Any:
    """Return a configuration of a class with small sizes; what they do not name keeps its default."""
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    names |= {*inspect.signature(kind.__init__).parameters, *getattr(kind, "attribute_map", ())}
    settings: dict[str, Any] = {key: value for key, value in _TOKEN_FIELDS.items() if key in names}
    defaults = kind()
    for key, part in kind.sub_configs.items():
        if is_dataclass(part):
            settings[key] = small_config(part).to_dict()
    own = vars(defaults)
    for size, keys in _SIZES.items():
        settings |= {
            key: size for key in keys.split() if key in names and isinstance(own.get(key), int | None)
        }
    heads, width = own.get("num_attention_heads"), own.get("hidden_size")
    if "intermediate_size" in settings and own.get("intermediate_size") is None:  # worked out of others
        settings.pop("intermediate_size")
    if isinstance(heads, int) and own.get("num_key_value_heads", 0) in (heads, None):
        settings |= {key: 4 for key in ("num_key_value_heads",) if key in settings}
    if isinstance(heads, int) and own.get("head_dim", 0) in (None, (width or 0) // heads):
        settings |= {key: 8 for key in ("head_dim",) if key in settings}
    for key, value in own.items():  # lists with an entry for each layer
        if isinstance(value, list) and key in names and len(value) == own.get("num_hidden_layers"):
            settings[key] = None if key in ("layer_types", "mlp_layer_types") else value[:_LAYERS]
    if layers := _MIXED_LAYERS.get(kind.model_type):
        settings["layer_types"] = layers
    return kind(**settings)


def draw_weights(shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Draw weights of about the size that trained ones have; norms are near 1, biases near 0."""
    tensors = {}
    for name, shape in shapes.items():
        values = np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape)
        if len(shape) < 2:
            values = values * 0.2 + (0 if "bias" in name else 1)
        elif "embed" not in name:
            values *= 1.5 / shape[-1] ** 0.5
        tensors[name] = np.asarray(values, np.float32)
    return tensors


def write_model(family: Family, folder: Path) -> tuple[np.ndarray, list[int]]:
    """Write a folder; return the logits of TOKENS and the greedy tokens behind them."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = small_config(family.config)
    with torch.device("meta"):
        size = transformers.AutoModelForCausalLM.from_config(config).num_parameters()
    if size > _MOST_WEIGHTS:
        raise ValueError(f"{size:,} weights with the small sizes of the table")
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    parameters = {name: list(tensor.shape) for name, tensor in model.named_parameters()}
    buffers = {name: list(tensor.shape) for name, tensor in model.named_buffers() if name.endswith("bias")}
    parameters |= {name: shape for name, shape in buffers.items() if name in model.state_dict()}
    weights = {name: torch.tensor(array) for name, array in draw_weights(parameters).items()}
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    model.save_pretrained(folder)
    tokens, rows = list(TOKENS), None
    with torch.no_grad():
        for _ in range(GREEDY):
            logits = model(torch.tensor(tokens)[None], use_cache=False).logits[0]
            rows = logits.numpy() if rows is None else rows
            tokens.append(int(logits[-1].argmax()))
    if not np.isfinite(rows).all():
        raise ValueError("logits are not finite")
    return rows, tokens[len(TOKENS) :]


def greedy_tokens(model: Any) -> list[int]:
    cache, answer = model.new_cache(), []
    row = cache.append(TOKENS)[-1]
    for _ in range(GREEDY):
        answer.append(int(np.argmax(row)))
        row = cache.append([answer[-1]])[-1]
    return answer


def is_exact(folder: Path) -> bool:
    """Return whether threads, chunks and batches change no bit with int4 weights."""
    expected = lm.load(folder, weights="int4", block=16, positions=64, threads=1).logits(TOKENS)
    for threads, chunk in ((1, 1), (2, 7)):
        model = lm.load(folder, weights="int4", block=16, positions=64, threads=threads)
        cache = model.new_cache(3)
        for sequence in (2, 0, 1):
            parts = [TOKENS[at : at + chunk] for at in range(0, len(TOKENS), chunk)]
            rows = [cache.append(part, range(len(part)), sequence) for part in parts]
            if np.concatenate(rows).tobytes() != expected.tobytes():
                return False
        together = cache.append_each([5, 6, 5])
        if together[0].tobytes() != model.logits([*TOKENS, 5])[-1].tobytes():
            return False
    return True


def outcome(family: Family, quick: bool) -> tuple[str, str]:
    """Return what became of one family, and why."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "m"
        try:
            logits, tokens = write_model(family, folder)
        except Exception as error:  # of any class: a model that its maker cannot run has no peer
            return NO_PEER, f"{type(error).__name__}: {error}"[:160]
        try:
            model = lm.load(folder, weights="float32", positions=64, threads=1)
            ours = model.logits(TOKENS)
            if ours.shape != logits.shape or not np.allclose(ours, logits, rtol=0, atol=CLOSE):
                return WRONG, f"logits differ by {np.abs(ours - logits).max():.2g}"
            if greedy_tokens(model) != tokens:
                return WRONG, "greedy tokens differ"
            if not quick and not is_exact(folder):
                return WRONG, "threads, chunks or batches change bits"
            return EQUAL, f"{np.abs(ours - logits).max():.1g}"
        except IntactError as error:
            return REFUSED, str(error).replace(parent, "")[:160]
        except Exception as error:  # of any class: it counts as a fault
            return WRONG, f"{type(error).__name__}: {error}"[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("families", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for family in families():
        if options.families and family.name not in options.families:
            continue
        results[family.name] = result, reason = outcome(family, options.quick)
        print(f"{family.name:28} {result:16} {reason}", flush=True)
    counts = Counter(result for result, _ in results.values())
    print(f"{len(results)} classes: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return int(bool(counts[WRONG]))


if __name__ == "__main__":
    sys.exit(main())
