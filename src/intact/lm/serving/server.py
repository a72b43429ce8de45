"""Serves a model over HTTP until it is stopped; idle connections are closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from intact.errors import MissingExtraError, QuantValueError
from intact.lm.encoders import TextEncoder
from intact.lm.language_model import LanguageModel
from intact.lm.serving.server_limits import ServerAccess, ServerLimits

_MARGIN = 10  # seconds for clients to take the ends of their answers


class ModelServer:
    """A server of one model. Its socket is open at once; clients wait until `run`.

    Args:
        model: What is served. Nobody else may run it at the same time: threads would share the machine.
        name: Of the model, for clients.
        host: Address to listen at.
        port: 0: a free one.
        limits: What one client may have.
        api_key, metrics_key, origins: As of `ServerAccess`.
    Raises:
        QuantValueError: The address cannot be listened at, the model has no tokenizer, or an origin is none.
        MissingExtraError: starlette or uvicorn is not installed.
    """

    def __init__(
        self, model: LanguageModel | TextEncoder, *, name: str = "model", host: str = "127.0.0.1",
        port: int = 8000, limits: ServerLimits | None = None, api_key: str = "", metrics_key: str = "",
        origins: Sequence[str] = (),
    ) -> None:  # fmt: skip
        try:
            import starlette  # noqa: F401
            import uvicorn
        except ImportError as error:
            raise MissingExtraError.of("starlette and uvicorn", "serve", "a server") from error
        from intact.lm.serving.encoder_app import EncoderApp
        from intact.lm.serving.http_app import HttpApp
        from intact.lm.serving.server_app import ServerApp

        self._limits = limits or ServerLimits()
        access = ServerAccess(api_key, metrics_key, tuple(origins))
        self._app: HttpApp
        if isinstance(model, TextEncoder):
            self._app = EncoderApp(model, name, self._limits, access)
        else:
            model.require_tokenizer()
            self._app = ServerApp(model, name, self._limits, access)
        bounds = self._limits
        config = uvicorn.Config(
            self._app.routes(), http=make_protocol(bounds.read_seconds), log_level="error", access_log=False,
            lifespan="off", server_header=False, timeout_keep_alive=bounds.read_seconds,
            timeout_graceful_shutdown=bounds.grace_seconds + _MARGIN, limit_concurrency=bounds.connections,
            backlog=min(bounds.connections, 2048),
        )  # fmt: skip
        self._server = _make_server(uvicorn.Server, config, self._end_late_answers)
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.host = host

    @property
    def url(self) -> str:
        """Address of the server, which clients take as base with ``/v1`` behind it."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def run(self) -> None:
        """Answer requests until SIGTERM, SIGINT or `stop`; answers that run then get some time to end."""
        self._app.start()
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        finally:
            self._app.stop()
            self._socket.close()

    def stop(self) -> None:
        """Make `run` return, from any thread."""
        self._server.should_exit = True

    def _end_late_answers(self) -> None:
        asyncio.get_running_loop().call_later(self._limits.grace_seconds, self._app.cancel_all)


def _make_server(base: Any, config: Any, on_shutdown: Any) -> Any:
    """Return a server of uvicorn's that calls `on_shutdown` when it begins to stop."""

    class Server(base):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            on_shutdown()
            await super().shutdown(sockets)

    return Server(config)


def _listen(host: str, port: int) -> socket.socket:
    try:
        if not 0 <= port <= 0xFFFF:
            raise ValueError("no such port")
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError, ValueError) as error:
        raise QuantValueError(
            "address", f"'{error}' at {host}:{port}", "one that is free", "choose another host or port"
        ) from error
    listener.setblocking(False)
    return listener


def make_protocol(seconds: float) -> type[Any]:
    """Return uvicorn's protocol with a limit.

    Args:
        seconds: After one to two times so long without a request that is answered, a connection is closed.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PatientProtocol(H11Protocol):
        """Closes connections on which no request is complete."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _watch(self) -> None:
            self._timer = self.loop.call_later(seconds, self._close_or_watch, self.cycle)

        def _close_or_watch(self, before: Any) -> None:
            """Close where nothing came since `before`, the request of the last look, was answered."""
            is_idle = self.cycle is None or self.cycle.response_complete
            if is_idle and self.cycle is before:
                self.transport.close()
            else:
                self._watch()

    return PatientProtocol
