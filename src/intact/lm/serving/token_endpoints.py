"""Requests to /tokenize and /detokenize, in vLLM's form and in llama.cpp's, and the figures of /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from intact.lm.language_model import LanguageModel
from intact.lm.serving.generation_fields import is_token
from intact.lm.serving.protocol_error import Fields

_MOST = 2**17  # tokens of one request


def tokenize_body(record: Any, model: LanguageModel, name: str) -> dict[str, Any]:
    """Return the tokens of a text: `prompt` of vLLM, or `content` of llama.cpp.

    Both begin with the model's first token only where `add_special_tokens` says so, or `add_special`.

    Args:
        record: The body of the request, as JSON.
        model: Whose tokenizer is asked.
        name: Of the model, as requests call it.
    Raises:
        ProtocolError: A field is unknown, missing or wrong; names it.
    """
    fields, tokenizer = Fields(record), model.require_tokenizer()
    is_llama = "content" in record
    fields.check_model(name)
    text = fields.text("content" if is_llama else "prompt")
    begins = fields.flag("add_special", False) if is_llama else fields.flag("add_special_tokens", True)
    wants_pieces = fields.flag("with_pieces" if is_llama else "return_token_strs")
    fields.refuse(parse_special=(True,), add_generation_prompt=(), messages=())
    fields.finish()
    tokens = tokenizer.encode(text, bos=begins)
    pieces = [tokenizer.decode([token], special=True) for token in tokens] if wants_pieces else None
    if is_llama:
        if pieces is None:
            return {"tokens": tokens}
        return {
            "tokens": [{"id": token, "piece": piece} for token, piece in zip(tokens, pieces, strict=True)]
        }
    body = {"count": len(tokens), "max_model_len": model.positions, "tokens": tokens}
    return body | ({"token_strs": pieces} if wants_pieces else {})


def detokenize_body(record: Any, model: LanguageModel, name: str) -> dict[str, Any]:
    """Return the text of tokens, as `prompt` for clients of vLLM and as `content` for those of llama.cpp.

    Args:
        record: The body of the request, as JSON.
        model: Whose tokenizer is asked.
        name: Of the model, as requests call it.
    Raises:
        ProtocolError: `tokens` is no list of tokens of the vocabulary.
    """
    fields = Fields(record)
    fields.check_model(name)
    tokens = fields.take("tokens")
    if not isinstance(tokens, list) or len(tokens) > _MOST:
        raise fields.error("tokens", f"must be a list of at most {_MOST} tokens")
    if not all(is_token(token) and token < model.vocabulary for token in tokens):
        raise fields.error("tokens", f"must be from 0 to {model.vocabulary - 1}")
    fields.finish()
    text = model.require_tokenizer().decode(tokens, special=True)
    return {"prompt": text, "content": text}


_KINDS = {
    "intact_requests_total": ("counter", "Responses by endpoint and status."),
    "intact_prompt_tokens_total": ("counter", "Tokens of prompts of complete responses."),
    "intact_completion_tokens_total": ("counter", "Tokens that were generated, of dropped answers, too."),
    "intact_sequences_running": ("gauge", "Sequences that have a slot."),
    "intact_sequences_waiting": ("gauge", "Sequences that wait for one."),
}


class Metrics:
    """Counters of one server. One thread changes them."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, value: int = 1, **labels: str) -> None:
        """Add to a counter."""
        text = ",".join(f'{key}="{label}"' for key, label in labels.items())
        self._counts[name, f"{{{text}}}" if text else ""] += value

    def render(self, gauges: Mapping[str, int]) -> str:
        """Return all of them as text, with values of this moment."""
        lines = []
        for name, (kind, about) in _KINDS.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            if kind == "gauge":
                lines.append(f"{name} {gauges[name]}")
            lines += [
                f"{name}{labels} {value}"
                for (key, labels), value in sorted(self._counts.items())
                if key == name
            ]
        return "\n".join(lines) + "\n"
