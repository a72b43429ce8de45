"""Write `families.json` and `logits.npz`; needs the package transformers.

python -m tests.lm.make_families
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file
from tests.lm.small_decoders import FOLDER, TOKENS, draw_weights

COMMON = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 128, "tie_word_embeddings": False,
    "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}
LONGROPE = {
    "rope_type": "longrope", "short_factor": [1.0, 2.0, 3.0, 4.0], "long_factor": [2.0, 3.0, 4.0, 5.0],
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
}  # fmt: skip
_SHORT = (
    "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    "num_key_value_heads",
)  # fmt: skip
DELTA = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 12, "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}  # fmt: skip
SSM = {"mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_chunk_size": 8}
GEMMA = {"head_dim": 16, "sliding_window": 8, "tie_word_embeddings": True}
CASES = {
    "llama": ("Llama", {}),
    "llama3": ("Llama", {"rope_scaling": LLAMA3, "rope_theta": 5e5}),
    "llama-linear": ("Llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "llama-biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", {"sliding_window": 8}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 4}),
    "phi3": ("Phi3", {"sliding_window": None}),
    "granite": (
        "Granite",
        {"embedding_multiplier": 2.0, "logits_scaling": 3.0, "residual_multiplier": 0.7,
         "attention_multiplier": 0.1},
    ),
    "gemma": ("Gemma", {"head_dim": 16, "tie_word_embeddings": True}),
    "gemma2": ("Gemma2", {**GEMMA, "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3", {**GEMMA, "num_hidden_layers": 7}),
    "gpt2": ("GPT2", {"tie_word_embeddings": True, "n_inner": 48, "n_positions": 128}),
    "starcoder2": ("Starcoder2", {"sliding_window": 8, "tie_word_embeddings": True}),
    "llama-yarn": ("Llama", {"rope_scaling": YARN}),
    "phi3-longrope": ("Phi3", {"rope_scaling": LONGROPE, "original_max_position_embeddings": 64}),
    "cohere2": ("Cohere2", {"sliding_window": 8, "tie_word_embeddings": True, "num_hidden_layers": 4}),
    "cohere": ("Cohere", {"use_qk_norm": True, "tie_word_embeddings": True}),
    "olmo": ("Olmo", {"clip_qkv": 0.5}),
    "olmo3": ("Olmo3", {"sliding_window": 8, "num_hidden_layers": 4}),
    "exaone4": ("Exaone4", {"sliding_window": 8, "num_hidden_layers": 4}),
    "glm4": ("Glm4", {"head_dim": 16}),
    "nemotron": ("Nemotron", {}),
    "stablelm": ("StableLm", {"qk_layernorm": True}),
    "phi": ("Phi", {"qk_layernorm": True}),
    "gpt_neox": ("GPTNeoX", {}),
    "falcon": ("Falcon", {"tie_word_embeddings": True, "ffn_hidden_size": 48}),
    "falcon-groups": ("Falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 48,
                                 "tie_word_embeddings": True}),
    "codegen": ("CodeGen", {"rotary_dim": 4}),
    "gpt_bigcode": ("GPTBigCode", {"tie_word_embeddings": True, "n_positions": 128}),
    "opt": ("OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32, "tie_word_embeddings": True}),
    "bitnet": ("BitNet", {}),
    "nanochat": ("NanoChat", {}),
    "hunyuan": ("HunYuanDenseV1", {"head_dim": 16}),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "head_dim": 8}),
    "qwen2_moe": ("Qwen2Moe", {**EXPERTS, "shared_expert_intermediate_size": 24}),
    "gpt_oss": ("GptOss", {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16,
                           "sliding_window": 8, "intermediate_size": 64}),
    "granitemoe": ("GraniteMoeShared", {"num_local_experts": 4, "shared_intermediate_size": 24}),
    "glm4_moe": ("Glm4Moe", {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_routed_experts": 4,
                             "n_group": 2, "head_dim": 16}),
    "deepseek_v2": ("DeepseekV2", {**LATENT, "q_lora_rank": None}),
    "deepseek_v3": ("DeepseekV3", {**LATENT, "rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 0.7}}),
    "lfm2": ("Lfm2", {"layer_types": ["conv", "full_attention", "conv"], "block_multiple_of": 8}),
    "qwen3_5": ("Qwen3_5Text", DELTA),
    "qwen3_next": ("Qwen3Next", {**DELTA, **EXPERTS, "shared_expert_intermediate_size": 24}),
    "mamba2": ("Mamba2", {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 2, "chunk_size": 8}),
    "falcon_h1": ("FalconH1", {**SSM, "mamba_d_ssm": 48, "mlp_multipliers": [0.7, 1.2], "key_multiplier": 1.3,
                               "ssm_multipliers": [0.7, 1.3, 0.8, 1.2, 0.9], "mamba_rms_norm": True}),
    "granitemoehybrid": (
        "GraniteMoeHybrid",
        {**SSM, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
         "num_local_experts": 0, "shared_intermediate_size": 24, "position_embedding_type": "rope"},
    ),
    "nemotron_h": (
        "NemotronH",
        {"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"], "head_dim": 8,
         "mamba_num_heads": 4, "mamba_head_dim": 12, "ssm_state_size": 8, "n_groups": 2, "chunk_size": 8,
         "n_routed_experts": 4, "moe_intermediate_size": 16, "moe_shared_expert_intermediate_size": 24},
    ),
    "bloom": ("Bloom", {"hidden_size": 48, "n_head": 6, "n_layer": 3, "tie_word_embeddings": True}),
    "mpt": ("Mpt", {"d_model": 48, "n_heads": 6, "n_layers": 3, "tie_word_embeddings": True,
                    "attn_config": {"clip_qkv": 1.5, "softmax_scale": 0.4}}),
    "falcon-alibi": ("Falcon", {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True,
                                "ffn_hidden_size": 48, "tie_word_embeddings": True}),
    "falcon_mamba": ("FalconMamba", {"state_size": 8, "time_step_rank": 3, "use_bias": True}),
    "jamba": ("Jamba", {"num_hidden_layers": 4, "attn_layer_period": 3, "attn_layer_offset": 1,
                        "num_experts": 4, "mamba_d_state": 8}),
    "ministral3": ("Ministral3", {"head_dim": 8, "rope_parameters": YARN | {
        "rope_theta": 1e4, "original_max_position_embeddings": 8, "llama_4_scaling_beta": 0.5}}),
    "granite_swa": ("GraniteSWA", {"num_hidden_layers": 4, "sliding_window": 8, "tie_word_embeddings": True,
                                   "layer_rope_theta": [0, 500.0, 500.0, 500.0]}),
    "mellum": ("Mellum", {**EXPERTS, "head_dim": 8, "sliding_window": 8, "num_local_experts": 4,
                          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "minicpm3": ("MiniCPM3", {**{key: LATENT[key] for key in _SHORT}, "tie_word_embeddings": True}),
    "deepseek_v32": ("DeepseekV32", {**LATENT, "index_topk": 32, "index_head_dim": 16, "index_n_heads": 2}),
    "sarvam_moe": ("SarvamMoE", {"n_routed_experts": 4, "num_experts_per_tok": 2, "head_dim": 8,
                                 "moe_intermediate_size": 16}),
    "ernie4_5_moe": ("Ernie4_5_Moe", {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16,
                                      "tie_word_embeddings": True}),
}  # fmt: skip


def main() -> None:
    records = json.loads((FOLDER / "families.json").read_text())
    with np.load(FOLDER / "logits.npz") as arrays:
        logits = dict(arrays)
    for family, (name, settings) in CASES.items():
        if family in records:  # what an older version of transformers wrote stays
            continue
        config_class = getattr(transformers, f"{name}{'Text' if name == 'Gemma3' else ''}Config")
        names = {field.name for field in dataclasses.fields(config_class)} | {*config_class.attribute_map}
        common = {key: value for key, value in COMMON.items() if key in names}
        config = config_class(**common | settings)
        config._attn_implementation = "eager"
        with tempfile.TemporaryDirectory() as folder:
            transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
            path = Path(folder) / "model.safetensors"
            shapes = {name: list(array.shape) for name, array in load_file(path).items()}
            save_file(draw_weights(shapes), path, {"format": "pt"})
            attention = "sdpa" if "alibi" in settings else "eager"  # which adds Falcon's biases twice
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention)
        with torch.no_grad():
            logits[family] = model.float().eval()(torch.tensor(TOKENS)[None]).logits[0].numpy()
        fields = {key: value for key, value in config.to_diff_dict().items() if value is not None}
        fields |= {key: None for key, value in settings.items() if value is None}
        fields |= {"model_type": config.model_type, "tie_word_embeddings": config.tie_word_embeddings}
        records[family] = {"config": {**common, **fields}, "tensors": shapes}
    (FOLDER / "families.json").write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")
    np.savez_compressed(FOLDER / "logits.npz", **logits)


if __name__ == "__main__":
    main()
