"""Reads everything that decides what a language model computes, from whatever files it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from intact.formats import FieldUse, GgufWeights, WeightFiles, floats_of
from intact.lm.description.chat_templates import folder_chat_templates, gguf_chat_templates
from intact.lm.description.gguf_keys import config_from_gguf
from intact.lm.description.language_part import read_folder_config
from intact.lm.description.model_description import ModelDescription
from intact.lm.description.model_files import ModelFiles
from intact.lm.description.pooling import folder_pooling, gguf_pooling
from intact.lm.description.special_tokens import folder_special_tokens, gguf_special_tokens

CONFIG = "config.json"
DIVISORS = "rope_freqs.weight"
"""Tensor of GGUF files with what the wavelengths of each pair are multiplied by."""
_GRAPH = "the graph computes it"
_KNOWN = "fields that are used, or known to change nothing"


def read_description(files: WeightFiles, path: Path, accepted: Collection[str] = ()) -> ModelDescription:
    """Return what the files of a decoder say of it.

    Args:
        files: Its weights, with what config.json or the metadata of a GGUF file say.
        path: The file or folder; of a module what errors call it.
        accepted: Fields that the user lets pass where they would be refused.
    Raises:
        UnsupportedError: A family, variant or field that is not known.
        FileFormatError: A field is missing, of another kind, or contradicts another one.
    """
    if isinstance(files, GgufWeights):
        return _of_gguf(files, accepted)
    return _of_folder(files, path if path.is_dir() else path.parent, accepted)


def describe_exported(
    folder: Path, family: str, config: Mapping[str, Any], accepted: Collection[str] = ()
) -> ModelDescription:
    """Return what the files beside an ONNX file say of it; its graph says what is computed.

    Args:
        folder: Where the files lie.
        family: What its configuration calls it.
        config: What config.json says, or the part "model" of genai_config.json.
        accepted: As for `read_description`.
    """
    if "decoder" in config:
        _check_genai(folder, accepted)
    sources = ModelFiles(folder, accepted, {CONFIG: config})
    sources.fields(CONFIG).harmless(dict.fromkeys(
        (key for key in config if key not in ("bos_token_id", "eos_token_id")), _GRAPH
    ))  # fmt: skip
    description = ModelDescription(
        family, None, folder_special_tokens(sources), folder_chat_templates(sources, family),
        folder_pooling(sources),
    )  # fmt: skip
    return _finish(description, sources)


def _check_genai(folder: Path, accepted: Collection[str]) -> None:
    """Account for the fields of a genai_config.json.

    Raises:
        UnsupportedError: One asks for something that is not computed, or is not known.
    Source: onnxruntime-genai, `config.h`.
    """
    sources = ModelFiles(folder, accepted)
    whole = sources.fields("genai_config.json")
    whole.harmless({"search": "requests choose how tokens are drawn"})
    model = whole.inner_fields("model")
    decoder = model.inner_fields("decoder") if model is not None else None
    if model is None or decoder is None:
        return
    for key in ("type", "context_length", "bos_token_id", "eos_token_id"):
        model.take(key)
    model.harmless({"vocab_size": _GRAPH, "pad_token_id": "nothing is padded"})
    for key in ("inputs", "outputs", "filename", "head_size"):
        decoder.take(key)
    decoder.harmless({
        **dict.fromkeys(
            ("hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers"), _GRAPH
        ),
        "session_options": "INTact runs the graph itself",
    })  # fmt: skip
    sources.refuse_rest(_KNOWN)


def _of_folder(files: WeightFiles, folder: Path, accepted: Collection[str]) -> ModelDescription:
    sources = ModelFiles(folder, accepted, {CONFIG: files.config})
    config = sources.fields(CONFIG)
    own = "its fields follow" if files.field_uses else "the weights are taken as they are"
    config.harmless({"quantization_config": own})
    language, decoder = read_folder_config(config)
    description = ModelDescription(
        decoder.family, decoder, folder_special_tokens(sources, language),
        folder_chat_templates(sources, str(language.peek("model_type"))), folder_pooling(sources),
    )  # fmt: skip
    return _finish(description, sources, files.field_uses)


def _of_gguf(files: GgufWeights, accepted: Collection[str]) -> ModelDescription:
    metadata: Mapping[str, Any] = {name: field.value for name, field in files.file.metadata.items()}
    name = Path(files.file.where.removeprefix("file ").strip("'")).name
    sources = ModelFiles(None, accepted, {name: metadata})
    fields = sources.fields(name)
    divisors: tuple[float, ...] = ()
    if DIVISORS in files.names:
        divisors = tuple(map(float, np.asarray(floats_of(files.read(DIVISORS))).reshape(-1)))
    decoder = config_from_gguf(fields, frozenset(files.names), divisors)
    description = ModelDescription(
        decoder.family, decoder, gguf_special_tokens(fields), gguf_chat_templates(fields),
        gguf_pooling(fields, decoder.family),
    )  # fmt: skip
    return _finish(description, sources)


def _finish(
    description: ModelDescription, sources: ModelFiles, more: tuple[FieldUse, ...] = ()
) -> ModelDescription:
    sources.refuse_rest(_KNOWN)
    fields = (*sources.uses(), *more)
    return ModelDescription(**{**vars(description), "fields": fields})
