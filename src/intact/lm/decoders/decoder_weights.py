"""The weights of a decoder by what they are, whatever the names in its files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.formats import (
    GgufWeights,
    MetadataFields,
    WeightFiles,
    floats_of,
    join_rows,
    open_weights,
    take_rows,
)
from intact.lm.decoders.joint_weights import (
    LATENT_ROLES,
    MIXER_ROLES,
    latent_source,
    latent_weight,
    mixer_shape,
    mixer_source,
    qkv_rows,
)
from intact.lm.decoders.module_weights import ModuleWeights, is_module
from intact.lm.description.decoder_config import DecoderConfig, wrong_values
from intact.lm.description.families import FAMILIES
from intact.lm.description.foreign_paths import refuse_foreign
from intact.lm.description.language_part import LanguageWeights, is_whole
from intact.lm.description.read_description import DIVISORS, read_description
from intact.numerics import BlockWeights

_HUGGING_FACE = {
    "embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head",
    "attention_norm": "model.layers.{}.input_layernorm", "q": "model.layers.{}.self_attn.q_proj",
    "k": "model.layers.{}.self_attn.k_proj", "v": "model.layers.{}.self_attn.v_proj",
    "o": "model.layers.{}.self_attn.o_proj", "q_norm": "model.layers.{}.self_attn.q_norm",
    "k_norm": "model.layers.{}.self_attn.k_norm", "mlp_norm": "model.layers.{}.post_attention_layernorm",
    "gate": "model.layers.{}.mlp.gate_proj", "up": "model.layers.{}.mlp.up_proj",
    "down": "model.layers.{}.mlp.down_proj", "o_norm": "model.layers.{}.self_attn.attn_sub_norm",
    "down_norm": "model.layers.{}.mlp.ffn_sub_norm", "router": "model.layers.{}.mlp.gate",
    "correction": "model.layers.{}.mlp.gate.e_score_correction_bias",
    "expert_gate": "model.layers.{}.mlp.experts.{}.gate_proj",
    "expert_up": "model.layers.{}.mlp.experts.{}.up_proj",
    "expert_down": "model.layers.{}.mlp.experts.{}.down_proj",
    "experts_gate_up": "model.layers.{}.mlp.experts.gate_up_proj",
    "experts_down": "model.layers.{}.mlp.experts.down_proj",
    "shared_gate": "model.layers.{}.mlp.shared_experts.gate_proj",
    "shared_up": "model.layers.{}.mlp.shared_experts.up_proj",
    "shared_down": "model.layers.{}.mlp.shared_experts.down_proj",
    "shared_scale": "model.layers.{}.mlp.shared_expert_gate",
    "q_a": "model.layers.{}.self_attn.q_a_proj", "q_a_norm": "model.layers.{}.self_attn.q_a_layernorm",
    "q_b": "model.layers.{}.self_attn.q_b_proj",
    "kv_a": "model.layers.{}.self_attn.kv_a_proj_with_mqa",
    "kv_a_norm": "model.layers.{}.self_attn.kv_a_layernorm",
    "kv_b": "model.layers.{}.self_attn.kv_b_proj", "sinks": "model.layers.{}.self_attn.sinks",
}  # fmt: skip
_POST_NORMS = {
    "post_attention_norm": "model.layers.{}.post_attention_layernorm",
    "post_mlp_norm": "model.layers.{}.post_feedforward_layernorm",
}
_NORMS = {
    "both": _POST_NORMS | {"mlp_norm": "model.layers.{}.pre_feedforward_layernorm"},
    "after": _POST_NORMS,
}
"""Names of norms by where they stand."""
_FUSED = {
    "q": ("qkv", 0), "k": ("qkv", 1), "v": ("qkv", 2), "gate": ("gate_up", 0), "up": ("gate_up", 1),
    "shared_gate": ("shared_gate_up", 0), "shared_up": ("shared_gate_up", 1),
}  # fmt: skip
"""Roles whose weights some files hold one below the other, and their places there."""
_HUGGING_FACE_FUSED = {
    "qkv": "model.layers.{}.self_attn.qkv_proj",
    "gate_up": "model.layers.{}.mlp.gate_up_proj",
    "shared_gate_up": "model.layers.{}.mlp.shared_experts.gate_up_proj",
}
_GGUF_FUSED = {"qkv": "blk.{}.attn_qkv", "gate_up": "blk.{}.ffn_up"}
_TURNED = ("q", "k", "v", "o", "up", "down")
"""Roles whose weights some folders hold as [inputs, outputs]."""
_EXPERT_ROLES = ("router", "expert", "shared", "correction")
_UNREAD = ("rotary_emb.inv_freq", DIVISORS, ".attn.masked_bias")
_GGUF = {
    "embedding": "token_embd", "norm": "output_norm", "head": "output", "attention_norm": "blk.{}.attn_norm",
    "q": "blk.{}.attn_q", "k": "blk.{}.attn_k", "v": "blk.{}.attn_v", "o": "blk.{}.attn_output",
    "q_norm": "blk.{}.attn_q_norm", "k_norm": "blk.{}.attn_k_norm", "mlp_norm": "blk.{}.ffn_norm",
    "gate": "blk.{}.ffn_gate", "up": "blk.{}.ffn_up", "down": "blk.{}.ffn_down",
    "post_attention_norm": "blk.{}.post_attention_norm", "post_mlp_norm": "blk.{}.post_ffw_norm",
    "positions": "position_embd",
}  # fmt: skip


_LLAMA = FAMILIES["llama"]
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
        code_bits: Of a weight in the codes of a GGUF file; 0.0 where it has none.

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
        if is_whole(MetadataFields(self._files.config, "config.json")):
            self._files = LanguageWeights(self._files)
        names = frozenset(self._files.names)
        self.metadata: dict[str, Any] = {}
        self.code_bits = 0.0
        if isinstance(self._files, GgufWeights):
            self.code_bits = self._files.code_bits()
            self.metadata = {name: field.value for name, field in self._files.file.metadata.items()}
        with wrong_values(str(self.path)):
            self.description = read_description(self._files, self.path, accepted)
        assert self.description.decoder is not None
        self.config: DecoderConfig = self.description.decoder
        self._family = FAMILIES.get(self.config.family, _LLAMA)
        self._names = self._names_of_roles(names)
        self._stored = names
        self._mixer_roles = frozenset(
            role
            for role in self._names
            if role.startswith("mixer_")
            and (f"{_any_layer(self._names[role])}.weight" in {_any_layer(name) for name in names})
        )
        self._read_names: set[str] = set()
        if self.config.tied and self._has_other_head():
            self.config = replace(self.config, tied=False)
            self.description = replace(self.description, decoder=self.config)

    def _has_other_head(self) -> bool:
        """Return whether files have a head that is not the embedding: transformers 5 ties no such layers."""
        if f"{self._names['head']}.weight" not in self._stored:
            return False
        head, embedding = (floats_of(self.linear(role)) for role in ("head", "embedding"))
        return not np.array_equal(head, embedding)

    def _names_of_roles(self, stored: frozenset[str]) -> dict[str, str]:
        if self.metadata:
            return _GGUF | _GGUF_FUSED
        norms = self.config.norms
        names = _HUGGING_FACE | _HUGGING_FACE_FUSED | _NORMS.get(norms, {})
        own = {**self._family.tensors, **self._family.norm_tensors.get(norms, {})}
        if self._family.alias and f"{names['embedding']}.weight" in stored:  # as the other family saves it
            own = {}
        patterns = {re.sub(r"\.\d+(?=\.)", ".{}", name.removesuffix(".weight")) for name in stored}
        for role in [role for role in own if role.startswith(_EXPERT_ROLES) and own[role] not in patterns]:
            if names[role] in patterns:  # as modules hold them
                del own[role]
        names |= own
        if f"{names['head']}.weight" not in stored:
            names["head"] = _HUGGING_FACE["head"]
        base = f"{names['embedding'].partition('.')[0]}."
        if not any(name.startswith(base) for name in stored):  # as models without a head are saved
            names = {role: name.removeprefix(base) for role, name in names.items()}
        return names

    def linear(self, role: str, layer: int = 0) -> BlockWeights | NDArray[np.float32]:
        """Return the weight [outputs, inputs] of a linear layer, in the codes of the file where it has any.

        Raises:
            FileFormatError: It is not there, or has another shape.
        """
        if self.config.latent is not None and role in LATENT_ROLES:
            source, shape = latent_source(self.config, role)
            name = f"{self._names[source].format(layer)}.weight"
            return latent_weight(self.config, role, self._tensor(name, shape))
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

    def experts(self, role: str, layer: int) -> BlockWeights | NDArray[np.float32]:
        """Return the weights [experts * outputs, inputs] of all experts, one below the other.

        Args:
            role: "expert_gate", "expert_up" or "expert_down".
            layer: Its number.
        Raises:
            FileFormatError: One is not there, or has another shape.
        """
        config = self.config
        assert config.experts is not None
        count, inner = config.experts.count, config.experts.inner
        shape = (config.hidden, inner) if role == "expert_down" else (inner, config.hidden)
        names = [f"{self._names[role].format(layer, expert)}.weight" for expert in range(count)]
        if names[0] in self._stored:
            return join_rows([self._tensor(name, shape) for name in names])
        is_down = role == "expert_down"
        whole = self._names["experts_down" if is_down else "experts_gate_up"].format(layer)
        is_single = is_down or not config.experts.is_gated
        outputs, rows = shape[0] * (1 if is_single else 2), self._expert_rows(role)
        if f"{whole}.weight" in self._stored:
            codes = self._tensor(f"{whole}.weight", (count * outputs, shape[1]))
            return take_rows(codes, rows) if isinstance(codes, BlockWeights) else codes[rows]
        is_turned = self._family.experts is not None and self._family.experts.turned
        sizes = (count, shape[1], outputs) if is_turned else (count, outputs, shape[1])
        stacked = np.asarray(floats_of(self._tensor(whole, sizes)), np.float32)
        stacked = stacked.swapaxes(1, 2) if is_turned else stacked
        return np.ascontiguousarray(stacked.reshape(-1, shape[1])[rows])

    def expert_biases(self, role: str, layer: int) -> NDArray[np.float32]:
        """Return the biases of all experts, float32 [experts * outputs], as `experts` returns their weights.

        Raises:
            FileFormatError: They are not there, or have another shape.
        """
        config, is_down = self.config, role == "expert_down"
        assert config.experts is not None
        outputs = config.hidden if is_down else 2 * config.experts.inner
        name = f"{self._names['experts_down' if is_down else 'experts_gate_up'].format(layer)}_bias"
        biases = np.asarray(floats_of(self._tensor(name, (config.experts.count, outputs))), np.float32)
        return np.ascontiguousarray(biases.reshape(-1)[self._expert_rows(role)])

    def _expert_rows(self, role: str) -> NDArray[np.int64]:
        """Return the rows of a role in what holds the rows of all experts."""
        experts, family = self.config.experts, self._family.experts
        assert experts is not None and family is not None
        if role == "expert_down" or not experts.is_gated:
            return np.arange(experts.count * (self.config.hidden if role == "expert_down" else experts.inner))
        rows = np.arange(experts.count * 2 * experts.inner).reshape(experts.count, -1)
        place = 0 if role == "expert_gate" else 1
        if family.rows_alternate:
            return np.ascontiguousarray(rows[:, place::2]).reshape(-1)
        return np.ascontiguousarray(rows[:, place * experts.inner :][:, : experts.inner]).reshape(-1)

    def sinks(self, layer: int) -> NDArray[np.float32]:
        """Return the sinks of a layer's attention, float32 [heads].

        Raises:
            FileFormatError: They are not there, or have another shape.
        """
        name = self._names["sinks"].format(layer)
        return np.asarray(floats_of(self._tensor(name, (self.config.heads,))), np.float32)

    def correction(self, layer: int) -> NDArray[np.float32]:
        """Return what is added to the scores of experts before some are chosen, float32 [experts].

        Raises:
            FileFormatError: It is not there, or has another shape.
        """
        assert self.config.experts is not None
        name, count = self._names["correction"].format(layer), self.config.experts.count
        shape = (1, count) if "moe_statics" in name else (count,)
        return np.asarray(floats_of(self._tensor(name, shape)), np.float32).reshape(-1)

    def mixer_vector(self, role: str, layer: int, part: str = "weight") -> NDArray[np.float32]:
        """Return numbers of a layer with states: of its convolution, its norm or its heads.

        Args:
            role: "mixer_conv", "mixer_norm", "mixer_slopes", "mixer_bias" or "mixer_direct".
            layer: Its number.
            part: "weight" or "bias".
        Returns:
            float32.
        Raises:
            FileFormatError: They are not there, or have another shape.
        """
        name, shape = self._names[role].format(layer), mixer_shape(self.config, role)
        name = name if f"{name}.weight" not in self._stored else f"{name}.{part}"
        return np.asarray(floats_of(self._tensor(name, shape if part == "weight" else shape[:1])), np.float32)

    def has_bias(self, role: str, layer: int = 0) -> bool:
        """Return whether a linear layer has a bias.

        Raises:
            FileFormatError: There is none although the configuration says so.
            UnsupportedError: There is one that the configuration rules out, and it is not zero.
        """
        if self.config.latent is not None and role in LATENT_ROLES:
            role = latent_source(self.config, role)[0]
        name = self._name_of(role, layer, "bias")[0]
        is_stored, biases = name in self._stored, self.config.biases
        if role in MIXER_ROLES:
            role = mixer_source(self.config, role, self._mixer_roles)[0]
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
        left = [
            name
            for name in sorted(self._stored - self._read_names)
            if not name.endswith(_UNREAD)
            and not name.startswith(self._family.unread_tensors)
            and not _any_layer(name).startswith(self._family.unread_tensors)
            and not self._predicts_later_tokens(name)
            and not (self.config.learned_positions and name.endswith(".attn.bias"))  # the causal mask
        ]
        if left:
            raise UnsupportedError(
                str(self.path), f"a tensor '{left[0]}'", f"those of the family '{self.config.family}'",
                "export the model to ONNX, and quantize and build that file",
            )  # fmt: skip

    def _predicts_later_tokens(self, name: str) -> bool:
        """Return whether a tensor is of a layer behind the last: it proposes tokens, and changes no logit."""
        number = re.search(r"\.layers\.(\d+)\.", name)
        may_predict = "num_nextn_predict_layers" in self._family.unread
        return may_predict and number is not None and int(number[1]) >= self.config.layers

    def _name_of(self, role: str, layer: int, part: str) -> tuple[str, slice | NDArray[np.int64] | None]:
        """Return the tensor that holds a role, and the rows of it; None: all."""
        if role in MIXER_ROLES:
            source, rows = mixer_source(self.config, role, self._mixer_roles)
            return f"{self._names[source].format(layer)}.{part}", rows
        if self.config.gates_attention and role in ("q", "q_gate") and "q_gate" not in self._names:
            both = np.arange(2 * self.config.heads * self.config.head_size)
            each = both.reshape(self.config.heads, 2, -1)[:, int(role == "q_gate")]
            return f"{self._names['q'].format(layer)}.{part}", each.reshape(-1)
        name = self._names[role].format(layer)
        fused, place = _FUSED.get(role, ("", 0))
        if fused == "gate_up" and not self.config.is_gated:
            fused = ""
        whole = self._names[fused].format(layer) if fused else ""
        is_alone = f"{name}.weight" in self._stored and (name != whole or not self._is_joined(whole))
        if is_alone or f"{whole}.weight" not in self._stored:  # where a weight is, its bias is
            return f"{name}.{part}", None
        parts = [each for each, (of, _) in _FUSED.items() if of == fused]
        counts = [_shape_of(self.config, each, part)[0] for each in parts]
        if fused == "qkv" and self.config.qkv_order != "parts":
            return f"{whole}.{part}", qkv_rows(self.config, place)
        return f"{whole}.{part}", slice(sum(counts[:place]), sum(counts[: place + 1]))

    def _is_joined(self, name: str) -> bool:
        """Return whether the layer that is called `up` holds a gate, too: GGUF files have no gate then."""
        return f"{name.replace('ffn_up', 'ffn_gate')}.weight" not in self._stored

    def _read_heads(self, name: str, expected: tuple[int, ...]) -> NDArray[Any]:
        """Return the norms of heads, each of which has a tensor."""
        names = [f"{name}.{head}.weight" for head in range(expected[0])]
        missing = next((each for each in names if each not in self._stored), None)
        if missing is not None:
            raise FileFormatError(
                str(self.path), f"no tensor '{missing}'", "one for each head", "download the model again"
            )
        self._read_names.update(names)
        weights = [np.asarray(floats_of(self._files.read(each))) for each in names]
        if {weight.shape for weight in weights} != {expected[1:]}:
            raise FileFormatError(
                f"tensors '{name}'", "another shape", f"{expected[1:]} each", "download the model again"
            )
        return np.stack(weights)

    def _size_field(self, role: str) -> str:
        """Return the field that says how many rows or columns the weight of a role has, for errors."""
        names = _SIZE_FIELDS.get(role)
        if names is None:
            return ""
        return f", as {self.config.family}.{names[0]} says" if self.metadata else f", as {names[1]} says"

    def _is_turned(self, role: str) -> bool:
        """Return whether files hold the weight of a role as [inputs, outputs]."""
        return self._family.turned and not self.metadata and role in _TURNED

    def _read(self, role: str, layer: int, part: str) -> BlockWeights | NDArray[Any]:
        name, rows = self._name_of(role, layer, part)
        expected = _shape_of(self.config, role, part)
        if self.config.qk_norm == "heads" and f"{name.removesuffix('.weight')}.0.weight" in self._stored:
            return self._read_heads(name.removesuffix(".weight"), expected)
        tensor = self._stored_tensor(name, expected)
        if part == "weight" and self._is_turned(role) and isinstance(tensor, np.ndarray):
            tensor = tensor.T
        end = rows.stop if isinstance(rows, slice) else 0 if rows is None else int(rows.max()) + 1
        if rows is not None and len(tensor.shape) > 0 and tensor.shape[0] >= end:
            tensor = take_rows(tensor, rows) if isinstance(tensor, BlockWeights) else tensor[rows]
        self._check_shape(name, tensor, expected, self._size_field(role))
        return tensor

    def _tensor(self, name: str, shape: tuple[int, ...]) -> BlockWeights | NDArray[Any]:
        """Return a whole tensor of a shape."""
        tensor = self._stored_tensor(name, shape)
        self._check_shape(name, tensor, shape, "")
        return tensor

    def _stored_tensor(self, name: str, expected: tuple[int, ...]) -> BlockWeights | NDArray[Any]:
        if name not in self._stored:
            raise FileFormatError(
                str(self.path), f"no tensor '{name}'", f"one of shape {expected}", "download the model again"
            )
        self._read_names.add(name)
        try:
            return self._files.read(name)
        except QuantValueError as error:
            raise FileFormatError(
                str(self.path), error.got, error.want, "download the model again"
            ) from error

    def _check_shape(
        self, name: str, tensor: BlockWeights | NDArray[Any], expected: tuple[int, ...], source: str
    ) -> None:
        if tuple(tensor.shape) != expected:
            raise FileFormatError(
                f"tensor '{name}'", f"shape {tuple(tensor.shape)}", f"{expected}{source}",
                "correct the one that is wrong" if source else "download the model again",
            )  # fmt: skip


def _any_layer(name: str) -> str:
    """Return the name of a tensor without the number of its layer."""
    return re.sub(r"\.(\d+|\{\})(?=\.)", ".*", name, count=1)


def _shape_of(config: DecoderConfig, role: str, part: str) -> tuple[int, ...]:
    q, kv = config.heads * config.head_size, config.kv_heads * config.head_size
    if role in MIXER_ROLES:
        return mixer_shape(config, role)[: 2 if part == "weight" else 1]
    if role == "q_gate":
        return (q, config.hidden)[: 2 if part == "weight" else 1]
    matrices = {
        "embedding": (config.vocabulary, config.hidden), "head": (config.vocabulary, config.hidden),
        "q": (q, config.hidden), "k": (kv, config.hidden), "v": (kv, config.hidden), "o": (config.hidden, q),
        "gate": (config.inner, config.hidden), "up": (config.inner, config.hidden),
        "down": (config.hidden, config.inner),
        "positions": (config.context + config.position_offset, config.hidden),
    }  # fmt: skip
    if config.experts is not None:
        shared, count = config.experts.shared, config.experts.count
        matrices |= {
            "router": (count, config.hidden), "shared_gate": (shared, config.hidden),
            "shared_up": (shared, config.hidden), "shared_down": (config.hidden, shared),
            "shared_scale": (1, config.hidden),
        }  # fmt: skip
    if role in matrices:
        return matrices[role] if part == "weight" else matrices[role][:1]
    if role in ("q_norm", "k_norm"):
        heads = config.heads if role == "q_norm" else config.kv_heads
        kinds = {"whole": (heads * config.head_size,), "heads": (heads, config.head_size)}
        return kinds.get(config.qk_norm, (config.head_size,))
    if config.latent is not None and role in ("q_a_norm", "kv_a_norm"):
        return (config.latent.q_rank if role == "q_a_norm" else config.latent.kv_rank,)
    return {"o_norm": (q,), "down_norm": (config.inner,)}.get(role, (config.hidden,))
