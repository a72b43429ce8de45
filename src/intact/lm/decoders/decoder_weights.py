"""The weights of a decoder by what they are, whatever the names in its files."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.formats import GgufWeights, WeightFiles, floats_of, open_weights, take_rows
from intact.lm.decoders.module_weights import ModuleWeights, is_module
from intact.lm.description.decoder_config import DecoderConfig, wrong_values
from intact.lm.description.foreign_paths import refuse_foreign
from intact.lm.description.read_description import DIVISORS, read_description
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
_FUSED = {
    "q": ("qkv", 0), "k": ("qkv", 1), "v": ("qkv", 2), "gate": ("gate_up", 0), "up": ("gate_up", 1),
}  # fmt: skip
"""Roles whose weights some files hold one below the other, and their places there."""
_HUGGING_FACE_FUSED = {
    "qkv": "model.layers.{}.self_attn.qkv_proj",
    "gate_up": "model.layers.{}.mlp.gate_up_proj",
}
_GGUF_FUSED = {"qkv": "blk.{}.attn_qkv", "gate_up": "blk.{}.ffn_up"}
_PLAIN_MLP = {"up": "model.layers.{}.mlp.c_fc", "down": "model.layers.{}.mlp.c_proj"}
_GPT2 = {
    "embedding": "wte", "positions": "wpe", "norm": "ln_f", "attention_norm": "h.{}.ln_1",
    "qkv": "h.{}.attn.c_attn", "o": "h.{}.attn.c_proj", "mlp_norm": "h.{}.ln_2", "up": "h.{}.mlp.c_fc",
    "down": "h.{}.mlp.c_proj",
}  # fmt: skip
_TURNED = ("qkv", "o", "up", "down")
"""Roles whose weights GPT-2's folders hold as [inputs, outputs]."""
_UNREAD = ("rotary_emb.inv_freq", DIVISORS, ".attn.masked_bias")
_GGUF = {
    "embedding": "token_embd", "norm": "output_norm", "head": "output", "attention_norm": "blk.{}.attn_norm",
    "q": "blk.{}.attn_q", "k": "blk.{}.attn_k", "v": "blk.{}.attn_v", "o": "blk.{}.attn_output",
    "q_norm": "blk.{}.attn_q_norm", "k_norm": "blk.{}.attn_k_norm", "mlp_norm": "blk.{}.ffn_norm",
    "gate": "blk.{}.ffn_gate", "up": "blk.{}.ffn_up", "down": "blk.{}.ffn_down",
    "post_attention_norm": "blk.{}.post_attention_norm", "post_mlp_norm": "blk.{}.post_ffw_norm",
    "positions": "position_embd",
}  # fmt: skip


_SIZE_FIELDS = {
    **dict.fromkeys("qo", ("attention.head_count", "num_attention_heads")),
    **dict.fromkeys("kv", ("attention.head_count_kv", "num_key_value_heads")),
    **dict.fromkeys(("gate", "up", "down"), ("feed_forward_length", "intermediate_size")),
    **dict.fromkeys(("embedding", "head"), ("vocab_size", "vocab_size")),
    "positions": ("context_length", "max_position_embeddings"),
}  # fmt: skip
"""Fields of GGUF files and of config.json that say how many rows weights have."""


class DecoderWeights:
    """Gives the weights of a decoder, one at a time.

    Args:
        source: A GGUF file, a folder of config.json and safetensors files, or a torch module of transformers.
        accepted: Fields of metadata that the user lets pass where they would be refused.

    Attributes:
        path: The file or folder; of a module what errors call it.
        description: What the files say of the model.
        config: What the model is.
        metadata: What a GGUF file says beside; empty for a folder.

    Raises:
        FileFormatError, UnsupportedError, FileAccessError: As `open_weights`, and for other families.
    """

    def __init__(self, source: str | os.PathLike[str] | Any, accepted: Collection[str] = ()) -> None:
        if is_module(source):
            files = ModuleWeights(source)
            self._files: WeightFiles = files
            self.path = Path(files.where)
        else:
            self.path = Path(source)
            refuse_foreign(self.path)
            self._files = open_weights(source, accepted)
        names = frozenset(self._files.names)
        self.metadata: dict[str, Any] = {}
        if isinstance(self._files, GgufWeights):
            self.metadata = {name: field.value for name, field in self._files.file.metadata.items()}
        with wrong_values(str(self.path)):
            self.description = read_description(self._files, self.path, accepted)
        assert self.description.decoder is not None
        self.config: DecoderConfig = self.description.decoder
        self._names = self._names_of_roles(names)
        self._stored = names
        self._read_names: set[str] = set()

    def _names_of_roles(self, stored: frozenset[str]) -> dict[str, str]:
        if self.metadata:
            return _GGUF | _GGUF_FUSED
        if self.config.family == "gpt2":
            prefix = "transformer." if any(name.startswith("transformer.") for name in stored) else ""
            names = {role: prefix + name for role, name in _GPT2.items()}
            return _HUGGING_FACE | names
        names = _HUGGING_FACE | _HUGGING_FACE_FUSED | (_POST_NORMS if self.config.post_norms else {})
        return names if self.config.is_gated else names | _PLAIN_MLP

    def linear(self, role: str, layer: int = 0) -> BlockWeights | NDArray[np.float32]:
        """Return the weight [outputs, inputs] of a linear layer, in the codes of the file where it has any.

        Raises:
            FileFormatError: It is not there, or has another shape.
        """
        tensor = self._read(role, layer, "weight")
        return tensor if isinstance(tensor, BlockWeights) else np.asarray(tensor, np.float32)

    def vector(self, role: str, layer: int = 0, part: str = "weight") -> NDArray[np.float32]:
        """Return the weight of a norm, or a bias.

        Args:
            role: Such as "norm".
            layer: Its number.
            part: "weight" or "bias".
        Returns:
            float32 [size].
        Raises:
            FileFormatError: It is not there, or has another shape.
        """
        return np.asarray(floats_of(self._read(role, layer, part)), np.float32)

    def has_bias(self, role: str, layer: int = 0) -> bool:
        """Return whether a linear layer has a bias.

        Raises:
            FileFormatError: There is none although the configuration says so.
            UnsupportedError: There is one that the configuration rules out, and it is not zero.
        """
        name = self._name_of(role, layer, "bias")[0]
        is_stored, biases = name in self._stored, self.config.biases
        if biases is None or is_stored == (role in biases):
            return is_stored
        if not is_stored:
            raise FileFormatError(
                str(self.path),
                f"no tensor '{name}'",
                "one, as the configuration says",
                "download the model again",
            )
        if not np.any(self.vector(role, layer, "bias")):  # GPTQ's tools write zeros for layers without a bias
            return False
        raise UnsupportedError(
            str(self.path), f"a tensor '{name}', but the configuration says that there is no bias",
            "one of both", "correct config.json, for instance its attention_bias",
        )  # fmt: skip

    def check_all_read(self) -> None:
        """Refuse files with tensors that nobody has read: the model computes something else than they say.

        Raises:
            UnsupportedError: Names one.
        """
        head = f"{self._names['head']}.weight"
        left = [
            name
            for name in sorted(self._stored - self._read_names)
            if not name.endswith(_UNREAD)
            and not (self.config.tied and name == head)
            and not (self.config.family == "gpt2" and name.endswith(".attn.bias"))  # the causal mask
        ]
        if left:
            raise UnsupportedError(
                str(self.path), f"a tensor '{left[0]}'", f"those of the family '{self.config.family}'",
                "export the model to ONNX, and quantize and build that file",
            )  # fmt: skip

    def _name_of(self, role: str, layer: int, part: str) -> tuple[str, slice | None]:
        """Return the tensor that holds a role, and the rows of it; None: all."""
        name = self._names[role].format(layer)
        fused, place = _FUSED.get(role, ("", 0))
        if fused == "gate_up" and not self.config.is_gated:
            fused = ""
        whole = self._names[fused].format(layer) if fused else ""
        is_alone = f"{name}.weight" in self._stored and (name != whole or not self._is_joined(whole))
        if is_alone or f"{whole}.weight" not in self._stored:  # where a weight is, its bias is
            return f"{name}.{part}", None
        parts = [each for each, (of, _) in _FUSED.items() if of == fused]
        rows = [_shape_of(self.config, each, part)[0] for each in parts]
        return f"{whole}.{part}", slice(sum(rows[:place]), sum(rows[: place + 1]))

    def _is_joined(self, name: str) -> bool:
        """Return whether the layer that is called `up` holds a gate, too: GGUF files have no gate then."""
        return f"{name.replace('ffn_up', 'ffn_gate')}.weight" not in self._stored

    def _size_field(self, role: str) -> str:
        """Return the field that says how many rows or columns the weight of a role has, for errors."""
        names = _SIZE_FIELDS.get(role)
        if names is None:
            return ""
        return f", as {self.config.family}.{names[0]} says" if self.metadata else f", as {names[1]} says"

    def _is_turned(self, role: str) -> bool:
        """Return whether files hold the weight of a role as [inputs, outputs]."""
        place = _FUSED.get(role, (role, 0))[0]
        return self.config.family == "gpt2" and not self.metadata and (role in _TURNED or place in _TURNED)

    def _read(self, role: str, layer: int, part: str) -> BlockWeights | NDArray[Any]:
        name, rows = self._name_of(role, layer, part)
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
        self._read_names.add(name)
        if part == "weight" and self._is_turned(role) and isinstance(tensor, np.ndarray):
            tensor = tensor.T
        if rows is not None and len(tensor.shape) > 0 and tensor.shape[0] >= rows.stop:
            tensor = take_rows(tensor, rows) if isinstance(tensor, BlockWeights) else tensor[rows]
        if tuple(tensor.shape) != expected:
            source = self._size_field(role)
            raise FileFormatError(
                f"tensor '{name}'", f"shape {tuple(tensor.shape)}", f"{expected}{source}",
                "correct the one that is wrong" if source else "download the model again",
            )  # fmt: skip
        return tensor


def _shape_of(config: DecoderConfig, role: str, part: str) -> tuple[int, ...]:
    q, kv = config.heads * config.head_size, config.kv_heads * config.head_size
    matrices = {
        "embedding": (config.vocabulary, config.hidden), "head": (config.vocabulary, config.hidden),
        "q": (q, config.hidden), "k": (kv, config.hidden), "v": (kv, config.hidden), "o": (config.hidden, q),
        "gate": (config.inner, config.hidden), "up": (config.inner, config.hidden),
        "down": (config.hidden, config.inner), "positions": (config.context, config.hidden),
    }  # fmt: skip
    if role in matrices:
        return matrices[role] if part == "weight" else matrices[role][:1]
    return (config.head_size,) if role in ("q_norm", "k_norm") else (config.hidden,)
