"""Write `families.json` and `logits.npz`; needs the package transformers.

python -m tests.lm.make_families
"""

from __future__ import annotations

import json

import numpy as np
import torch
import transformers
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
}  # fmt: skip


def main() -> None:
    records, logits = {}, {}
    for family, (name, settings) in CASES.items():
        config_class = getattr(transformers, f"{name}{'Text' if name == 'Gemma3' else ''}Config")
        config = config_class(**COMMON | settings)
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        shapes = {key: list(tensor.shape) for key, tensor in model.state_dict().items()}
        if config.tie_word_embeddings:
            del shapes["lm_head.weight"]
        weights = {key: torch.tensor(array) for key, array in draw_weights(shapes).items()}
        model.load_state_dict(weights, strict=False)
        model.tie_weights()
        with torch.no_grad():
            logits[family] = model(torch.tensor(TOKENS)[None]).logits[0].numpy()
        fields = {key: value for key, value in config.to_diff_dict().items() if value is not None}
        fields |= {"model_type": config.model_type, "tie_word_embeddings": config.tie_word_embeddings}
        own = {*config.to_dict(), *config.attribute_map}
        common = {key: value for key, value in COMMON.items() if key in own}
        records[family] = {"config": {**common, **fields}, "tensors": shapes}
    (FOLDER / "families.json").write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")
    np.savez_compressed(FOLDER / "logits.npz", **logits)


if __name__ == "__main__":
    main()
