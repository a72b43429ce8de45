"""The endpoints of a model's server."""

from __future__ import annotations

import asyncio
import hmac
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from intact.errors import IntactError
from intact.lm.chat.chat_prompt import ChatPrompt
from intact.lm.chat.reasoning import ReasoningStream
from intact.lm.language_model import LanguageModel
from intact.lm.serving.answer_jobs import AnswerJob, AnswerPart, Post, VectorJob
from intact.lm.serving.call_grammars import request_grammar
from intact.lm.serving.engine_thread import EngineThread, QueueFullError, StoppedError
from intact.lm.serving.event_stream import EventStream, end_task, wait_for_disconnect
from intact.lm.serving.protocol_error import ProtocolError, check_model, fault_error
from intact.lm.serving.requests import (
    EmbeddingRequest,
    TextRequest,
    parse_chat,
    parse_completion,
    parse_embedding,
    parse_json,
)
from intact.lm.serving.responses import AnswerFormat, embedding_body, usage_record
from intact.lm.serving.server_limits import ServerAccess, ServerLimits
from intact.lm.serving.token_endpoints import Metrics, detokenize_body, tokenize_body
from intact.lm.serving.tool_calls import ToolCallStream

_DRAINED = 16  # bodies of so many times the limit are read to their end
_PREPARERS = 2  # threads that encode prompts and compile grammars; each has a heap of its own
_Handler = Callable[[Any], Awaitable[Response]]


class ServerApp:
    """Answers requests.

    Args:
        model: What is served.
        name: Of the model, for clients.
        limits: What one client may have.
        access: Who may ask.

    Attributes:
        engine: The thread that runs the model.
        metrics: What was done so far.
    """

    def __init__(
        self, model: LanguageModel, name: str, limits: ServerLimits, access: ServerAccess | None = None
    ) -> None:
        self._model, self._name, self._limits = model, name, limits
        self._access = access or ServerAccess()
        self._key = self._access.api_key.encode()
        self.engine = EngineThread(
            model.new_cache, limits.slots, limits.waiting, limits.chunk, limits.idle_seconds
        )
        self.metrics = Metrics()
        self._preparers = ThreadPoolExecutor(_PREPARERS, "intact-lm-prepare")

    def stop(self) -> None:
        """End all answers and threads."""
        self.engine.stop()
        self._preparers.shutdown()

    def routes(self) -> Starlette:
        """Return the application."""
        posts: dict[str, _Handler] = {
            "/v1/completions": self._complete, "/v1/chat/completions": self._chat,
            "/v1/embeddings": self._embed, "/tokenize": self._tokenize, "/detokenize": self._detokenize,
        }  # fmt: skip
        gets: dict[str, _Handler] = {
            "/v1/models": self._models, "/v1/models/{name:path}": self._model_record,
            "/health": self._health, "/metrics": self._metrics,
        }  # fmt: skip
        routes = [
            Route(path, self._guard(path, handler), methods=[method])
            for method, handlers in (("POST", posts), ("GET", gets))
            for path, handler in handlers.items()
        ]
        middleware = [] if not self._access.origins else [_cors(self._access.origins)]
        return Starlette(
            routes=routes, middleware=middleware, exception_handlers={HTTPException: _http_error}
        )

    def _guard(self, path: str, handler: _Handler) -> Callable[[Request], Awaitable[Response]]:
        """Turn every error of a handler into the protocol's, and count the answer."""

        async def answer(request: Request) -> Response:
            try:
                self._check_key(request, path)
                response = await handler(request)
            except ProtocolError as error:
                response = _error_response(error)
            except IntactError as error:
                response = _error_response(ProtocolError(400, str(error), param=error.where[:80]))
            except ClientDisconnect:
                response = Response(status_code=499)  # which nobody reads
            except Exception:
                traceback.print_exc(file=sys.stderr)
                response = _error_response(fault_error())
            self.metrics.add("intact_requests_total", endpoint=path, status=str(response.status_code))
            return response

        return answer

    async def _health(self, request: Request) -> Response:
        status = 200 if self.engine.is_alive else 503
        return JSONResponse({"status": "ok" if status == 200 else "stopping"}, status)

    async def _metrics(self, request: Request) -> Response:
        gauges = {
            "intact_sequences_running": self.engine.running, "intact_sequences_waiting": self.engine.waiting,
        }  # fmt: skip
        return PlainTextResponse(self.metrics.render(gauges))

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._record()]})

    async def _model_record(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._record())

    async def _complete(self, request: Request) -> Response:
        wanted = parse_completion(await self._read(request), self._limits)
        self._check_model(wanted.model)
        return await self._answer(request, wanted, is_chat=False)

    async def _chat(self, request: Request) -> Response:
        wanted = parse_chat(await self._read(request), self._limits)
        self._check_model(wanted.model)
        return await self._answer(request, wanted, is_chat=True)

    async def _tokenize(self, request: Request) -> Response:
        record = await self._read(request)
        (body,) = await self._run_apart(lambda: [tokenize_body(record, self._model, self._name)])
        return JSONResponse(body)

    async def _detokenize(self, request: Request) -> Response:
        record = await self._read(request)
        (body,) = await self._run_apart(lambda: [detokenize_body(record, self._model, self._name)])
        return JSONResponse(body)

    async def _embed(self, request: Request) -> Response:
        wanted = parse_embedding(await self._read(request), self._limits)
        self._check_model(wanted.model)
        size = self._model.hidden_size
        if size is not None and wanted.dimensions not in (None, size):
            raise ProtocolError(400, f"'dimensions' can only be {size}", param="dimensions")
        queue, post = _piece_queue()
        jobs = await self._run_apart(lambda: self._vector_jobs(wanted, post))
        self._submit(jobs)
        try:
            await _unless_gone(request, _gather(queue, len(jobs)))
        finally:
            _cancel(jobs)
        tokens = sum(len(job.prompt) for job in jobs)
        vectors = [job.vector for job in jobs if job.vector is not None]
        self.metrics.add("intact_prompt_tokens_total", tokens)
        return JSONResponse(embedding_body(self._name, vectors, wanted.is_base64, tokens))

    async def _answer(self, request: Request, wanted: TextRequest, is_chat: bool) -> Response:
        queue, post = _piece_queue()
        jobs = await self._run_apart(lambda: self._answer_jobs(wanted, post))
        self._submit(jobs)
        form = AnswerFormat(self._name, is_chat, wanted.sampling.seed)

        def end() -> None:
            _cancel(jobs)
            self.metrics.add("intact_completion_tokens_total", sum(job.choice.count for job in jobs))

        if wanted.is_streamed:
            parts = self._parts(queue, jobs, form, wanted)
            return EventStream(parts, end, self._limits.write_seconds, {})
        try:
            answers = await _unless_gone(request, _gather(queue, len(jobs)))
        finally:
            end()
        return JSONResponse(form.whole(answers, self._usage(jobs, wanted)))

    async def _parts(
        self,
        queue: asyncio.Queue[AnswerPart],
        jobs: Sequence[AnswerJob],
        form: AnswerFormat,
        wanted: TextRequest,
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield the parts of a streamed response."""
        if form.is_chat:
            for index in range(len(jobs)):
                yield form.first_chunk(index)
        count = len(jobs)
        while count:
            piece = await queue.get()
            _raise_error(piece)
            count -= piece.is_last
            yield form.chunk(piece)
        usage = self._usage(jobs, wanted)
        if wanted.wants_usage:
            yield form.usage_chunk(usage)

    def _usage(self, jobs: Sequence[AnswerJob], wanted: TextRequest) -> dict[str, int]:
        """Return the tokens of a response, and count those of its prompts, each once."""
        prompts = sum(len(job.prompt) for job in jobs[:: wanted.answers])
        self.metrics.add("intact_prompt_tokens_total", prompts)
        return usage_record(prompts, sum(job.choice.count for job in jobs))

    async def _run_apart(self, make: Callable[[], list[Any]]) -> list[Any]:
        """Run what takes long, such as encoding, on another thread."""

        def make_jobs() -> list[Any]:
            try:
                return make()
            except Exception:
                raise
            except BaseException as error:  # a panic of Rust's code, in tokenizers and llguidance
                raise RuntimeError(str(error)) from error

        return await asyncio.get_running_loop().run_in_executor(self._preparers, make_jobs)

    def _answer_jobs(self, wanted: TextRequest, post: Post) -> list[AnswerJob]:
        model, tokenizer = self._model, self._model.require_tokenizer()
        prompts: Sequence[str | list[int]] = wanted.prompts or [
            model.chat_prompt(wanted.messages, wanted.tools, **vars(wanted.chat))
        ]
        grammar = request_grammar(model, wanted.tools, wanted.choice, wanted.json_schema)
        names = [tool["function"]["name"] for tool in wanted.tools]
        jobs = []
        for number, prompt in enumerate(prompts):
            ids, most = self._tokens(prompt), wanted.max_tokens
            if most is None:
                most = max(1, min(self._limits.default_tokens, model.positions - len(ids)))
            for answer in range(wanted.answers):
                choice = model.token_choice(ids, most, wanted.sampling, grammar, answer, wanted.stop_rules)
                index = number * wanted.answers + answer
                calls = ToolCallStream(names, wanted.choice.most) if names else None
                reasoning, marks = None, dict[int, str]()
                is_formed = wanted.choice.forced or wanted.json_schema is not None
                if isinstance(prompt, ChatPrompt) and not is_formed:
                    reasoning, marks = ReasoningStream(prompt.open_mark, prompt.template), model.mark_tokens
                echo = self._text(prompt) if wanted.echoes else None
                job = AnswerJob(
                    ids, choice, tokenizer, wanted.stop, index=index, logprobs=wanted.logprobs, post=post,
                    calls=calls, reasoning=reasoning, echo=echo, least=wanted.stop_rules.least,
                    marks=marks,
                )  # fmt: skip
                jobs.append(job)
        return jobs

    def _vector_jobs(self, wanted: EmbeddingRequest, post: Post) -> list[VectorJob]:
        prompts = [self._check_tokens(self._model.embedding_tokens(text)) for text in wanted.texts]
        how = self._model.pooling
        return [VectorJob(ids, index, post, how) for index, ids in enumerate(prompts)]

    def _tokens(self, prompt: str | list[int]) -> list[int]:
        return self._check_tokens(self._model.encode(prompt))

    def _check_tokens(self, ids: list[int]) -> list[int]:
        if not all(0 <= token < self._model.vocabulary for token in ids):
            raise ProtocolError(400, f"tokens are from 0 to {self._model.vocabulary - 1}", param="prompt")
        return ids

    def _text(self, prompt: str | list[int]) -> str:
        tokenizer = self._model.require_tokenizer()
        return prompt if isinstance(prompt, str) else tokenizer.decode(prompt, special=True)

    def _submit(self, jobs: Sequence[AnswerJob | VectorJob]) -> None:
        try:
            self.engine.submit(jobs)
        except QueueFullError:
            raise ProtocolError(
                429, "too many sequences wait", code="queue_full", headers={"retry-after": "1"}
            ) from None
        except StoppedError:
            raise _stop_error() from None

    async def _read(self, request: Request) -> Any:
        """Return the JSON of a body.

        What is too long is dropped, and read on for a while: many clients see no answer before they sent all.
        """
        most, size, body = self._limits.body_bytes, 0, bytearray()
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                async for part in request.stream():
                    size += len(part)
                    body = body if size <= most else bytearray()
                    body += part if size <= most else b""
                    if size > _DRAINED * most:
                        break
        except TimeoutError:
            late = ProtocolError(408, "the body took too long", headers={"connection": "close"})
            raise late from None
        if size > most:
            closing = {"connection": "close"} if size > _DRAINED * most else {}
            message = f"the body has more than {most} bytes"
            raise ProtocolError(413, message, code="body_too_large", headers=closing)
        return parse_json(bytes(body))

    def _record(self) -> dict[str, Any]:
        return {
            "id": self._name, "object": "model", "created": 0, "owned_by": "intact",
            "max_model_len": self._model.positions,
        }  # fmt: skip

    def _check_model(self, name: str) -> None:
        check_model(name, self._name)

    def _check_key(self, request: Request, path: str) -> None:
        key = {"/health": b"", "/metrics": self._access.metrics_key.encode()}.get(path, self._key)
        sent = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if key and not hmac.compare_digest(sent, key):
            raise ProtocolError(401, "the API key is missing or wrong", code="invalid_api_key")


def _cors(origins: Sequence[str]) -> Middleware:
    """Let pages of these origins ask."""
    return Middleware(
        CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["*"],
        max_age=3600,
    )  # fmt: skip


def _piece_queue() -> tuple[asyncio.Queue[AnswerPart], Post]:
    """Return a queue, and a function by which another thread puts parts into it."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[AnswerPart]()

    def post(piece: AnswerPart) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, piece)
        except RuntimeError:  # the loop is closed: nobody waits
            return

    return queue, post


async def _gather(queue: asyncio.Queue[AnswerPart], count: int) -> list[list[AnswerPart]]:
    """Return the parts of all answers, when each has come to its end."""
    answers: list[list[AnswerPart]] = [[] for _ in range(count)]
    while not all(parts and parts[-1].is_last for parts in answers):
        piece = await queue.get()
        _raise_error(piece)
        answers[piece.index].append(piece)
    return answers


async def _unless_gone(request: Request, work: Any) -> Any:
    """Return what a coroutine returns; it is cancelled when the client leaves."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        await end_task(gone)
        await end_task(task)


def _raise_error(piece: AnswerPart) -> None:
    """Raise what ended an answer before its end."""
    if isinstance(piece.error, StoppedError):
        raise _stop_error()
    if isinstance(piece.error, IntactError):
        raise ProtocolError(400, str(piece.error), param=piece.error.where[:80])
    if piece.error is not None:
        traceback.print_exception(piece.error)
        raise ProtocolError(500, f"the engine failed: {str(piece.error)[:200]}", code="engine_failed")


def _stop_error() -> ProtocolError:
    return ProtocolError(503, "the server stops", code="server_stopping", headers={"retry-after": "5"})


def _cancel(jobs: Sequence[AnswerJob | VectorJob]) -> None:
    for job in jobs:
        job.is_cancelled = True


def _error_response(error: ProtocolError) -> Response:
    return JSONResponse(error.body(), error.status, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Return errors of paths and methods in the protocol's form."""
    assert isinstance(error, HTTPException)
    return _error_response(ProtocolError(error.status_code, str(error.detail)))
