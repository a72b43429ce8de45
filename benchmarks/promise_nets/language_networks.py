"""Architectures of the package transformers: those of `transformers_zoo`, and newer ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers_zoo.nets import (
    ARCHITECTURES,
    IMAGE,
    LLAMA,
    ROWS,
    TEXT,
    VOCABULARY,
    WAV2VEC2,
    WIDTH,
    Answers,
    Architecture,
    images,
    plain,
    words,
)

from promise_nets.network import Call, Network

HEADS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Tokens within the small vocabulary."""


def make_network(architecture: Architecture) -> tuple[nn.Module, list[Call]]:
    """The module with positional arguments, three batches to calibrate on, and one to compare."""
    batches = [*architecture.batches(3, seed=1), *architecture.batches(1, seed=2)]
    module = Answers(architecture.built(), list(batches[0]))
    return module.eval(), [tuple(batch.values()) for batch in batches]


def causal(name: str, config: dict[str, Any] | None = None, **more: Any) -> Callable[[], nn.Module]:
    """``<name>ForCausalLM`` with a config like Llama's."""
    return plain(
        f"{name}ForCausalLM", f"{name}Config", **(LLAMA if config is None else config) | HEADS | more
    )


def ids() -> dict[str, torch.Tensor]:
    return {"input_ids": words()()["input_ids"]}


def sound() -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(ROWS, 4000), "decoder_input_ids": words()()["input_ids"]}


GEMMA = {"head_dim": 16, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
NEOX = {**TEXT, "use_cache": False}
MPT = {"d_model": WIDTH, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "expansion_ratio": 2,
       "vocab_size": VOCABULARY, "use_cache": False}  # fmt: skip
RWKV = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2,
        "attention_hidden_size": WIDTH,
        "intermediate_size": 128, "context_length": 64, "use_cache": False}  # fmt: skip
FUNNEL = {"vocab_size": VOCABULARY, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": WIDTH,
          "n_head": 4, "d_head": 16, "d_inner": 128, "max_position_embeddings": 64}  # fmt: skip
MOONSHINE = {**HEADS, "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 128,
             "use_cache": False, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2,
             "encoder_num_attention_heads": 4,
             "decoder_num_attention_heads": 4, "decoder_start_token_id": 1}  # fmt: skip
MAMBA2 = {"vocab_size": VOCABULARY, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2,
          "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8, "use_cache": False}  # fmt: skip
LFM2 = {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}
MODERN = {**TEXT, "local_attention": 8, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2}
BLOOM = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": 2, "n_head": 4, "use_cache": False}
OPT = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "ffn_dim": 128,
       "num_attention_heads": 4, "max_position_embeddings": 64, "word_embed_proj_dim": WIDTH,
       "use_cache": False}  # fmt: skip
HIERA = {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 2, 1], "num_heads": [1, 2, 4, 8]}

NEWER = (
    Architecture("SmolLM3", causal("SmolLM3"), words()),
    Architecture("Gemma 3", plain("Gemma3ForCausalLM", "Gemma3TextConfig", **LLAMA, **HEADS, **GEMMA),
                 words()),
    Architecture("RWKV", causal("Rwkv", RWKV), ids),
    Architecture("Moonshine", plain("MoonshineForConditionalGeneration", "MoonshineConfig", **MOONSHINE),
                 sound),
    Architecture("Funnel", plain("FunnelForSequenceClassification", "FunnelConfig", **FUNNEL), words()),
    Architecture("Gemma", causal("Gemma", head_dim=16), words()),
    Architecture("Gemma 2", causal("Gemma2", head_dim=16, sliding_window=8), words()),
    Architecture("Qwen2", causal("Qwen2"), words()),
    Architecture("Mistral", causal("Mistral", sliding_window=8), words()),
    Architecture("Phi", causal("Phi"), words()),
    Architecture("Phi-3", causal("Phi3"), words()),
    Architecture("OLMo", causal("Olmo"), words()),
    Architecture("OLMo 2", causal("Olmo2"), words()),
    Architecture("Granite", causal("Granite"), words()),
    Architecture("Cohere", causal("Cohere"), words()),
    Architecture("Cohere 2", causal("Cohere2", sliding_window=8), words()),
    Architecture("StableLM", causal("StableLm"), words()),
    Architecture("Falcon", causal("Falcon", NEOX), words()),
    Architecture("GPT-NeoX", causal("GPTNeoX", NEOX), words()),
    Architecture("MPT", causal("Mpt", MPT), words()),
    Architecture("ModernBERT", plain("ModernBertForMaskedLM", "ModernBertConfig", **MODERN | HEADS), words()),
    Architecture("DeBERTa v2", plain("DebertaV2ForSequenceClassification", "DebertaV2Config", **TEXT, **HEADS,
                 relative_attention=True, pos_att_type=["p2c", "c2p"]), words()),
    Architecture("Mamba 2", causal("Mamba2", MAMBA2), ids),
    Architecture("Nemotron", causal("Nemotron"), words()),
    Architecture("GLM", causal("Glm", head_dim=16), words()),
    Architecture("Starcoder2", causal("Starcoder2"), words()),
    Architecture("LFM2", causal("Lfm2", **LFM2), words()),
    Architecture("Helium", causal("Helium", head_dim=16), words()),
    Architecture("EuroBERT", plain("EuroBertForMaskedLM", "EuroBertConfig", **LLAMA, **HEADS), words()),
    Architecture("BLOOM", causal("Bloom", BLOOM), words()),
    Architecture("OPT", causal("OPT", OPT), words()),
    Architecture("ELECTRA", plain("ElectraForSequenceClassification", "ElectraConfig", **TEXT, **HEADS),
                 words()),
    Architecture("MPNet", plain("MPNetForSequenceClassification", "MPNetConfig", **TEXT, **HEADS), words()),
    Architecture("SigLIP", plain("SiglipVisionModel", "SiglipVisionConfig", **IMAGE), images()),
    Architecture("DINOv3", plain("DINOv3ViTModel", "DINOv3ViTConfig", **IMAGE), images()),
    Architecture("Hiera", plain("HieraForImageClassification", "HieraConfig", **HIERA), images(64)),
    Architecture("HuBERT", plain("HubertForCTC", "HubertConfig", **WAV2VEC2),
                 lambda: {"input_values": torch.randn(ROWS, 400)}),
)  # fmt: skip

NETWORKS = [
    *(Network(item.name, "transformers", partial(make_network, item)) for item in ARCHITECTURES),
    *(Network(item.name, "newer", partial(make_network, item)) for item in NEWER),
]
