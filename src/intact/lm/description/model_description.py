"""Everything that decides what a language model computes, beside its weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from intact.formats.metadata_fields import FieldUse
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.description.decoder_config import DecoderConfig


@dataclass(frozen=True)
class SpecialTokens:
    """Tokens around a text.

    Attributes:
        begin: In front of each text; None: none is.
        ends: Each of them ends an answer.
        appended: Behind each text, as the tokenizer's own post-processing puts them.
    """

    begin: int | None = None
    ends: tuple[int, ...] = ()
    appended: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pooling:
    """Says how the hidden states of a text become its vector.

    Attributes:
        kind: "mean" of all tokens, "last" or "cls", the first.
        is_normalized: Whether vectors have the length 1.
        source: The file and field that say so; "" where no file does.
    """

    kind: str = "mean"
    is_normalized: bool = True
    source: str = ""


@dataclass(frozen=True)
class ModelDescription:
    """Describes a language model.

    Attributes:
        family: What its files call it.
        decoder: Sizes and variants; None: the graph of an ONNX file has them.
        special_tokens, chat_templates, pooling: As their classes say.
        fields: What became of each field of each file.
    """

    family: str
    decoder: DecoderConfig | None = None
    special_tokens: SpecialTokens = field(default_factory=SpecialTokens)
    chat_templates: ChatTemplates = field(default_factory=ChatTemplates)
    pooling: Pooling = field(default_factory=Pooling)
    fields: tuple[FieldUse, ...] = ()
