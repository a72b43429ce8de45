"""Costs of 4 and 8 bits in each kind of layer of decoders with states: random Qwen3.5 and Mamba 2.

    python -m pip install torch transformers
    python benchmarks/state_layers.py

One kind of layer at a time has codes, all others floats, of models with random weights. Printed is the mean
divergence of what they say from that of the float model, over 384 tokens and over the last 64.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import intact.lm.decoders.weight_encoder as encoder
from intact import lm
from intact.lm.language_model import log_probabilities

ROLES = ("mixer_step", "mixer_rate", "mixer_x", "mixer_z", "mixer_out", "down")
SIZES = {
    "vocab_size": 512, "hidden_size": 256, "num_hidden_layers": 8, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
MODELS = {
    "Qwen3_5Text": {
        "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "linear_num_value_heads": 4, "linear_num_key_heads": 4, "linear_key_head_dim": 64,
        "linear_value_head_dim": 64, "max_position_embeddings": 1024,
    },
    "Mamba2": {"num_heads": 8, "head_dim": 64, "state_size": 64, "n_groups": 1, "chunk_size": 64},
}  # fmt: skip


def write_model(name: str, folder: Path) -> None:
    """Write the folder of a model with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **MODELS[name])
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight_name, weight in model.named_parameters():
            is_table = "embed" in weight_name
            if weight.ndim == 2:
                gain = (
                    1.0 if is_table else (2.0 if "lm_head" in weight_name else 1.2) / weight.shape[1] ** 0.5
                )
                weight.copy_(torch.randn_like(weight) * gain)
    model.save_pretrained(folder)


def main() -> None:
    encoder.KEPT_FLOAT = ()
    tokens = np.random.default_rng(0).integers(3, 512, 384)
    for name in MODELS:
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "model"
            write_model(name, folder)
            expected = log_probabilities(lm.load(folder, weights="float32", positions=512).logits(tokens))
            for role in ROLES:
                for bits in ("int4", "int8"):
                    options = {"bits_of": {role: bits}, "block": 32, "activations": "float"}
                    model = lm.load(folder, weights="float32", positions=512, **options)
                    difference = expected - log_probabilities(model.logits(tokens))
                    loss = (np.exp(expected) * difference).sum(axis=1)
                    print(
                        f"{name:12} {role:11} {bits} {loss.mean():9.2g} {loss[-64:].mean():9.2g}", flush=True
                    )


if __name__ == "__main__":
    main()
