"""JSON schemas as grammars: accepted or refused by name, and whether what a grammar lets through is valid.

    python benchmarks/json_schemas.py FOLDER [FOLDER ...] [--walks 4] [--share 1]

FOLDER holds JSON files: schemas as JSONSchemaBench has them, or groups of schemas and instances as the
JSON-Schema-Test-Suite has them. Each schema goes the way of `response_format`. Random walks through the masks
of an accepted one write texts, which the package jsonschema validates, formats included. Reported: schemas
that are accepted, refused, and accepted but violated; those that no walk came to the end of; seconds of the
slowest schema and of the slowest token; instances of the suite that are valid but that the grammar keeps out.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import jsonschema
import numpy as np
import tokenizers

from intact.errors import IntactError
from intact.lm.token_grammar import TokenGrammar
from intact.lm.tokenizer import Tokenizer

_DRAFTS = {"draft7": "http://json-schema.org/draft-07/schema#"}
_END = 256
_CLOSING = [_END, *map(ord, '"}]')]
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]


@dataclass
class Counts:
    """Outcomes of the schemas of one folder."""

    schemas: int = 0
    accepted: int = 0
    violated: int = 0
    unfinished: int = 0
    texts: int = 0
    unchecked: int = 0
    slowest: float = 0.0
    slowest_token: float = 0.0
    valid: int = 0
    kept_out: int = 0
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Case:
    """A schema, where it comes from, and instances that are known to be valid or not."""

    name: str
    schema: dict[str, Any]
    instances: tuple[tuple[Any, bool], ...] = ()


def main() -> None:
    """Print the counts of each folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--walks", type=int, default=4, help="texts of each schema")
    parser.add_argument("--share", type=int, default=1, help="every so many-th schema alone")
    parser.add_argument("--show", action="store_true", help="print violations as they come")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.set_int_max_str_digits(0)
    tokenizer, total = byte_tokenizer(), Counts()
    print(f"{'folder':<18}{'schemas':>8}{'accepted':>9}{'refused':>8}{'violated':>9}{'unfinished':>11}"
          f"{'texts':>8}{'compile s':>10}{'token s':>9}{'kept out':>14}")  # fmt: skip
    for folder in options.folders:
        counts = Counts()
        for number, case in enumerate(read_cases(folder)):
            if number % options.share == 0:
                try_case(case, tokenizer, options.walks, counts, options.show)
        print_row(folder.name, counts)
        total = add(total, counts)
    print_row("all", total)
    print("refused by:", ", ".join(f"{name} {count}" for name, count in total.refused.most_common(40)))


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer whose tokens are the 256 bytes and an end."""
    unprintable = iter(range(256, 512))
    letters = [chr(byte) if byte in _PRINTABLE else chr(next(unprintable)) for byte in range(256)]
    words = {letter: byte for byte, letter in enumerate(letters)} | {"<end>": _END}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    return Tokenizer(tokenizer.to_str(), None, [_END])


def read_cases(folder: Path) -> Iterator[Case]:
    """Yield the schemas of a folder; those that are true or false alone are none of a request."""
    for path in sorted(folder.rglob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            continue
        name, draft = str(path.relative_to(folder)), _DRAFTS.get(folder.name)
        if isinstance(record, list):
            for group in record:
                schema = group["schema"]
                if isinstance(schema, dict):
                    schema = schema if draft is None or "$schema" in schema else {"$schema": draft} | schema
                    instances = tuple((test["data"], test["valid"]) for test in group["tests"])
                    yield Case(f"{name}: {group['description']}", schema, instances)
        elif isinstance(record, dict):
            yield Case(name, record)


def try_case(case: Case, tokenizer: Tokenizer, walks: int, counts: Counts, is_shown: bool) -> None:
    """Compile a schema, walk through its masks, and validate what was written."""
    counts.schemas += 1
    start = process_time()
    try:
        grammar = TokenGrammar(tokenizer, _END + 1, json_schema=case.schema)
        grammar.copy().token_mask()
    except IntactError as error:
        counts.slowest = max(counts.slowest, process_time() - start)
        counts.refused[reason(error)] += 1
        return
    counts.slowest = max(counts.slowest, process_time() - start)
    counts.accepted += 1
    validator, rng, texts = make_validator(case.schema), random.Random(case.name), []
    for _ in range(walks):
        text, seconds = walk(grammar.copy(), rng)
        counts.slowest_token = max(counts.slowest_token, seconds)
        texts += [text] if text is not None else []
    counts.unfinished += not texts
    counts.texts += len(texts)
    counts.unchecked += validator is None
    fault = next((fault for text in texts if (fault := violation(validator, text))), None)
    counts.violated += fault is not None
    if fault and is_shown:
        print("VIOLATED", case.name, fault, json.dumps(case.schema)[:400], flush=True)
    for value, is_valid in case.instances:
        if is_valid:
            counts.valid += 1
            counts.kept_out += not accepts(grammar.copy(), json.dumps(value, ensure_ascii=False))


def reason(error: IntactError) -> str:
    """Return the keyword by which a schema was refused."""
    if error.where.startswith("JSON schema, "):
        return error.got.split("'")[1]
    return "grammar: " + re.sub(r"[^a-zA-Z ].*", "", error.got.strip("'"))[:40].strip()


def walk(grammar: TokenGrammar, rng: random.Random) -> tuple[str | None, float]:
    """Write one text at random; return None where it did not end, and the slowest token's seconds."""
    data, slowest = bytearray(), 0.0
    haste = rng.choice([0.05, 0.2, 0.5])
    for count in range(1200):
        start = process_time()
        try:
            mask = grammar.token_mask()
        except IntactError:
            return None, max(slowest, process_time() - start)
        token = choose(mask, rng, 1.0 if count > 400 else haste)
        grammar.push(token)
        slowest = max(slowest, process_time() - start)
        if token == _END:
            break
        data.append(token)
        if grammar.is_complete:
            break
    else:
        return None, slowest
    return data.decode(), slowest


def choose(mask: np.ndarray, rng: random.Random, haste: float) -> int:
    """Choose a token: one that ends something, a likely letter, or any."""
    if rng.random() < haste:
        for token in _CLOSING:
            if mask[token]:
                return token
    allowed = np.flatnonzero(mask)
    visible = allowed[(allowed > 32) & (allowed < 127)]
    if len(visible) and rng.random() < 0.9:
        allowed = visible
    return int(allowed[rng.randrange(len(allowed))])


def accepts(grammar: TokenGrammar, text: str) -> bool:
    """Return whether the grammar lets a text through."""
    try:
        for byte in text.encode():
            if not grammar.token_mask()[byte]:
                return False
            grammar.push(byte)
        return grammar.is_complete or bool(grammar.token_mask()[_END])
    except IntactError:
        return False


def make_validator(schema: dict[str, Any]) -> Any:
    """Return jsonschema's validator; None where the schema is none for it."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except Exception:
        return None
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def violation(validator: Any, text: str) -> str | None:
    """Return what is wrong with a text, None where nothing is or nothing can be said."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}: {text[:200]}"
    if validator is None:
        return None
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except (re.error, RecursionError):  # expressions that Python does not read
        return None
    return None if error is None else f"{error.message[:300]} in {text[:300]}"


def add(total: Counts, counts: Counts) -> Counts:
    """Return the counts of two folders together."""
    joined = Counts(refused=total.refused + counts.refused)
    for name in vars(counts).keys() - {"refused"}:
        values = getattr(total, name), getattr(counts, name)
        setattr(joined, name, max(values) if name.startswith("slowest") else sum(values))
    return joined


def print_row(name: str, counts: Counts) -> None:
    """Print the counts of one folder."""
    kept_out = f"{counts.kept_out} of {counts.valid}" if counts.valid else "-"
    print(f"{name:<18}{counts.schemas:>8}{counts.accepted:>9}{counts.refused.total():>8}{counts.violated:>9}"
          f"{counts.unfinished:>11}{counts.texts:>8}{counts.slowest:>10.2f}{counts.slowest_token:>9.3f}"
          f"{kept_out:>14}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
