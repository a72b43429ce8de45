"""The endpoints of a model's server."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from intact.errors import IntactError
from intact.lm.chat.chat_prompt import ChatPrompt
from intact.lm.chat.reasoning import ReasoningStream
from intact.lm.chat_template import template_reads
from intact.lm.language_model import LanguageModel
from intact.lm.serving.answer_bodies import AnswerBodies, AnswerFormat, embedding_body
from intact.lm.serving.answer_jobs import AnswerJob, AnswerPart, Post, VectorJob
from intact.lm.serving.call_grammars import request_grammar
from intact.lm.serving.chat_page import chat_page
from intact.lm.serving.engine_thread import EngineThread, QueueFullError, StoppedError
from intact.lm.serving.event_stream import EventStream
from intact.lm.serving.http_app import Handler, HttpApp, unless_gone
from intact.lm.serving.protocol_error import ProtocolError
from intact.lm.serving.protocols.messages_bodies import MessageBodies
from intact.lm.serving.protocols.messages_requests import parse_message_request
from intact.lm.serving.protocols.responses_bodies import ResponseBodies
from intact.lm.serving.protocols.responses_requests import parse_response_request
from intact.lm.serving.requests import (
    EmbeddingRequest,
    TextRequest,
    parse_chat,
    parse_completion,
    parse_embedding,
)
from intact.lm.serving.server_limits import ServerAccess, ServerLimits
from intact.lm.serving.token_endpoints import detokenize_body, tokenize_body
from intact.lm.serving.tool_calls import ToolCallStream

_PREPARERS = 2  # threads that encode prompts and compile grammars; each has a heap of its own


class ServerApp(HttpApp):
    """Answers requests to a language model; arguments as of `HttpApp`.

    Args:
        model: What is served.

    Attributes:
        engine: The thread that runs the model.
    """

    def __init__(
        self, model: LanguageModel, name: str, limits: ServerLimits, access: ServerAccess | None = None
    ) -> None:
        super().__init__(name, limits, access, _PREPARERS)
        self._model = model
        self.engine = EngineThread(
            model.new_cache, limits.slots, limits.waiting, limits.chunk, limits.idle_seconds
        )

    @property
    def is_alive(self) -> bool:
        """True while the thread runs."""
        return self.engine.is_alive

    @property
    def positions(self) -> int | None:
        """Tokens of a sequence at most."""
        return self._model.positions

    def sequence_counts(self) -> tuple[int, int]:
        """Return how many sequences have a slot, and how many wait for one."""
        return self.engine.running, self.engine.waiting

    def start(self) -> None:
        """Start the thread."""
        self.engine.start()

    def cancel_all(self) -> None:
        """End all answers."""
        self.engine.cancel_all()

    def stop(self) -> None:
        """End all answers and threads."""
        self.engine.stop()
        super().stop()

    def posts(self) -> dict[str, Handler]:
        """Return the handlers of POST requests, by path."""
        return {
            "/v1/completions": self._complete, "/v1/chat/completions": self._chat,
            "/v1/responses": self._respond, "/v1/messages": self._message,
            "/v1/messages/count_tokens": self._count_tokens, "/v1/embeddings": self._embed,
            "/tokenize": self._tokenize, "/detokenize": self._detokenize,
        }  # fmt: skip

    def gets(self) -> dict[str, Handler]:
        """Return the handler of the page for people."""
        return {"/": self._page}

    async def _page(self, request: Request) -> Response:
        return chat_page()

    async def _complete(self, request: Request) -> Response:
        wanted = parse_completion(await self._read_json(request), self._limits)
        return await self._answer(request, wanted, self._format(wanted, is_chat=False))

    async def _chat(self, request: Request) -> Response:
        wanted = parse_chat(await self._read_json(request), self._limits)
        return await self._answer(request, wanted, self._format(wanted, is_chat=True))

    def _format(self, wanted: TextRequest, is_chat: bool) -> AnswerFormat:
        return AnswerFormat(self._name, is_chat, wanted.sampling.seed, wanted.wants_usage)

    async def _respond(self, request: Request) -> Response:
        wanted = parse_response_request(await self._read_json(request), self._limits)
        return await self._answer(request, wanted.answer, ResponseBodies(self._name, wanted.echoed))

    async def _message(self, request: Request) -> Response:
        wanted = parse_message_request(await self._read_json(request), self._limits)
        return await self._answer(request, wanted, MessageBodies(self._name))

    async def _count_tokens(self, request: Request) -> Response:
        wanted = parse_message_request(await self._read_json(request), self._limits, is_counted=True)
        self._check_model(wanted.model)
        (ids,) = await self._run_apart(lambda: [self._tokens(self._chat_prompt(wanted))])
        return JSONResponse({"input_tokens": len(ids)})

    async def _tokenize(self, request: Request) -> Response:
        record = await self._read_json(request)
        (body,) = await self._run_apart(lambda: [tokenize_body(record, self._model, self._name)])
        return JSONResponse(body)

    async def _detokenize(self, request: Request) -> Response:
        record = await self._read_json(request)
        (body,) = await self._run_apart(lambda: [detokenize_body(record, self._model, self._name)])
        return JSONResponse(body)

    async def _embed(self, request: Request) -> Response:
        wanted = parse_embedding(await self._read_json(request), self._limits)
        self._check_model(wanted.model)
        size = self._model.hidden_size
        if size is not None and wanted.dimensions not in (None, size):
            raise ProtocolError(400, f"'dimensions' can only be {size}", param="dimensions")
        queue, post = _piece_queue()
        jobs = await self._run_apart(lambda: self._vector_jobs(wanted, post))
        self._submit(jobs)
        try:
            await unless_gone(request, _gather(queue, len(jobs)))
        finally:
            _cancel(jobs)
        tokens = sum(len(job.prompt) for job in jobs)
        vectors = [job.vector for job in jobs if job.vector is not None]
        self.metrics.add("intact_prompt_tokens_total", tokens)
        return JSONResponse(embedding_body(self._name, vectors, wanted.is_base64, tokens))

    async def _answer(self, request: Request, wanted: TextRequest, bodies: AnswerBodies) -> Response:
        self._check_model(wanted.model)
        queue, post = _piece_queue()
        jobs = await self._run_apart(lambda: self._answer_jobs(wanted, post))
        self._submit(jobs)

        def end() -> None:
            _cancel(jobs)
            self.metrics.add("intact_completion_tokens_total", _count_tokens(jobs))

        if wanted.is_streamed:
            parts = self._parts(queue, jobs, bodies, wanted)
            return EventStream(parts, bodies.failure, bodies.last, end, self._limits.write_seconds)
        try:
            answers = await unless_gone(request, _gather(queue, len(jobs)))
        finally:
            end()
        return JSONResponse(bodies.whole(answers, self._count_prompts(jobs, wanted), _count_tokens(jobs)))

    async def _parts(
        self,
        queue: asyncio.Queue[AnswerPart],
        jobs: Sequence[AnswerJob],
        bodies: AnswerBodies,
        wanted: TextRequest,
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield the parts of a streamed response."""
        prompt = sum(len(job.prompt) for job in jobs[:: wanted.answers])
        for body in bodies.begin(len(jobs), prompt):
            yield body
        count = len(jobs)
        while count:
            piece = await queue.get()
            _raise_error(piece)
            count -= piece.is_last
            for body in bodies.chunk(piece):
                yield body
        for body in bodies.end(self._count_prompts(jobs, wanted), _count_tokens(jobs)):
            yield body

    def _count_prompts(self, jobs: Sequence[AnswerJob], wanted: TextRequest) -> int:
        """Return the tokens of a response's prompts, each once, and add them to the metrics."""
        count = sum(len(job.prompt) for job in jobs[:: wanted.answers])
        self.metrics.add("intact_prompt_tokens_total", count)
        return count

    def _chat_prompt(self, wanted: TextRequest) -> ChatPrompt:
        template = self._model.chat_templates.pick(wanted.chat.template, has_tools=bool(wanted.tools))
        reads = template_reads(template).variables if wanted.wishes else ()
        granted = {name: value for name, value in wanted.wishes.items() if name in reads}
        variables = granted | wanted.chat.chat_template_kwargs
        options = vars(wanted.chat) | {"chat_template_kwargs": variables}
        return self._model.chat_prompt(wanted.messages, wanted.tools, **options)

    def _answer_jobs(self, wanted: TextRequest, post: Post) -> list[AnswerJob]:
        model, tokenizer = self._model, self._model.require_tokenizer()
        prompts: Sequence[str | list[int]] = wanted.prompts or [self._chat_prompt(wanted)]
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


def _count_tokens(jobs: Sequence[AnswerJob]) -> int:
    """Return the tokens that answers have so far."""
    return sum(job.choice.count for job in jobs)


def _cancel(jobs: Sequence[AnswerJob | VectorJob]) -> None:
    for job in jobs:
        job.is_cancelled = True
