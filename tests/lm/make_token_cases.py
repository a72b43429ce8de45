"""Writes token_cases.json: how llama.cpp tokenizes the hard strings, with each pre-tokenizer that it names.

Run it where the package xllamacpp is installed: ``python -m tests.lm.make_token_cases``. It calls
functions of llama.cpp in that package's library. The file holds digests, by which a test needs no llama.cpp.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lm.hard_strings import HARD_STRINGS, blank_pair_metadata, byte_level_metadata, piece_metadata

from intact.formats import GgufField, write_gguf
from intact.lm.vocabularies.pre_tokenizers import PRE_TOKENIZERS

CASES = Path(__file__).with_name("token_cases.json")
_SIZES = {
    "context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 32,
    "attention.head_count": 1, "rope.dimension_count": 32,
}  # fmt: skip
_VOCABULARY_ALONE = 72
"""Place of the flag `vocab_only` in llama.cpp's `llama_model_params`."""


class _Parameters(ctypes.Structure):
    _fields_ = (("data", ctypes.c_ubyte * 256),)


class LlamaVocabulary:
    """The vocabulary of a GGUF file in llama.cpp."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        import xllamacpp

        folder = Path(xllamacpp.__file__).parent
        self._library = ctypes.CDLL(str(next(folder.glob("xllamacpp*.so"))))
        self._library.llama_model_default_params.restype = _Parameters
        self._library.llama_model_load_from_file.restype = ctypes.c_void_p
        self._library.llama_model_load_from_file.argtypes = (ctypes.c_char_p, _Parameters)
        self._library.llama_model_get_vocab.restype = ctypes.c_void_p
        self._library.llama_model_get_vocab.argtypes = (ctypes.c_void_p,)
        self._library.llama_vocab_is_eog.argtypes = (ctypes.c_void_p, ctypes.c_int32)
        self._library.llama_vocab_is_eog.restype = ctypes.c_bool
        parameters = self._library.llama_model_default_params()
        parameters.data[_VOCABULARY_ALONE] = 1
        self._count = len(metadata["tokenizer.ggml.tokens"])
        with tempfile.TemporaryDirectory() as folder_name:
            path = Path(folder_name) / "vocabulary.gguf"
            write_gguf(path, _fields(metadata), {}, lambda name: b"")
            model = self._library.llama_model_load_from_file(str(path).encode(), parameters)
        if not model:
            raise ValueError(f"llama.cpp refuses {metadata.get('tokenizer.ggml.pre')}")
        self._vocabulary = ctypes.c_void_p(self._library.llama_model_get_vocab(model))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, with those around it, and special tokens whole."""
        data = text.encode()
        tokens = (ctypes.c_int32 * (2 * len(data) + 16))()
        adds, parses = ctypes.c_bool(True), ctypes.c_bool(True)
        count = self._library.llama_tokenize(
            self._vocabulary, data, len(data), tokens, len(tokens), adds, parses
        )
        return list(tokens[:count])

    def ends(self) -> list[int]:
        """Return the tokens that end an answer."""
        is_end = self._library.llama_vocab_is_eog
        return [token for token in range(self._count) if is_end(self._vocabulary, token)]


def _fields(metadata: dict[str, Any]) -> dict[str, GgufField]:
    fields = {"general.architecture": GgufField.of("string", "llama")}
    fields |= {f"llama.{name}": GgufField.of("uint32", size) for name, size in _SIZES.items()}
    fields["llama.attention.layer_norm_rms_epsilon"] = GgufField.of("float32", 1e-6)
    kinds = {str: "string", bool: "bool", int: "uint32", float: "float32"}
    for key, value in metadata.items():
        is_list = isinstance(value, list)
        kind = kinds[type(value[0] if is_list else value)]
        fields[key] = GgufField.of("int32" if is_list and kind == "uint32" else kind, value)
    return fields


def digest(tokens: Sequence[int]) -> str:
    """Return 8 hexadecimal digits that differ for different tokens."""
    return f"{zlib.crc32(json.dumps(list(tokens)).encode()):08x}"


def metadata_of(name: str) -> dict[str, Any]:
    """Return the metadata of a case: a pre-tokenizer, or "pieces" with a seed and how many scores tie."""
    if name.startswith("pieces"):
        seed, ties = map(int, name.removeprefix("pieces").split("x"))
        return piece_metadata(seed, ties=ties)
    is_byte_level = PRE_TOKENIZERS[name].is_byte_level
    return byte_level_metadata(name) if is_byte_level else blank_pair_metadata(name)


def cases() -> list[str]:
    """Return the names of all cases."""
    return [*PRE_TOKENIZERS, "pieces0x1", "pieces3x1", "pieces1x1", "pieces0x10", "pieces2x1000000"]


def main() -> None:
    """Write the file."""
    rows: dict[str, list[str]] = {}
    for name in cases():
        vocabulary = LlamaVocabulary(metadata_of(name))
        line = " ".join(digest(vocabulary.encode(text)) for text in HARD_STRINGS)
        rows.setdefault(f"{digest(vocabulary.ends())} {line}", []).append(name)
    lines = [json.dumps({" ".join(names): row}) for row, names in rows.items()]
    CASES.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
