"""Architectures of the package transformers, small, with random weights and inputs of a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as t
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from torch.utils import _pytree as pytree

Inputs = dict[str, Tensor]
WORDS, VOCABULARY, WIDTH, PIXELS, ROWS = 16, 128, 64, 32, 2
COMMON = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TEXT = {**COMMON, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
IMAGE = {**COMMON, "image_size": PIXELS, "patch_size": 8}


@dataclass(frozen=True)
class Architecture:
    """One architecture.

    Attributes:
        name: As people call it.
        make: The module.
        inputs: One batch, by the names of the forward's arguments.
        requested: Whether the nine that were asked for have it; others were tried after them.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    requested: bool = False

    def build(self) -> nn.Module:
        """The module in evaluation mode, its numbers nearer to trained ones than those it begins with.

        Weights keep the size of signals, which 0.02 for all lets vanish; norms and biases are random too.
        """
        torch.manual_seed(0)
        model = self.make().eval()
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d)) and not is_parametrized(module):
                    module.weight.normal_(std=module.weight[0].numel() ** -0.5)
            for name, x in model.named_parameters():
                if x.dim() == 1 and not name.endswith(("A_log", "dt_proj.bias")):
                    x.add_(0.1 * torch.randn_like(x))
        return model

    def batches(self, count: int, seed: int) -> list[Inputs]:
        """Some inputs."""
        torch.manual_seed(seed)
        return [self.inputs() for _ in range(count)]


class Answers(nn.Module):
    """A module that takes positional tensors and answers a tuple of tensors: what TorchScript can trace."""

    def __init__(self, net: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.net, self.names = net, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensors(self.net(**dict(zip(self.names, inputs, strict=True)))))


def tensors(answer: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(answer) if isinstance(x, Tensor)]


def words(**more: Any) -> Callable[[], Inputs]:
    """Sentences, the last one padded."""

    def make_inputs() -> Inputs:
        mask = torch.ones(ROWS, WORDS, dtype=torch.int64)
        mask[-1, -5:] = 0
        ids = torch.randint(3, VOCABULARY, (ROWS, WORDS))
        return {"input_ids": ids, "attention_mask": mask} | {k: f() for k, f in more.items()}

    return make_inputs


def image(size: int = PIXELS) -> Tensor:
    """Images with large and small structures, as photographs have them."""
    coarse = nn.functional.interpolate(torch.randn(ROWS, 3, 4, 4), (size, size), mode="bilinear")
    return coarse + 0.3 * torch.randn(ROWS, 3, size, size)


def images(size: int = PIXELS) -> Callable[[], Inputs]:
    return lambda: {"pixel_values": image(size)}


def detr() -> nn.Module:
    backbone = t.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    return t.DetrForObjectDetection(
        t.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone,
            d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10,
        )
    )  # fmt: skip


def whisper() -> nn.Module:
    return t.WhisperForConditionalGeneration(
        t.WhisperConfig(
            vocab_size=VOCABULARY, num_mel_bins=16, d_model=WIDTH, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
            max_source_positions=32, max_target_positions=32, use_cache=False, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        )
    )  # fmt: skip


def speech() -> Inputs:
    return {
        "input_features": torch.randn(ROWS, 16, 64),
        "decoder_input_ids": torch.randint(3, VOCABULARY, (ROWS, WORDS)),
        "decoder_attention_mask": torch.ones(ROWS, WORDS, dtype=torch.int64),
    }


def clip() -> nn.Module:
    text = {**TEXT, "projection_dim": 32, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    vision = {**IMAGE, "projection_dim": 32}
    return t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=32))


def pair() -> Inputs:
    """Sentences that end, and images."""
    result = words()()
    result["input_ids"][:, -1] = 2
    return {
        "input_ids": result["input_ids"],
        "pixel_values": image(),
        "attention_mask": result["attention_mask"],
    }


def causal(config: Any) -> Callable[[], nn.Module]:
    return lambda: t.AutoModelForCausalLM.from_config(config(), attn_implementation="sdpa")


def plain(kind: str, config: str, **fields: Any) -> Callable[[], nn.Module]:
    """``kind(config(**fields))``; a name that transformers lacks is an error of that architecture alone."""
    return lambda: getattr(t, kind)(getattr(t, config)(**fields))


LLAMA = {**TEXT, "num_key_value_heads": 2, "use_cache": False}
STAGES = {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [2, 2]}
SWIN = {
    "image_size": PIXELS,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
SEGFORMER = {
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "sr_ratios": [4, 2],
    "hidden_sizes": [16, 32],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "num_attention_heads": [1, 2],
    "mlp_ratios": [2, 2],
    "decoder_hidden_size": 32,
}
GPT2 = {
    "vocab_size": VOCABULARY,
    "n_positions": 64,
    "n_embd": WIDTH,
    "n_layer": 2,
    "n_head": 4,
    "use_cache": False,
}
T5 = {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
DISTILBERT = {"vocab_size": VOCABULARY, "dim": WIDTH, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
MOBILEVIT = {
    "image_size": 64,
    "patch_size": 2,
    "hidden_sizes": [32, 32, 32],
    "neck_hidden_sizes": [16, 16, 16, 24, 24, 24, 32],
    "num_attention_heads": 4,
    "expand_ratio": 2.0,
}
WAV2VEC2 = {
    **COMMON,
    "vocab_size": 32,
    "conv_dim": [32, 32],
    "conv_kernel": [10, 3],
    "conv_stride": [5, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
DPT = {
    **IMAGE,
    "num_hidden_layers": 4,
    "backbone_out_indices": [0, 1, 2, 3],
    "neck_hidden_sizes": [16, 16, 32, 32],
    "fusion_hidden_size": 16,
    "is_hybrid": False,
}
MAMBA = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "state_size": 8,
    "num_hidden_layers": 2,
    "use_cache": False,
}
MIXTRAL = {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}
BART = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "use_cache": False,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
}

ARCHITECTURES = (
    Architecture("BERT", plain("BertForSequenceClassification", "BertConfig", **TEXT), words(), True),
    Architecture("ViT", plain("ViTForImageClassification", "ViTConfig", **IMAGE), images(), True),
    Architecture("Swin", plain("SwinForImageClassification", "SwinConfig", **SWIN), images(), True),
    Architecture("DETR", detr, images(64), True),
    Architecture("Whisper", whisper, speech, True),
    Architecture("Llama", plain("LlamaForCausalLM", "LlamaConfig", **LLAMA), words(), True),
    Architecture("CLIP", clip, pair, True),
    Architecture(
        "ConvNeXt", plain("ConvNextForImageClassification", "ConvNextConfig", **STAGES), images(), True
    ),
    Architecture(
        "SegFormer", plain("SegformerForSemanticSegmentation", "SegformerConfig", **SEGFORMER), images(), True
    ),
    Architecture("GPT-2", plain("GPT2LMHeadModel", "GPT2Config", **GPT2), words()),
    Architecture("T5 encoder", plain("T5EncoderModel", "T5Config", **T5), words()),
    Architecture("DeiT", plain("DeiTForImageClassification", "DeiTConfig", **IMAGE), images()),
    Architecture(
        "MobileViT", plain("MobileViTForImageClassification", "MobileViTConfig", **MOBILEVIT), images(64)
    ),
    Architecture(
        "DistilBERT", plain("DistilBertForSequenceClassification", "DistilBertConfig", **DISTILBERT), words()
    ),
    Architecture(
        "Wav2Vec2",
        plain("Wav2Vec2ForCTC", "Wav2Vec2Config", **WAV2VEC2),
        lambda: {"input_values": torch.randn(ROWS, 400)},
    ),
    Architecture(
        "ResNet",
        plain(
            "ResNetForImageClassification",
            "ResNetConfig",
            embedding_size=16,
            hidden_sizes=[32, 64],
            depths=[2, 2],
        ),
        images(),
    ),
    Architecture("DPT", plain("DPTForDepthEstimation", "DPTConfig", **DPT), images()),
    Architecture(
        "OWL-ViT",
        lambda: t.OwlViTForObjectDetection(
            t.OwlViTConfig(text_config=TEXT, vision_config=IMAGE, projection_dim=WIDTH)
        ),
        pair,
    ),
    Architecture(
        "Mamba",
        plain("MambaForCausalLM", "MambaConfig", **MAMBA),
        lambda: {"input_ids": words()()["input_ids"]},
    ),
    Architecture("BART", plain("BartForConditionalGeneration", "BartConfig", **BART), words()),
    Architecture("Qwen3", plain("Qwen3ForCausalLM", "Qwen3Config", **LLAMA, head_dim=16), words()),
    Architecture("Mixtral", plain("MixtralForCausalLM", "MixtralConfig", **MIXTRAL), words()),
    Architecture("DINOv2", plain("Dinov2ForImageClassification", "Dinov2Config", **IMAGE), images()),
    Architecture("BEiT", plain("BeitForImageClassification", "BeitConfig", **IMAGE), images()),
    Architecture(
        "MobileNetV2",
        plain(
            "MobileNetV2ForImageClassification", "MobileNetV2Config", image_size=PIXELS, depth_multiplier=0.35
        ),
        images(),
    ),
    Architecture(
        "ALBERT", plain("AlbertForSequenceClassification", "AlbertConfig", **TEXT, embedding_size=32), words()
    ),
)
