"""Reads what the files beside a BERT-like ONNX file say of it: tokens, pooling, prompts, scores."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intact.formats import FieldUse, MetadataFields
from intact.lm.description.model_description import Pooling
from intact.lm.description.model_files import ModelFiles
from intact.lm.description.pooling import folder_pooling

_ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "identity"}
_OFFSET_FAMILIES = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Families whose first position is the number behind that of their padding token."""
_GRAPH = "the graph computes it"


@dataclass(frozen=True)
class EncoderDescription:
    """Describes a text encoder.

    Attributes:
        family: What its configuration calls it.
        pooling: Of hidden states; its `longest` is the most tokens of a text, 0 where no file says it.
        has_pooling: Whether a file says how to pool.
        activation: Of a reranker's score, "sigmoid" or "identity".
        fields: What became of each field of each file.
    """

    family: str
    pooling: Pooling
    has_pooling: bool
    activation: str
    fields: tuple[FieldUse, ...] = field(default=(), repr=False)


def describe_encoder(folder: Path, accepted: Collection[str] = ()) -> EncoderDescription:
    """Return what the files of a folder say of the text encoder in it.

    Args:
        folder: With config.json, and the files of sentence-transformers where it wrote them.
        accepted: Fields that the user lets pass where they would be refused.
    Raises:
        UnsupportedError: A module, mode or field that is not computed.
        FileFormatError: A file is damaged, or two contradict each other.
    Source: sentence-transformers, `SentenceTransformer` and `CrossEncoder`.
    """
    sources = ModelFiles(folder, accepted)
    config = sources.fields("config.json")
    family, activation = config.text("model_type", "encoder"), _activation(config)
    positions = _positions(config, family)
    config.harmless(dict.fromkeys(config, _GRAPH))
    pooling = folder_pooling(sources)
    longest = min(filter(None, (pooling.longest, positions)), default=0)
    sources.refuse_rest("fields that are used, or known to change nothing")
    settings: dict[str, Any] = {**vars(pooling), "longest": longest}
    return EncoderDescription(
        family, Pooling(**settings), bool(pooling.source), activation, tuple(sources.uses())
    )


def _activation(config: MetadataFields) -> str:
    """Return the function of a reranker's score; sigmoid where no field names one."""
    name = config.text("sbert_ce_default_activation_function", "")
    inner = config.inner_fields("sentence_transformers")
    if inner is not None:
        name = inner.text("activation_fn", name)
        inner.harmless({"version": "it names its origin", "activation_fn": "it is read"})
    kind = name.rpartition(".")[2]
    if kind and kind not in _ACTIVATIONS:
        config.refuse("sentence_transformers", " or ".join(_ACTIVATIONS))
    return _ACTIVATIONS.get(kind, "sigmoid")


def _positions(config: MetadataFields, family: str) -> int:
    """Return how many tokens the table of positions has; 0 where no field says it."""
    count = config.integer("max_position_embeddings", 0, least=-1)
    if family in _OFFSET_FAMILIES:
        count -= config.integer("pad_token_id", 1) + 1
    return max(count, 0)
