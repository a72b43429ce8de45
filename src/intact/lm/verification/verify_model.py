"""Compares what INTact understood of a language model with what its maker's program does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intact.errors import IntactError, QuantValueError
from intact.lm.language_model import LanguageModel, log_probabilities
from intact.lm.load_model import load_model
from intact.lm.saved_folder import SETTINGS
from intact.lm.verification.peer import NotCompared, Peer

_NEW, _PROMPT = 24, 48
_FLOAT_NATS, _FLOAT_COSINE = 1e-3, 1e-5
"""Differences of log-probabilities and cosines between programs that compute in float32."""
_ROUNDED_NATS, _ROUNDED_COSINE, _DIVERGENCE = 0.2, 0.01, 0.02
"""The same where the peer rounds activations to 8 bits; SmolLM2's Q4_1 file shows 0.07 nats and 1e-4."""
EQUAL, CLOSE, DIFFERENT, NOT_COMPARED = "equal", "close", "different", "not compared"
"""Results. What is close differs by no more than the peer's own rounding of activations explains."""


@dataclass(frozen=True)
class Check:
    """One comparison.

    Attributes:
        name: What was compared.
        result: "equal", "close", "different" or "not compared".
        detail: Counts, the first difference, or why nothing was compared.
    """

    name: str
    result: str
    detail: str


@dataclass(frozen=True)
class Verification:
    """Comparisons of one model with one peer.

    Attributes:
        peer: The program, with its version.
        checks: In order.
    """

    peer: str
    checks: tuple[Check, ...]

    @property
    def is_equal(self) -> bool:
        """True where something was compared, and nothing differed."""
        results = {check.result for check in self.checks}
        return bool(results & {EQUAL, CLOSE}) and DIFFERENT not in results


def verify_model(
    path: Path, *, accept: Collection[str] = (), positions: int = 512, threads: int | None = None
) -> Verification:
    """Compare tokens, prompts, probabilities, answers and vectors of a model with its maker's program.

    Args:
        path: A Hugging Face folder, which transformers runs in float32, or a GGUF file, which llama.cpp runs.
        accept: As for `load_model`.
        positions: The longest sequence.
        threads: Of a run.
    Raises:
        QuantValueError: The path has no such program: a saved folder holds other weights than its source.
        MissingExtraError: The program is not installed.
        IntactError: The model does not open.
    """
    if (path / SETTINGS).is_file():
        raise QuantValueError(
            "model", "a folder that INTact wrote",
            "what it was made of: a Hugging Face folder or a GGUF file",
            "verify that, with --saved for the folder that keeps the result",
        )  # fmt: skip
    # They bring what opens sockets, which nothing else in this package wants.
    from intact.lm.verification.llama_server_peer import LlamaServerPeer
    from intact.lm.verification.transformers_peer import TransformersPeer

    is_gguf = path.is_file()
    weights = "keep" if is_gguf else "float32"
    model = load_model(
        path, weights=weights, activations="float", positions=None, accept=accept, threads=threads
    )
    longest = min(positions, model.positions)
    peer: Peer = LlamaServerPeer(path, model.vocabulary, longest) if is_gguf else TransformersPeer(path)
    try:
        return Verification(peer.name, tuple(_checks(model, peer)))
    finally:
        peer.close()


def _checks(model: LanguageModel, peer: Peer) -> list[Check]:
    comparisons: list[tuple[str, Callable[[], tuple[str, str]]]] = []
    if model.tokenizer is not None:
        comparisons.append((f"tokens of {len(TEXTS)} texts", lambda: _compare_tokens(model, peer)))
        if model.chat_templates.templates:
            comparisons.append(("prompts of conversations", lambda: _compare_prompts(model, peer)))
            comparisons.append(("answer to a conversation", lambda: _compare_answer(model, peer)))
    comparisons.append(("log-probabilities", lambda: _compare_probabilities(model, peer)))
    comparisons.append((f"{_NEW} greedy tokens", lambda: _compare_greedy(model, peer, _some_tokens(model))))
    if model.pooling.source and model.tokenizer is not None:
        comparisons.append(("vector of a text", lambda: _compare_vectors(model, peer)))
    return [_run_check(name, compare) for name, compare in comparisons]


def _run_check(name: str, compare: Callable[[], tuple[str, str]]) -> Check:
    try:
        result, detail = compare()
    except NotCompared as reason:
        return Check(name, NOT_COMPARED, str(reason))
    except IntactError as error:  # what the peer does and INTact refuses
        return Check(name, DIFFERENT, str(error)[:200])
    return Check(name, result, detail)


def _compare_tokens(model: LanguageModel, peer: Peer) -> tuple[str, str]:
    for text in TEXTS:
        ours, theirs = model.require_tokenizer().encode(text), peer.tokens(text)
        if ours != theirs:
            return DIFFERENT, f"{text[:40]!r}: {ours[:12]}, {peer.name} {theirs[:12]}"
    return EQUAL, f"{len(TEXTS)} of {len(TEXTS)}"


def _compare_prompts(model: LanguageModel, peer: Peer) -> tuple[str, str]:
    compared = 0
    for messages in CONVERSATIONS:
        try:
            theirs = peer.prompt(messages)
        except NotCompared:
            try:
                model.chat_prompt(messages)
            except QuantValueError:
                continue  # neither of both takes the conversation
            raise
        ours = str(model.chat_prompt(messages))
        compared += 1
        if ours != theirs:
            place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
            return DIFFERENT, f"{ours[place : place + 40]!r}, {peer.name} {theirs[place : place + 40]!r}"
    if not compared:
        raise NotCompared("neither of both renders one of the conversations")
    refused = "" if compared == len(CONVERSATIONS) else "; both refuse the others"
    return EQUAL, f"{compared} of {len(CONVERSATIONS)}{refused}"


def _compare_answer(model: LanguageModel, peer: Peer) -> tuple[str, str]:
    try:
        tokens = model.encode(model.chat_prompt(CONVERSATIONS[0]))
    except QuantValueError as error:
        raise NotCompared(str(error)[:120]) from error
    return _compare_greedy(model, peer, tokens)


def _compare_greedy(model: LanguageModel, peer: Peer, tokens: Sequence[int]) -> tuple[str, str]:
    """Compare the most likely tokens, and where the answer ends."""
    theirs = _without_end(peer.greedy(tokens, _NEW), model)
    ours = _without_end(list(model.generate_tokens(tokens, max_tokens=_NEW)), model)
    if ours == theirs:
        return EQUAL, f"{len(ours)} tokens" + ("" if len(ours) == _NEW else ", then the end")
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if place is None:
        return DIFFERENT, f"ends behind {len(ours)} tokens, {peer.name} behind {len(theirs)}"
    gap = _gap(model, [*tokens, *ours[:place]], ours[place], theirs[place])
    is_tie = gap < (_ROUNDED_NATS if peer.rounds_activations else _FLOAT_NATS)
    detail = f"token {place + 1} is {ours[place]}, {peer.name} {theirs[place]}; {gap:.2g} nats apart"
    return CLOSE if is_tie else DIFFERENT, detail


def _without_end(tokens: list[int], model: LanguageModel) -> list[int]:
    ends = model.tokenizer.eos if model.tokenizer is not None else ()
    return tokens[:-1] if tokens and tokens[-1] in ends else tokens


def _gap(model: LanguageModel, tokens: Sequence[int], first: int, second: int) -> float:
    values = log_probabilities(model.logits(list(tokens))[-1])
    return float(abs(values[first] - values[second]))


def _compare_probabilities(model: LanguageModel, peer: Peer) -> tuple[str, str]:
    tokens = _some_tokens(model)
    ours, theirs = log_probabilities(model.logits(tokens)[-1]), peer.log_probabilities(tokens)
    if theirs.shape != ours.shape:
        return DIFFERENT, f"{len(ours)} tokens in the vocabulary, {peer.name} {len(theirs)}"
    is_finite = np.isfinite(theirs)
    difference = float(np.abs(ours - theirs)[is_finite].max())
    detail = f"largest difference {difference:.2g} nats"
    if not peer.rounds_activations or difference < _FLOAT_NATS:
        return EQUAL if difference < _FLOAT_NATS else DIFFERENT, detail
    divergence = max(0.0, float((np.exp(ours) * (ours - theirs))[is_finite].sum()))
    detail += f", divergence {divergence:.2g}; its products round activations to 8 bits"
    return CLOSE if divergence < _DIVERGENCE else DIFFERENT, detail


def _compare_vectors(model: LanguageModel, peer: Peer) -> tuple[str, str]:
    ours, theirs = model.embed([TEXTS[0]])[0].astype(np.float64), peer.vector(TEXTS[0])
    if ours.shape != theirs.shape:
        return DIFFERENT, f"{len(ours)} numbers, {peer.name} {len(theirs)}"
    cosine = float(ours @ theirs / max(np.linalg.norm(ours) * np.linalg.norm(theirs), 1e-300))
    least = 1 - (_ROUNDED_COSINE if peer.rounds_activations else _FLOAT_COSINE)
    return (
        EQUAL if cosine > 1 - _FLOAT_COSINE else CLOSE
    ) if cosine > least else DIFFERENT, f"cosine {cosine:.6f}"


def _some_tokens(model: LanguageModel) -> list[int]:
    """Return tokens of a text, or any ones where the model has no tokenizer."""
    count = min(_PROMPT, max(1, model.positions - _NEW - 1))
    if model.tokenizer is not None:
        ids = model.tokenizer.encode(TEXTS[0] * 8)
        ids = ids[:-1] if ids and ids[-1] in model.tokenizer.eos else ids
        if ids:
            return ids[:count]
    rng = np.random.default_rng(0)
    return [int(token) for token in rng.integers(0, model.vocabulary, count)]


def verification_record(verification: Verification) -> dict[str, Any]:
    """Return a record for a JSON file."""
    return {"peer": verification.peer, "checks": [vars(check) for check in verification.checks]}


TEXTS = (
    "The capital of France is Paris.", "", " ", "  two  blanks ", "\n\n\ttabs\r\nand lines\n",
    "don't we'LL I'm", "1234567890 3.14159 1,000,000", "def f(x):\n    return x ** 2  # code",
    "Gr\u00fc\u00dfe, na\u00efve caf\u00e9, \u0130stanbul",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \u4e2d\u6587\u6587\u672c \ud55c\uad6d\uc5b4",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f642\U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301 \ufb01 \u200b\u00a0\ufeff", "a" * 300,
    "<s></s><|im_start|>user<|endoftext|>[INST]<think>", "!!!???...---___", "\x00\x01\x7f",
    "camelCase snake_case 2x4", "MiXeD cAsE", "http://example.com/a?b=c&d=%20",
    "\u2211\u222b\u221a\u2260 \u03b1\u03b2\u03b3 \u211d", "\u2028\u2029\x0b\x0c", "'s 't 're'Ve",
    "   \n   \n ", "end ",
)  # fmt: skip
"""That tokenizers are apt to cut differently."""

CONVERSATIONS = (
    ({"role": "user", "content": "Hello"},),
    ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}),
    ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"},
     {"role": "user", "content": "Bye"}),
)  # fmt: skip
"""In the form of OpenAI's protocol."""
