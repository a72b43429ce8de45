"""HTTP connections that are closed when no request comes: uvicorn waits for the rest of headers for ever."""

from __future__ import annotations

import asyncio
from typing import Any


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
