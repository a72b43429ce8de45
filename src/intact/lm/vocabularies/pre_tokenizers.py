"""The pre-tokenizers that GGUF files name: how a text is cut before its pairs of bytes are merged.

A name stands for regular expressions that cut one after the other. What one matches is a piece, and so
is what lies in between. The expressions are those of the models, as llama.cpp runs them: where its classes of
characters are coarser than the model's, they are coarser here.

Source: llama.cpp, src/llama-vocab.cpp and src/unicode.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

_ENGLISH = r"'(?:[stmd]|re|ve|ll)"
_CONTRACTION = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = rf"{_ENGLISH}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|{_BLANKS}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SIGNS}|{_BLANKS}"
_JAIS2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|\s*[\r\n]+|" + "".join(
    rf"\s{{{count}}}(?!\S)|" for count in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")
) + r"\s"  # fmt: skip

# Letters of any case but a-z, then letters of any case but A-Z: beyond ASCII llama.cpp sees no case.
_UPPER, _LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
_UPPER_MARK, _LOWER_MARK = r"(?:(?=[\p{L}\p{M}])[^a-z])", r"(?:(?=[\p{L}\p{M}])[^A-Z])"
_SLASHED = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"


def _words_by_case(upper: str, lower: str, tail: str, numbers: str) -> str:
    """Return the expression of GPT-4o's kind: words split where a capital letter follows a small one."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    words = f"{lead}{upper}*{lower}+{tail}|{lead}{upper}+{lower}*{tail}"
    return f"{words}|{numbers}|{_SLASHED}|{_BLANKS}"


_GPT4O = _words_by_case(_UPPER, _LOWER, f"(?:{_CONTRACTION})?", r"\p{N}{1,3}")
_TEKKEN = _words_by_case(_UPPER, _LOWER, "", r"\p{N}")
_GRANITE = _words_by_case(_UPPER_MARK, _LOWER_MARK, f"(?:{_CONTRACTION})?", r"\p{N}{1,3}")
_ANY = r"[\p{L}\p{M}]"
_UNCASED = _words_by_case(_ANY, _ANY, f"(?:{_CONTRACTION})?", r"\p{N}{1,3}")
_YOUTU = _words_by_case(_ANY, _ANY, f"(?:{_CONTRACTION})?", r"\p{N}")

_DIGITS = r"\p{N}"
_IDEOGRAPHS = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+"

_DEEPSEEK3 = (
    rf"[!-/:-@\[-`{{-~][A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?{_ANY}+| ?[\p{{P}}\p{{S}}]+"
)  # fmt: skip
_EAST_ASIAN = r"[\x{4E00}-\x{9FA5}[\x{800}-\x{4E00}&&\S]\x{AC00}-\x{D7FF}]+"
_PUNCTUATION = r"[\p{P}$+<=>^~|]+"
_FALCON = r"[\p{P}$+<=>^~|`]+"
_BLOOM = r" ?[^\s(|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+"

_CASED_RANGES = (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376-377 37B-37D 37F 386 388-38A "
    "38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF "
    "1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D "
    "1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 "
    "1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F "
    "2145-2149 214E 2183-2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2-2CF3 A640-A66D A680-A69B A722-A76F "
    "A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 "
    "104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943 "
)
"""Letters with a case that DeepSeek's first tokenizers know."""
_CASED_LETTERS = "".join(
    "-".join(rf"\x{{{bound}}}" for bound in entry.split("-")) for entry in _CASED_RANGES.split()
)
_HAN_RANGES = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}"
    r"\x{2B820}-\x{2CEAF}\x{2CEB0}-\x{2EBEF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
_KIMI = (
    rf"[{_HAN_RANGES}]+|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}&&[^{_HAN_RANGES}]]+(?:{_CONTRACTION})?|"
    rf"\p{{N}}{{1,3}}|{_SIGNS}|{_BLANKS}"
)
# Digits in groups of three from behind. What stands in front of them stays with the first group.
_DIGITS_FROM_BEHIND = r"[^\p{N}]*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
_AFMOE_SCRIPTS = (
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}"
    r"\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}"
    r"\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"
)
_YOUTU_SCRIPTS = (
    r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}"
    r"\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|" + _IDEOGRAPHS
)
_LINES = r"[^\n]+|\n+"


@dataclass(frozen=True)
class PreTokenizer:
    """Says how a byte-pair tokenizer cuts a text, and what else follows from its name.

    Attributes:
        splits: Regular expressions, one after the other.
        ignores_merges: A piece that is a token stays whole, whatever its merges are.
        adds_begin: Texts begin with the begin token unless the file says otherwise.
        forces_begin: They do so whatever the file says.
        joins_newlines: A run of newlines that is a token stays whole.
        is_byte_level: Tokens are written in GPT-2's letters for bytes; else as text, with blanks escaped.
    """

    splits: tuple[str, ...]
    ignores_merges: bool = False
    adds_begin: bool = False
    forces_begin: bool = False
    joins_newlines: bool = False
    is_byte_level: bool = True


_KINDS: tuple[tuple[str, PreTokenizer], ...] = (
    ("default", PreTokenizer((_PUNCTUATION, _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
    (
        "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en "
        "jina-v2-code roberta-bpe mpt olmo jais trillion granite-docling exaone4",
        PreTokenizer((_GPT2,)),
    ),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
        PreTokenizer((_DIGITS, _GPT2)),
    ),
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        PreTokenizer((_LLAMA3,), ignores_merges=True, adds_begin=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe", PreTokenizer((_LLAMA3,))),
    ("glm4", PreTokenizer((_LLAMA3,), ignores_merges=True)),
    ("jais-2", PreTokenizer((_JAIS2,))),
    (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
        PreTokenizer((_QWEN2,)),
    ),
    (
        "qwen35",
        PreTokenizer(
            (
                rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{_ANY}+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|"
                rf"{_BLANKS}",
            )
        ),
    ),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", PreTokenizer((_GPT4O,))),
    ("tekken", PreTokenizer((_TEKKEN,), ignores_merges=True, adds_begin=True)),
    ("granite-embed-multi-97m", PreTokenizer((_GRANITE,), ignores_merges=True)),
    ("tiny_aya cohere2moe", PreTokenizer((_DIGITS_FROM_BEHIND, _UNCASED))),
    ("youtu", PreTokenizer((_YOUTU_SCRIPTS, _YOUTU), ignores_merges=True)),
    (
        "deepseek-llm",
        PreTokenizer(
            (
                r"[\r\n]", rf"\s?[{_CASED_LETTERS}]+",
                r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}-\x{3002}]+",
                r"\s+\z", _EAST_ASIAN, r"\p{N}+",
            )
        ),
    ),
    (
        "deepseek-coder",
        PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, _DIGITS)),
    ),
    (
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        PreTokenizer((r"\p{N}{1,3}", _IDEOGRAPHS, rf"{_DEEPSEEK3}[\r\n]*|{_BLANKS}")),
    ),
    (
        "spark2_5",
        PreTokenizer(
            (r"\p{N}{1,3}", _IDEOGRAPHS, rf"{_DEEPSEEK3}|[\r\n]|\s+(?!\S)|\s+", _DIGITS)
        ),
    ),
    ("falcon", PreTokenizer((_FALCON, _GPT2, "[0-9][0-9][0-9]"))),
    ("poro-chat bloom gpt3-finnish", PreTokenizer((_BLOOM,))),
    ("viking", PreTokenizer((_BLOOM, _DIGITS))),
    (
        "chameleon",
        PreTokenizer(
            (
                "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", _DIGITS,
                r"[\p{P}!-/:-@\[-`{-~]", _GPT2,
            ),
            adds_begin=True,
        ),
    ),
    ("kimi-k2", PreTokenizer((_KIMI,))),
    ("superbpe", PreTokenizer((r"\p{N}+", r"(?=(?:[0-9]{3})+(?![0-9]))"))),
    (
        "bailingmoe bailingmoe2 llada-moe",
        PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SIGNS}|\s*[\r\n]|\s+(?!\S)|\s+",)),
    ),
    (
        "seed-coder",
        PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_BLANKS}",)),
    ),
    ("ufakzeka", PreTokenizer((rf"{_WORD}|\p{{N}}|{_SIGNS}|{_BLANKS}",))),
    ("afmoe", PreTokenizer((_DIGITS_FROM_BEHIND, _AFMOE_SCRIPTS, rf"{_DEEPSEEK3}[\r\n]*|{_BLANKS}"))),
    ("laguna", PreTokenizer((_LINES, _QWEN2))),
    (
        "exaone-moe",
        PreTokenizer(
            (
                rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}|"
                r" ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
            )
        ),
    ),
    (
        "minicpm5",
        PreTokenizer(
            (r"\p{N}{1,3}", rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_SIGNS}|{_BLANKS}"), ignores_merges=True
        ),
    ),
    (
        "gemma4 granite-embed-multi-311m",
        PreTokenizer((_LINES,), forces_begin=True, joins_newlines=True, is_byte_level=False),
    ),
    ("sarvam-moe", PreTokenizer((_LINES,), is_byte_level=False)),
)  # fmt: skip
PRE_TOKENIZERS = {name: kind for names, kind in _KINDS for name in names.split()}
"""By the name that `tokenizer.ggml.pre` gives; a file without one means "default"."""
