"""Everything that decides what a language model computes, beside its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from intact.formats import FieldUse
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.description.decoder_config import DecoderConfig
from intact.lm.vocabularies.special_tokens import SpecialTokens

POOLINGS = ("mean", "last", "cls", "max", "weighted_mean", "mean_sqrt_length")
"""Of hidden states: their mean, the last or the first, the largest of each channel, the mean with weights
1, 2, ... and the sum over the root of their number."""


@dataclass(frozen=True)
class Pooling:
    """Says how the hidden states of a text become its vector.

    Attributes:
        kind: One of `POOLINGS`.
        is_normalized: Whether vectors have the length 1.
        source: The file that says so; "" where no file does.
        longest: Tokens of a text at most; 0: as many as the model takes.
        prompts: Texts that stand in front of what is embedded, by name.
        default_prompt: Name of the one that is taken where no other is asked for; "" for none.
    """

    kind: str = "mean"
    is_normalized: bool = True
    source: str = ""
    longest: int = 0
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""


@dataclass(frozen=True)
class ModelDescription:
    """Describes a language model.

    Attributes:
        family: What its files call it.
        decoder: Sizes and variants; None: the graph of an ONNX file has them.
        special_tokens, chat_templates, pooling: As their classes say.
        fields: What became of each field of each file.
        verification: Of a saved folder, what `intact lm verify` found: the peer, and (name, result, detail)
            of each comparison; () where nothing was compared.
    """

    family: str
    decoder: DecoderConfig | None = None
    special_tokens: SpecialTokens = field(default_factory=SpecialTokens)
    chat_templates: ChatTemplates = field(default_factory=ChatTemplates)
    pooling: Pooling = field(default_factory=Pooling)
    fields: tuple[FieldUse, ...] = ()
    verification: tuple[str, tuple[tuple[str, str, str], ...]] | tuple[()] = ()
