"""Clients that treat a server badly: they leave, send too much, damaged or wrong things, or hardly read."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np

Client = tuple[httpx.Client, tuple[str, int], np.random.Generator]
ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings")


def _body(rng: np.random.Generator) -> dict[str, Any]:
    text = "".join(map(chr, rng.integers(97, 123, rng.integers(1, 60))))
    return {
        "prompt": text, "max_tokens": int(rng.integers(1, 50)), "temperature": float(rng.choice([0, 1])),
        "n": int(rng.integers(1, 3)),
    }  # fmt: skip


def _complete(client: Client) -> int:
    return client[0].post(ENDPOINTS[0], json=_body(client[2])).status_code


def _stream(client: Client) -> int:
    with client[0].stream("POST", ENDPOINTS[0], json=_body(client[2]) | {"stream": True}) as response:
        lines = [line for line in response.iter_lines() if line]
        if response.status_code == 200:
            assert lines[-1] == "data: [DONE]"
        return response.status_code


def _chat_by_schema(client: Client) -> int:
    body = {
        "messages": [{"role": "user", "content": "x"}], "max_tokens": 20,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}},
    }  # fmt: skip
    return client[0].post(ENDPOINTS[1], json=body).status_code


def _embed(client: Client) -> int:
    return client[0].post(ENDPOINTS[2], json={"input": [_body(client[2])["prompt"]] * 3}).status_code


def _leave_stream(client: Client) -> int:
    with client[0].stream("POST", ENDPOINTS[0], json=_body(client[2]) | {"stream": True}) as response:
        for _, _line in zip(range(3), response.iter_lines(), strict=False):
            pass
        return response.status_code


def _raw(client: Client, data: bytes, reads: int = 0) -> int:
    """Send bytes, read a few, and leave."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.connect(client[1])
        try:
            connection.sendall(data)
            for _ in range(reads):
                if not connection.recv(16):
                    break
        except ConnectionError:  # the server refused before it had read everything
            pass
    return 0


def _request(body: bytes, length: int | None = None) -> bytes:
    head = f"POST {ENDPOINTS[0]} HTTP/1.1\r\nhost: x\r\ncontent-length: {length or len(body)}\r\n\r\n"
    return head.encode() + body


def _leave_at_once(client: Client) -> int:
    return _raw(client, _request(json.dumps(_body(client[2])).encode()))


def _leave_within_body(client: Client) -> int:
    return _raw(client, _request(b'{"prompt":', 1000))


def _read_slowly(client: Client) -> int:
    return _raw(client, _request(json.dumps(_body(client[2]) | {"stream": True}).encode()), 40)


def _send_rubbish(client: Client) -> int:
    return _raw(client, b"\0 \r\n\r\n" + client[2].bytes(300), 3)


def _send_much(client: Client) -> int:
    return client[0].post(ENDPOINTS[0], content=b"x" * 2**21).status_code


def _send_damaged(client: Client) -> int:
    text = bytearray(json.dumps(_body(client[2])).encode())
    for place in client[2].integers(0, len(text), 4):
        text[place] = client[2].integers(0, 256)
    return client[0].post(str(client[2].choice(ENDPOINTS)), content=bytes(text)).status_code


def _send_wrong(client: Client) -> int:
    rng = client[2]
    values = [
        None,
        True,
        -1,
        1e308,
        10**40,
        "",
        "\ud800",
        [],
        {},
        [[]],
        ["a"] * 5000,
        [1] * 90_000,
        {"a": {}},
    ]
    names = ["prompt", "messages", "input", "max_tokens", "n", "stop", "stream", "response_format", "seed"]
    body = _body(rng) | {str(rng.choice(names)): values[rng.integers(len(values))]}
    return client[0].post(str(rng.choice(ENDPOINTS)), content=json.dumps(body)).status_code


ACTIONS: list[Callable[[Client], int]] = [
    _complete, _stream, _chat_by_schema, _embed, _leave_stream, _leave_at_once, _leave_within_body,
    _read_slowly, _send_rubbish, _send_much, _send_damaged, _send_wrong,
]  # fmt: skip


def flood(server: Any, clients: int, rounds: int, seed: int = 0) -> Counter[tuple[str, int]]:
    """Let clients do random things; return how often each action had each status (0: none was read)."""
    statuses: Counter[tuple[str, int]] = Counter()
    errors: list[BaseException] = []

    def act(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        try:
            with httpx.Client(base_url=server.url, timeout=120) as session:
                for _ in range(rounds):
                    action = ACTIONS[rng.integers(len(ACTIONS))]
                    statuses[action.__name__, action((session, (server.host, server.port), rng))] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return statuses
