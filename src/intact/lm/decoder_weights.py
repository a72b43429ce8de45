"""The weights of a decoder by what they are, whatever the names in its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, QuantValueError
from intact.formats import GgufFile, WeightFiles, floats_of, open_weights
from intact.lm.decoder_config import DecoderConfig, config_from_gguf, config_from_json
from intact.numerics import BlockWeights

_HUGGING_FACE = {
    "embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head",
    "attention_norm": "model.layers.{}.input_layernorm", "q": "model.layers.{}.self_attn.q_proj",
    "k": "model.layers.{}.self_attn.k_proj", "v": "model.layers.{}.self_attn.v_proj",
    "o": "model.layers.{}.self_attn.o_proj", "q_norm": "model.layers.{}.self_attn.q_norm",
    "k_norm": "model.layers.{}.self_attn.k_norm", "mlp_norm": "model.layers.{}.post_attention_layernorm",
    "gate": "model.layers.{}.mlp.gate_proj", "up": "model.layers.{}.mlp.up_proj",
    "down": "model.layers.{}.mlp.down_proj",
}  # fmt: skip
_POST_NORMS = {
    "post_attention_norm": "model.layers.{}.post_attention_layernorm",
    "mlp_norm": "model.layers.{}.pre_feedforward_layernorm",
    "post_mlp_norm": "model.layers.{}.post_feedforward_layernorm",
}
_GGUF = {
    "embedding": "token_embd", "norm": "output_norm", "head": "output", "attention_norm": "blk.{}.attn_norm",
    "q": "blk.{}.attn_q", "k": "blk.{}.attn_k", "v": "blk.{}.attn_v", "o": "blk.{}.attn_output",
    "q_norm": "blk.{}.attn_q_norm", "k_norm": "blk.{}.attn_k_norm", "mlp_norm": "blk.{}.ffn_norm",
    "gate": "blk.{}.ffn_gate", "up": "blk.{}.ffn_up", "down": "blk.{}.ffn_down",
    "post_attention_norm": "blk.{}.post_attention_norm", "post_mlp_norm": "blk.{}.post_ffw_norm",
}  # fmt: skip


class DecoderWeights:
    """Gives the weights of a decoder, one at a time.

    Args:
        path: A GGUF file, or a folder of config.json and safetensors files.

    Attributes:
        path: The same.
        config: What the model is.
        metadata: What a GGUF file says beside; empty for a folder.
        json: What config.json says; empty for a GGUF file.

    Raises:
        FileFormatError, UnsupportedError, FileAccessError: As `open_weights`, and for other families.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._files: WeightFiles = open_weights(path)
        names = frozenset(self._files.names)
        self.metadata: dict[str, Any] = {}
        self.json = self._files.config
        if self._files.format == "gguf":
            self.metadata = {name: field.value for name, field in GgufFile(path).metadata.items()}
            self.config = config_from_gguf(self.metadata, names, str(path))
            self._names = _GGUF
        else:
            self.config = config_from_json(self._files.config, str(path))
            self._names = _HUGGING_FACE | (_POST_NORMS if self.config.post_norms else {})
        self._stored = names

    def linear(self, role: str, layer: int = 0) -> BlockWeights | NDArray[np.float32]:
        """Return the weight [outputs, inputs] of a linear layer, in the codes of the file where it has any.

        Raises:
            FileFormatError: It is not there, or has another shape.
        """
        tensor = self._read(role, layer, "weight")
        return tensor if isinstance(tensor, BlockWeights) else np.asarray(tensor, np.float32)

    def vector(self, role: str, layer: int = 0, part: str = "weight") -> NDArray[np.float32]:
        """Return the weight of a norm, or a bias.

        Raises:
            FileFormatError: It is not there, or has another shape.
        """
        return np.asarray(floats_of(self._read(role, layer, part)), np.float32)

    def _read(self, role: str, layer: int, part: str) -> BlockWeights | NDArray[Any]:
        name = f"{self._names[role].format(layer)}.{part}"
        expected = _shape_of(self.config, role, part)
        if name not in self._stored:
            raise FileFormatError(
                str(self.path), f"no tensor '{name}'", f"one of shape {expected}", "download the model again"
            )
        try:
            tensor = self._files.read(name)
        except QuantValueError as error:
            raise FileFormatError(
                str(self.path), error.got, error.want, "download the model again"
            ) from error
        if tuple(tensor.shape) != expected:
            raise FileFormatError(
                f"tensor '{name}'", f"shape {tuple(tensor.shape)}", str(expected), "download the model again"
            )
        return tensor


def _shape_of(config: DecoderConfig, role: str, part: str) -> tuple[int, ...]:
    q, kv = config.heads * config.head_size, config.kv_heads * config.head_size
    matrices = {
        "embedding": (config.vocabulary, config.hidden), "head": (config.vocabulary, config.hidden),
        "q": (q, config.hidden), "k": (kv, config.hidden), "v": (kv, config.hidden), "o": (config.hidden, q),
        "gate": (config.inner, config.hidden), "up": (config.inner, config.hidden),
        "down": (config.hidden, config.inner),
    }  # fmt: skip
    if role in matrices:
        return matrices[role] if part == "weight" else matrices[role][:1]
    return (config.head_size,) if role in ("q_norm", "k_norm") else (config.hidden,)
