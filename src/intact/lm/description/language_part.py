"""The language model of a model that reads images or sounds, too: its fields, and its tensors.

Without images its logits are those of the text model that `text_config` describes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.formats import FieldUse, MetadataFields, WeightFiles
from intact.lm.description.config_json import config_from_json
from intact.lm.description.decoder_config import DecoderConfig
from intact.lm.description.families import FAMILIES
from intact.lm.description.families.config_fields import HARMLESS
from intact.numerics import BlockWeights

TEXT = "text_config"
_LEFT_OUT = "only the language model is opened: images and sounds are not read"


@dataclass(frozen=True)
class WholeModel:
    """A model around a language model.

    Attributes:
        architecture: Of its class in transformers, without "ForConditionalGeneration".
        is_tied: What a missing `tie_word_embeddings` means; the outer field counts.
        tied_by_text: The field of the language model ties as well.
    """

    architecture: str
    is_tied: bool
    tied_by_text: bool = False


WHOLE_MODELS = {
    "gemma3": WholeModel("Gemma3", True),
    "internvl": WholeModel("InternVL", True), "lfm2_vl": WholeModel("Lfm2Vl", True),
    "llava": WholeModel("Llava", False, True), "mistral3": WholeModel("Mistral3", True),
    "qwen3_5": WholeModel("Qwen3_5", False), "qwen3_5_moe": WholeModel("Qwen3_5Moe", False),
    "smolvlm": WholeModel("SmolVLM", False),
}  # fmt: skip
"""By `model_type`: those that compute nothing else than their language model where a text is all there is."""

_OF_IMAGES = (
    "vision_config", "image_token_id", "image_token_index", "video_token_id", "vision_start_token_id",
    "vision_end_token_id", "boi_token_index", "eoi_token_index", "mm_tokens_per_image", "image_seq_length",
    "projector_hidden_act", "projector_hidden_size", "projector_bias", "projector_use_layernorm",
    "multimodal_projector_bias", "spatial_merge_size", "vision_feature_layer",
    "vision_feature_select_strategy", "downsample_ratio", "downsample_factor", "scale_factor",
    "_pad_token_id",
)  # fmt: skip
_PREFIXES = {
    "model.language_model.": "model.", "language_model.model.": "model.", "model.text_model.": "model.",
    "language_model.lm_head.": "lm_head.",
}  # fmt: skip
"""Beginnings of names of tensors, and what they are in a model of text alone."""
_TOWERS = tuple(
    f"{model}{tower}." for model in ("", "model.")
    for tower in ("vision_tower", "vision_model", "visual", "multi_modal_projector", "connector")
)  # fmt: skip


def is_whole(fields: MetadataFields) -> bool:
    """Return whether config.json describes a model whose language model is read."""
    kind, inner = fields.peek("model_type"), fields.peek(TEXT)
    if not isinstance(kind, str) or kind not in WHOLE_MODELS or not isinstance(inner, dict):
        return False
    return isinstance(inner.get("model_type"), str) and inner["model_type"] in FAMILIES


def read_folder_config(fields: MetadataFields) -> tuple[MetadataFields, DecoderConfig]:
    """Return the fields of the language model, and what they say.

    Args:
        fields: Of config.json.
    Raises:
        UnsupportedError, FileFormatError: As of `config_from_json`.
    """
    if not is_whole(fields):
        return fields, config_from_json(fields)
    whole = WHOLE_MODELS[str(fields.take("model_type"))]
    names = fields.items("architectures", str) or []
    if any(name != f"{whole.architecture}ForConditionalGeneration" for name in names):
        fields.refuse("architectures", f"{whole.architecture}ForConditionalGeneration")
    inner = fields.inner_fields(TEXT)
    assert inner is not None
    decoder = config_from_json(inner)
    if decoder.logit_cap or decoder.logit_divisor != 1:
        raise UnsupportedError(
            f"{fields.file}: {TEXT}", "a language model that scales its logits, which the whole does not",
            "the same logits in both", "take the text model of the family, or export its part to ONNX",
        )  # fmt: skip
    is_tied = fields.flag("tie_word_embeddings", whole.is_tied) or (whole.tied_by_text and decoder.tied)
    fields.harmless({**HARMLESS, **dict.fromkeys(_OF_IMAGES, _LEFT_OUT)})
    inner.harmless({"quantization_config": "the outer one counts"})
    return inner, replace(decoder, tied=is_tied)


class LanguageWeights:
    """The tensors of the language model among those of a whole one, under the names of a model of text alone.

    Args:
        files: Of the whole model.

    Attributes:
        format, names, config, field_uses: As of `WeightFiles`; tensors of unknown parts keep their names.
    """

    def __init__(self, files: WeightFiles) -> None:
        self._files = files
        self.format, self.config = files.format, files.config
        self.field_uses: tuple[FieldUse, ...] = files.field_uses
        self._stored = {_plain_name(name): name for name in files.names if not name.startswith(_TOWERS)}
        self.names = tuple(self._stored)

    def read(self, name: str) -> BlockWeights | NDArray[Any]:
        """Return a tensor, as `WeightFiles.read` does."""
        return self._files.read(self._stored.get(name, name))


def _plain_name(name: str) -> str:
    for prefix, plain in _PREFIXES.items():
        if name.startswith(prefix):
            return plain + name.removeprefix(prefix)
    return name
