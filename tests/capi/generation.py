"""A small language model as a plan, and the tokens that the engine generates behind a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.lm.small_decoders import TOKENS, write_folder

from intact import lm


@dataclass(frozen=True)
class Generation:
    """Words of examples/c/generate.c behind its name, and the line that it prints."""

    words: tuple[str, ...]
    line: str


def generation(folder: Path, family: str, count: int = 24, cache: str = "float32") -> Generation:
    """Write a model of int4 weights, and generate `count` tokens."""
    source = write_folder(family, folder / family)
    model = lm.load(source, weights="int4", block=16, threads=1, cache=cache)
    lm.save(model, folder / "saved")
    tokens = list(model.generate_tokens(TOKENS, max_tokens=count))
    words = (str(folder / "saved" / "model.plan"), str(count), *map(str, TOKENS))
    return Generation(words, " ".join(map(str, tokens)))
