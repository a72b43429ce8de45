"""The endpoints of a server of a text encoder or a reranker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from intact.lm.encoders import TextEncoder
from intact.lm.serving.answer_bodies import embedding_body
from intact.lm.serving.http_app import Handler, HttpApp, unless_gone
from intact.lm.serving.protocol_error import Fields, ProtocolError
from intact.lm.serving.requests import HARMLESS, parse_embedding
from intact.lm.serving.server_limits import ServerAccess, ServerLimits


class EncoderApp(HttpApp):
    """Answers requests for vectors, or for scores; one at a time, the others wait.

    Args:
        model: What is served.
        name, limits, access: As of `HttpApp`.
    """

    def __init__(
        self, model: TextEncoder, name: str, limits: ServerLimits, access: ServerAccess | None = None
    ) -> None:
        super().__init__(name, limits, access, 1)
        self._model, self._pending, self._is_stopped = model, 0, False

    @property
    def positions(self) -> int | None:
        """Tokens of a text at most; None where no file says it."""
        return self._model.positions or None

    def sequence_counts(self) -> tuple[int, int]:
        """Return how many requests run, and how many wait."""
        return min(self._pending, 1), max(self._pending - 1, 0)

    def cancel_all(self) -> None:
        """End all answers between two texts."""
        self._is_stopped = True

    def posts(self) -> dict[str, Handler]:
        """Return the handlers of POST requests, by path."""
        return {"/v1/embeddings": self._embed, "/v1/rerank": self._rerank, "/rerank": self._rerank}

    async def _embed(self, request: Request) -> Response:
        wanted = parse_embedding(await self._read_json(request), self._limits)
        self._check_model(wanted.model)
        size = self._model.size
        if wanted.dimensions not in (None, size):
            raise ProtocolError(400, f"'dimensions' can only be {size}", param="dimensions")

        def embed(text: str | list[int]) -> tuple[Any, int]:
            ids = self._model.tokens(text)
            return self._model.vector(ids), len(ids)

        vectors, count = await self._each(request, [partial(embed, text) for text in wanted.texts])
        return JSONResponse(embedding_body(self._name, vectors, wanted.is_base64, count))

    async def _rerank(self, request: Request) -> Response:
        wanted = parse_rerank(await self._read_json(request), self._limits)
        self._check_model(wanted.model)

        def score(text: str) -> tuple[Any, int]:
            ids, types = self._model.pair(wanted.query, text)
            return self._model.score(ids, types), len(ids)

        scores, count = await self._each(request, [partial(score, text) for text in wanted.texts])
        return JSONResponse(rerank_body(self._name, wanted, scores, count))

    async def _each(
        self, request: Request, calls: list[Callable[[], tuple[Any, int]]]
    ) -> tuple[list[Any], int]:
        """Return the results of calls and the sum of their tokens; they end where the client leaves."""
        if self._pending > self._limits.waiting:
            raise ProtocolError(
                429, "too many requests wait", code="queue_full", headers={"retry-after": "1"}
            )
        self._pending += 1
        is_gone = False

        def run_each() -> list[tuple[Any, int]]:
            results: list[tuple[Any, int]] = []
            for call in calls:
                if is_gone or self._is_stopped:
                    return results
                results.append(call())
            return results

        try:
            loop = asyncio.get_running_loop()
            results = await unless_gone(request, loop.run_in_executor(self.preparers, run_each))
        finally:
            is_gone = True
            self._pending -= 1
        if len(results) < len(calls):
            raise ProtocolError(503, "the server stops", code="server_stopping", headers={"retry-after": "5"})
        count = sum(tokens for _, tokens in results)
        self.metrics.add("intact_prompt_tokens_total", count)
        return [result for result, _ in results], count


# ---- requests to /v1/rerank, in the form of Jina, Cohere and vLLM


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
