"""The endpoints of a server of a text encoder or a reranker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from intact.lm.encoders import TextEncoder
from intact.lm.serving.answer_bodies import embedding_body
from intact.lm.serving.http_app import Handler, HttpApp, unless_gone
from intact.lm.serving.protocol_error import ProtocolError
from intact.lm.serving.requests import parse_embedding
from intact.lm.serving.rerank_requests import parse_rerank, rerank_body
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
