"""Where chat templates stand, and the texts of special tokens that they read."""

from __future__ import annotations

from intact.formats.metadata_fields import MetadataFields
from intact.lm.description.model_description import ChatTemplates
from intact.lm.description.model_files import ModelFiles


def folder_chat_templates(sources: ModelFiles) -> ChatTemplates:
    """Return the templates of a Hugging Face folder."""
    text = sources.text("chat_template.jinja")
    if text is None:
        fields = MetadataFields(sources._read_object("tokenizer_config.json"), "tokenizer_config.json")
        value = fields.take("chat_template")
        text = value if isinstance(value, str) else None
    return ChatTemplates({} if text is None else {"default": text})


def gguf_chat_templates(fields: MetadataFields) -> ChatTemplates:
    """Return the templates of a GGUF file."""
    text = fields.peek("tokenizer.chat_template")
    return ChatTemplates({"default": text} if isinstance(text, str) else {})
