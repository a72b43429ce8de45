"""Sends answers part by part, as server-sent events, for as long as the client reads."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from intact.lm.serving.protocol_error import ProtocolError, fault_error
from intact.lm.serving.strict_json import encode_strict

_PAUSE = 15.0  # seconds without a part after which a comment tells proxies that somebody is there


class EventStream(Response):
    """A response of many parts.

    Args:
        parts: What is sent, as JSON; a part with a "type" is an event of that name.
        on_error: Returns the part that tells of an error.
        last: What is sent behind all parts.
        on_end: Is called when nothing more is sent, for whatever reason.
        write_seconds: A client that takes nothing for so long is left.
    """

    media_type = "text/event-stream"

    def __init__(
        self, parts: AsyncGenerator[dict[str, Any]], on_error: Callable[[ProtocolError], dict[str, Any]],
        last: bytes, on_end: Callable[[], None], write_seconds: float,
    ) -> None:  # fmt: skip
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._parts, self._on_error, self._last = parts, on_error, last
        self._on_end, self._seconds = on_end, write_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, or what the client wanted of it."""
        work = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._on_end()
            await end_task(gone)
            await end_task(work)
        if work.done() and not work.cancelled():
            work.result()

    async def _send_all(self, send: Send) -> None:
        try:
            await self._write(
                send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            )
            async with aclosing(self._events()) as events, aclosing(with_pauses(events, _PAUSE)) as paced:
                async for event in paced:
                    await self._write(send, {"type": "http.response.body", "body": event, "more_body": True})
            await self._write(send, {"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):  # the client left, or does not read
            return

    async def _write(self, send: Send, message: dict[str, Any]) -> None:
        async with asyncio.timeout(self._seconds):
            await send(message)

    async def _events(self) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(self._parts) as parts:
                async for part in parts:
                    yield _event(part)
        except ProtocolError as error:
            yield _event(self._on_error(error))
        except Exception:
            traceback.print_exc(file=sys.stderr)
            yield _event(self._on_error(fault_error()))
        if self._last:
            yield self._last


async def with_pauses(events: AsyncGenerator[bytes], seconds: float) -> AsyncGenerator[bytes]:
    """Yield events, and a comment whenever none comes for some time."""
    while True:
        upcoming = asyncio.ensure_future(anext(events, None))
        try:
            while not (await asyncio.wait({upcoming}, timeout=seconds))[0]:
                yield b": waiting\n\n"
        finally:
            await end_task(upcoming)
        event = upcoming.result()
        if event is None:
            return
        yield event


async def wait_for_disconnect(receive: Callable[[], Awaitable[Any]]) -> None:
    """Return when the client is gone; its body was read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def end_task(task: asyncio.Future[Any]) -> None:
    """Cancel a task that still runs, and wait until it has left."""
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _event(record: dict[str, Any]) -> bytes:
    name = f"event: {record['type']}\n".encode() if "type" in record else b""
    return name + b"data: " + encode_strict(record) + b"\n\n"
