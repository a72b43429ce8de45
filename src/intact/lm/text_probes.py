"""Trials of strangers' tokenizers and grammars in the limited process, before this process reads them.

The packages `tokenizers` and `llguidance` end their process on some bytes, such as a token whose number asks
for more memory than there is. Their callers name these functions (`intact.processes.try_in_worker`).
"""

from __future__ import annotations

from collections.abc import Sequence

from intact.lm.token_grammar import TokenGrammar
from intact.lm.tokenizer import Tokenizer

_TEXTS = ("", "a", "Hello, world! 12345\n\n\t x", "\u00e9\u4e2d\U0001f600\u200d", "ab " * 300)
"""Texts that a tokenizer is tried on."""

_tokenizers: dict[str, Tokenizer] = {}
"""The tokenizer of the grammar that was tried last, by its digest."""


def try_tokenizer(text: str, eos: Sequence[int]) -> None:
    """Construct a tokenizer, and let it encode and decode."""
    tokenizer = Tokenizer(text, None, eos)
    for sample in _TEXTS:
        tokenizer.decode(tokenizer.encode(sample), special=True)
    tokenizer.to_json()


def try_grammar(key: str, text: str, eos: Sequence[int], vocabulary: int, grammar: str) -> bool:
    """Construct a grammar, and find the tokens that may begin its text.

    Args:
        key: Digest of the tokenizer.
        text: Contents of its tokenizer.json; "": the process may know it.
        eos, vocabulary: As for `TokenGrammar`.
        grammar: As llguidance reads it.
    Returns:
        False where it does not know the tokenizer, and has done nothing.
    """
    if key not in _tokenizers and not text:
        return False
    if key not in _tokenizers:
        _tokenizers.clear()
        _tokenizers[key] = Tokenizer(text, None, eos)
    TokenGrammar.of_text(_tokenizers[key], vocabulary, grammar).token_mask()
    return True
