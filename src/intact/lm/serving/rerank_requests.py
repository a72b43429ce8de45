"""Requests to /v1/rerank, in the form of Jina, Cohere and vLLM, and their responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from intact.lm.serving.protocol_error import Fields
from intact.lm.serving.requests import HARMLESS
from intact.lm.serving.server_limits import ServerLimits


@dataclass(frozen=True)
class RerankRequest:
    """A request for scores.

    Attributes:
        model: Its name; "" where the client names none.
        query: A text.
        texts: Those that are scored.
        count: How many of the best are named.
        has_texts: The response repeats the texts.
    """

    model: str
    query: str
    texts: list[str]
    count: int
    has_texts: bool


def parse_rerank(record: Any, limits: ServerLimits) -> RerankRequest:
    """Read a request to /v1/rerank.

    Args:
        record: The body of the request, as JSON.
        limits: Of this server.
    Raises:
        ProtocolError: A field is unknown, missing or wrong; names it.
    """
    fields = Fields(record)
    model, query = fields.text("model", ""), fields.text("query")
    documents = fields.take("documents")
    if not isinstance(documents, list) or not 1 <= len(documents) <= limits.texts:
        raise fields.error("documents", f"must be a list of 1 to {limits.texts} texts")
    texts = [fields.check_text("documents", _text_of(document)) for document in documents]
    count = fields.integer("top_n", None, 0, 2**31)  # vLLM: 0 means all
    has_texts = fields.flag("return_documents", True)
    fields.refuse(truncate_prompt_tokens=(), max_chunks_per_doc=(), max_tokens_per_doc=(), rank_fields=())
    fields.skip(*HARMLESS)
    fields.finish()
    return RerankRequest(model, query, texts, min(count or len(texts), len(texts)), has_texts)


def _text_of(document: Any) -> Any:
    """Return a document's text: it is a string, or an object with one."""
    is_object = isinstance(document, dict) and document.keys() == {"text"}
    return document["text"] if is_object else document


def rerank_body(name: str, request: RerankRequest, scores: Sequence[float], tokens: int) -> dict[str, Any]:
    """Return the body of a response: the best texts first.

    Args:
        name: Of the model.
        request: That is answered.
        scores: Of its texts.
        tokens: Of all pairs.
    """
    order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[: request.count]
    results: list[dict[str, Any]] = [{"index": index, "relevance_score": scores[index]} for index in order]
    if request.has_texts:
        for result in results:
            result["document"] = {"text": request.texts[result["index"]]}
    return {
        "id": f"rerank-{name}", "object": "list", "model": name, "results": results,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }  # fmt: skip
