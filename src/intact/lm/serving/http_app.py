"""The endpoints that servers of all kinds of models have, and what guards every endpoint."""

from __future__ import annotations

import asyncio
import hmac
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
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
from intact.lm.serving.event_stream import end_task, wait_for_disconnect
from intact.lm.serving.protocol_error import ProtocolError, check_model, fault_error
from intact.lm.serving.protocols.messages_bodies import message_error
from intact.lm.serving.requests import parse_json
from intact.lm.serving.server_limits import ServerAccess, ServerLimits
from intact.lm.serving.token_endpoints import Metrics

_DRAINED = 16  # bodies of so many times the limit are read to their end
Handler = Callable[[Any], Awaitable[Response]]


class HttpApp:
    """Answers requests; subclasses add the endpoints of their kind of model.

    Args:
        name: Of the model, for clients.
        limits: What one client may have.
        access: Who may ask.
        preparers: Threads for work that takes long.

    Attributes:
        metrics: What was done so far.
        preparers: These threads.
    """

    def __init__(self, name: str, limits: ServerLimits, access: ServerAccess | None, preparers: int) -> None:
        self._name, self._limits = name, limits
        self._access = access or ServerAccess()
        self._key = self._access.api_key.encode()
        self.metrics = Metrics()
        self.preparers = ThreadPoolExecutor(preparers, "intact-lm-prepare")

    @property
    def is_alive(self) -> bool:
        """True while requests are answered."""
        return True

    @property
    def positions(self) -> int | None:
        """Tokens of a sequence at most; None where no file says it."""
        return None

    def posts(self) -> dict[str, Handler]:
        """Return the handlers of POST requests, by path."""
        return {}

    def gets(self) -> dict[str, Handler]:
        """Return further handlers of GET requests, by path."""
        return {}

    def sequence_counts(self) -> tuple[int, int]:
        """Return how many sequences run, and how many wait."""
        return 0, 0

    def start(self) -> None:
        """Start what runs the model."""

    def cancel_all(self) -> None:
        """End all answers."""

    def stop(self) -> None:
        """End all answers and threads."""
        self.preparers.shutdown()

    def routes(self) -> Starlette:
        """Return the application."""
        gets: dict[str, Handler] = {
            "/v1/models": self._models, "/v1/models/{name:path}": self._model_record,
            "/health": self._health, "/metrics": self._metrics, **self.gets(),
        }  # fmt: skip
        routes = [
            Route(path, self._guard(path, handler), methods=[method])
            for method, handlers in (("POST", self.posts()), ("GET", gets))
            for path, handler in handlers.items()
        ]
        middleware = [] if not self._access.origins else [_cors(self._access.origins)]
        return Starlette(
            routes=routes, middleware=middleware, exception_handlers={HTTPException: _http_error}
        )

    def _guard(self, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Turn every error of a handler into the protocol's, and count the answer."""

        async def answer(request: Request) -> Response:
            try:
                self._check_key(request, path)
                response = await handler(request)
            except ProtocolError as error:
                response = _error_response(error, path)
            except IntactError as error:
                response = _error_response(ProtocolError(400, str(error), param=error.where[:80]), path)
            except ClientDisconnect:
                response = Response(status_code=499)  # which nobody reads
            except Exception:
                traceback.print_exc(file=sys.stderr)
                response = _error_response(fault_error(), path)
            self.metrics.add("intact_requests_total", endpoint=path, status=str(response.status_code))
            return response

        return answer

    async def _health(self, request: Request) -> Response:
        status = 200 if self.is_alive else 503
        return JSONResponse({"status": "ok" if status == 200 else "stopping"}, status)

    async def _metrics(self, request: Request) -> Response:
        running, waiting = self.sequence_counts()
        gauges = {"intact_sequences_running": running, "intact_sequences_waiting": waiting}
        return PlainTextResponse(self.metrics.render(gauges))

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._record()]})

    async def _model_record(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._record())

    async def _run_apart(self, make: Callable[[], list[Any]]) -> list[Any]:
        """Run what takes long, such as encoding, on another thread."""

        def make_jobs() -> list[Any]:
            try:
                return make()
            except Exception:
                raise
            except BaseException as error:  # a panic of Rust's code, in tokenizers and llguidance
                raise RuntimeError(str(error)) from error

        return await asyncio.get_running_loop().run_in_executor(self.preparers, make_jobs)

    async def _read_json(self, request: Request) -> Any:
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
            "max_model_len": self.positions,
        }  # fmt: skip

    def _check_model(self, name: str) -> None:
        check_model(name, self._name)

    def _check_key(self, request: Request, path: str) -> None:
        key = {"/": b"", "/health": b"", "/metrics": self._access.metrics_key.encode()}.get(path, self._key)
        headers = request.headers
        sent = (headers.get("authorization") or headers.get("x-api-key", "")).removeprefix("Bearer ").encode()
        if key and not hmac.compare_digest(sent, key):
            raise ProtocolError(401, "the API key is missing or wrong", code="invalid_api_key")


def _cors(origins: Sequence[str]) -> Middleware:
    """Let pages of these origins ask."""
    return Middleware(
        CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["*"],
        max_age=3600,
    )  # fmt: skip


async def unless_gone(request: Request, work: Any) -> Any:
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


def _error_response(error: ProtocolError, path: str) -> Response:
    body = message_error(error) if path.startswith("/v1/messages") else error.body()
    return JSONResponse(body, error.status, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Return errors of paths and methods in the protocol's form."""
    assert isinstance(error, HTTPException)
    return _error_response(ProtocolError(error.status_code, str(error.detail)), request.url.path)
