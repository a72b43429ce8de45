"""Limits of what one client may have, and who may be one."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from intact.errors import QuantValueError


@dataclass(frozen=True)
class ServerLimits:
    """Bounds of a server. A request beyond one is refused before it costs anything.

    Attributes:
        slots: Sequences that run together; each has memory for the longest one of them.
        waiting: Sequences that wait for a slot; further ones are refused with status 429.
        chunk: Tokens of a prompt in one step: other sequences wait for no more.
        body_bytes: Bytes of a request.
        max_tokens: Tokens of one answer.
        default_tokens: Of an answer to a chat that does not say how many.
        sequences: Prompts times answers of one request.
        texts: Texts of one request for embeddings.
        stops: Stop texts.
        tools: Tools of one request.
        stop_length: Characters of one.
        read_seconds: For the body of a request to arrive.
        write_seconds: For a client to take one part of a streamed answer.
        grace_seconds: For answers to end when the server stops.
        idle_seconds: After the last answer, until the memory of the sequences that have ended is freed. Until
            then prompts that begin like one of them begin there.
        connections: Clients at a time.
    """

    slots: int = 8
    waiting: int = 64
    chunk: int = 128
    body_bytes: int = 2**20
    max_tokens: int = 4096
    default_tokens: int = 1024
    sequences: int = 16
    texts: int = 64
    stops: int = 16
    tools: int = 128
    stop_length: int = 256
    read_seconds: int = 30
    write_seconds: int = 60
    grace_seconds: int = 30
    idle_seconds: int = 600
    connections: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("waiting", "grace_seconds", "idle_seconds") else 1
            if not least <= value <= 2**31:
                raise QuantValueError(field.name, str(value), f"{least} to {2**31}", "change it")


_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[A-Za-z0-9._:\[\]-]+")


@dataclass(frozen=True)
class ServerAccess:
    """Clients that may ask a server.

    Attributes:
        api_key: What clients must send as their key, everywhere but at /health and /metrics; "" for nothing.
        metrics_key: What must be sent for /metrics; "" for nothing.
        origins: Of web pages that may ask, such as "https://example.org"; "*": all may.

    Raises:
        QuantValueError: An origin is none.
    """

    api_key: str = ""
    metrics_key: str = ""
    origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise QuantValueError(
                    "cors", repr(origin), "'*', or a scheme and a host", "write it as https://example.org"
                )
