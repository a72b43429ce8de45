"""Keys of GGUF files that say something of a tokenizer, types of tokens, and texts that llama.cpp knows.

Source: llama.cpp, src/llama-vocab.cpp.
"""

from __future__ import annotations

PREFIX = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Values of ``token_type``; 0 is undefined."""

END_TEXTS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[",
)  # fmt: skip
"""Tokens that end an answer by their text."""
SHOWN_TEXTS = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
"""Tokens that are text of an answer, whatever their type is."""
NO_END_BESIDE = (
    ("<|end|>", ("<|return|>", "<|call|>"), USER_DEFINED),
    ("<|end|>", ("<|return|>", "<|calls|>"), USER_DEFINED),
    ("<|end|>", ("<|call|>", "<|flush|>"), USER_DEFINED),
    ("<|end|>", ("<|calls|>", "<|flush|>"), USER_DEFINED),
    ("</s>", ("<|tool_response>",), NORMAL),
)
"""A token that ends no answer where others do, those others, and its type then."""

_FILL = ("<|fim_{0}|>", "<fim-{0}>", "<fim_{0}>")
FILL_TEXTS = {
    "fim_pre": (
        *(text.format("prefix") for text in _FILL), "<\uff5cfim\u2581begin\uff5c>", "<PRE>", "\u2581<PRE>",
        "<|code_prefix|>", "<|prefix|>",
    ),
    "fim_suf": (
        *(text.format("suffix") for text in _FILL), "<\uff5cfim\u2581hole\uff5c>", "<SUF>", "\u2581<SUF>",
        "<|code_suffix|>", "<|suffix|>",
    ),
    "fim_mid": (
        *(text.format("middle") for text in _FILL), "<\uff5cfim\u2581end\uff5c>", "<MID>", "\u2581<MID>",
        "<|code_middle|>", "<|middle|>",
    ),
    "fim_pad": (*(text.format("pad") for text in _FILL), "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}  # fmt: skip
"""Tokens for filling in the middle, where no key ``*_token_id`` names them."""
FILL_ENDS = ("fim_pad", "fim_rep", "fim_sep")
"""Those of them that end an answer."""
OLD_FILL_KEYS = {"fim_pre": "prefix", "fim_suf": "suffix", "fim_mid": "middle"}

DEFAULT_BEGIN = {"gpt2": 11, "llama": 1}
DEFAULT_END = {"gpt2": 11, "llama": 2}
"""Numbers where no key names the token. In byte-pair vocabularies they count only where the token is of type
`CONTROL`: in others that number is some word's."""

CONTENTS = ("merges", "scores", "add_space_prefix")
"""Keys behind `PREFIX` that the tokenizer alone reads."""
HARMLESS = {
    "token_type_count": "decoders have one type of tokens",
    "cls_token_id": "no tokenizer puts it into a text",
    "mask_token_id": "no tokenizer puts it into a text",
    "padding_token_id": "texts are not padded",
    "seperator_token_id": "a text alone has no separator",
    "unknown_token_id": "the token's type says it",
    "add_sep_token": "a text alone has no separator",
    "remove_extra_whitespaces": "only Unigram vocabularies read it",
    "normalizer.lowercase": "only WordPiece vocabularies read it",
    "normalizer.strip_accents": "only WordPiece vocabularies read it",
}
"""Keys behind `PREFIX` that change nothing, with the reason."""
