"""Mutated answers of a model and mutated requests: whatever comes, there is an answer of strict JSON.

    python -m tests.lm.server_fuzz --count 100000 [--seed 0] [--only answers]

Nothing goes over sockets: answers go through `AnswerJob` and the bodies of responses, requests through the
application itself, with a model of 64 tokens behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from intact import lm
from intact.lm.chat.reasoning import ReasoningStream
from intact.lm.serving.answer_bodies import AnswerFormat
from intact.lm.serving.answer_jobs import AnswerJob, AnswerPart
from intact.lm.serving.protocols.messages_bodies import MessageBodies
from intact.lm.serving.protocols.responses_bodies import ResponseBodies
from intact.lm.serving.requests import EMBEDDING_NEUTRAL, HARMLESS, NEUTRAL
from intact.lm.serving.server_app import ServerApp
from intact.lm.serving.server_limits import ServerLimits
from intact.lm.serving.strict_json import encode_strict, parse_strict
from intact.lm.serving.tool_calls import ToolCallStream

NAMES = ("f", "get_weather", "__proto__")
PIECES = (
    "<tool_call>", "</tool_call>", "<tool_call", "[TOOL_CALLS]", "<|python_tag|>", "<think>", "</think>",
    "{", "}",
    "[", "]", ",", ":", '"', "\\", "\n", " ", '"name"', '"arguments"', '"parameters"', '"f"',
    '"get_weather"', "NaN",
    "Infinity", "-Infinity", "1e999", "1e-999", "-0", "9" * 400, "null", "true", '"\\ud83d"',
    '"\\ude00\\ud83d"',
    "\U0001f600", "\ufffd", "\0", "\u2028", '{"x": 1}', '"{\\"x\\": 1}"', "{}", "[" * 300, '{"a":' * 200,
    "</s>",
    '{"name": "f", "arguments": {"x": 1}}', '{"name": ["f"], "arguments": {}}', '{"name": "f", "name": "g"}',
    '<tool_call>\n{"name": "f", "arguments": {"x": "</tool_call>"}}\n</tool_call>', "text ", "a < b",
)  # fmt: skip
"""Parts of answers that parsers of calls trip over."""

MUTE: Any = SimpleNamespace(decode_behind=lambda tokens, **options: "")
"""A tokenizer that no token comes to."""

CALLS = tuple(
    f"<tool_call>{blank}{body}{blank}</tool_call>{blank}"
    for blank in ("", "\n", " \t")
    for body in ('{"name": "f", "arguments": {"x": [1, {"y": "</tool_call>"}]}}', '{"name": "get_weather"}',
                 '{"name": "f", "parameters": "{}"}', '[{"name": "f"}, {"name": "f", "arguments": null}]')
)  # fmt: skip
"""Calls that are whole."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**40, 0.5, -0.0, 1e-320, 1e308, -1e308, "", "a",
    "abc" * 50,
    "\0", "\ud800", "\U0001f600", "auto", "none", "required", "text", "function", [], [[]], [None], ["a"],
    ["a", 1],
    [1, 2], [-1], [64], [True], {}, {"a": 1}, {"type": "text"}, {"type": "function"}, {"type": "json_object"},
    {"": None}, [{}], [{"role": "user", "content": "x"}], {"5": 100, "6": -100}, {"include_usage": True},
)  # fmt: skip
"""Values that any field may get."""

SCHEMAS: tuple[Any, ...] = (
    {"type": "object"}, {"type": "array", "items": {"$ref": "#"}}, {"enum": [1, "a", None, [1], {"a": 2}]},
    {"type": "string", "pattern": "^[a-c]{2}$"}, {"pattern": "((("}, {"type": "banana"}, {"not": {}},
    {"$ref": "#"},
    {"type": "integer", "minimum": 3, "maximum": 5}, {"maxItems": 10**9, "type": "array"}, {"$defs": 3},
    {"$id": 5},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"const": "c"}}},
    {"anyOf": [{"type": "null"}, {"type": "boolean"}]}, {"oneOf": [{}, {}]}, {"format": "date",
    "type": "string"},
    {"properties": {"__proto__": {}}, "required": ["__proto__"]}, {"minimum": 1e400},
    {"x-guidance": {"lenient": 1}},
)  # fmt: skip

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}, "strict": False}}
    for name in NAMES
]
COMPLETION = {
    "model": "small", "prompt": "abc", "max_tokens": 3, "temperature": 0.5, "top_p": 0.9, "n": 1,
    "stop": ["q"],
    "seed": 3, "logprobs": 1, "echo": True, "stream": False, "logit_bias": {"5": 1}, "min_tokens": 1,
    "stop_token_ids": [9], "ignore_eos": False, "best_of": 1, "presence_penalty": 0.1,
    "frequency_penalty": 0.1, "repetition_penalty": 1.1, "top_k": 5, "min_p": 0.01,
}  # fmt: skip
CHAT = {
    "model": "small", "messages": [{"role": "user", "content": [{"type": "text", "text": "ab"}]}],
    "max_tokens": 3,
    "tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"},
    "logprobs": True, "top_logprobs": 2, "stream": False, "temperature": 0, "add_generation_prompt": True,
    "stream_options": None,
}  # fmt: skip
MESSAGE = {
    "model": "small", "max_tokens": 3, "system": [{"type": "text", "text": "be"}], "stop_sequences": ["q"],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "ab"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "7"}]},
    ],
    "tools": [{"name": name, "input_schema": {"type": "object"}} for name in NAMES],
    "tool_choice": {"type": "auto"}, "thinking": {"type": "disabled"}, "temperature": 0, "stream": False,
}  # fmt: skip
RESPONSE = {
    "model": "small", "max_output_tokens": 3, "instructions": "be", "parallel_tool_calls": True,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "ab"}]},
        {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t", "output": "7"},
    ],
    "tools": [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in NAMES],
    "tool_choice": "auto", "text": {"format": {"type": "text"}}, "include": [], "temperature": 0,
    "reasoning": {"summary": "auto"}, "truncation": "disabled", "stream": False, "top_logprobs": 1,
}  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": COMPLETION, "/v1/chat/completions": CHAT, "/v1/messages": MESSAGE,
    "/v1/responses": RESPONSE,
    "/v1/embeddings": {"model": "small", "input": ["abc", [4, 5]], "encoding_format": "float", "user": "u"},
    "/tokenize": {"prompt": "abc", "add_special_tokens": True, "return_token_strs": True},
    "/detokenize": {"tokens": [4, 5, 6]},
}  # fmt: skip
TEMPLATE = (
    "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}"
    "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
)
FIELDS = sorted(
    {
        *COMPLETION,
        *CHAT,
        *MESSAGE,
        *RESPONSE,
        *HARMLESS,
        *NEUTRAL,
        *EMBEDDING_NEUTRAL,
        "input",
        "dimensions",
        "unknown",
    }
)


def draw_answer(rng: random.Random) -> str:
    """Return an answer of pieces, or a few calls, some of them damaged."""
    pieces = rng.choice((PIECES, CALLS))
    text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 10)))
    for _ in range(rng.choice((0, 0, 1, 3))):
        at = rng.randrange(len(text) + 1)
        letter = chr(rng.randrange(0xD7FF))
        text = rng.choice((text[:at], text[at:], text[:at] + letter + text[at + 1 :],
                           text[:at] + rng.choice(PIECES) + text[at:]))  # fmt: skip
    return text


def check_answer(rng: random.Random, is_chat: bool = True) -> int:
    """Send one answer in pieces through a job and the bodies of responses; return the calls of it."""
    text, parts = draw_answer(rng), list[AnswerPart]()
    calls = ToolCallStream(NAMES, rng.choice((None, None, 1)))
    reasoning = rng.choice((None, ReasoningStream("", ""), ReasoningStream("<think>", "<think></think>")))
    job: Any = AnswerJob(
        [1], None, MUTE, (), index=0, logprobs=None, post=parts.append, calls=calls, reasoning=reasoning
    )  # fmt: skip
    while text:
        size = rng.choice((1, 3, 20, 1000))
        job.emit(text[:size], None, None)
        text = text[size:]
    job.end = rng.choice(("stop", "length"))
    job.on_close()
    form = AnswerFormat("small", is_chat, 0)
    for body in (form.whole([parts], 0, 0), *(body for part in parts for body in form.chunk(part))):
        assert parse_strict(encode_strict(body))["choices"]
    for make in (MessageBodies, partial(ResponseBodies, echoed={})):
        whole, streamed = make("small").whole([parts], 1, 2), make("small")
        chunks = [body for part in parts for body in streamed.chunk(part)]
        *_, last = [*streamed.begin(1, 1), *chunks, *streamed.end(1, 2)]
        assert parse_strict(encode_strict([whole, chunks, last]))
    assert parts[-1].is_last and parts[-1].error is None
    for call in (call for part in parts for call in part.calls):
        assert call.name in NAMES and isinstance(parse_strict(call.arguments), dict)
    return sum(len(part.calls) for part in parts)


def mutate(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """Return a value with one place changed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        record = dict(value)
        if rng.random() < 0.1:
            del record[name]
        else:
            record[name] = mutate(value[name], rng, depth + 1)
        return record
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [mutate(part, rng, depth + 1) if at == place else part for at, part in enumerate(value)]
    return rng.choice(VALUES)


def draw_request(rng: random.Random) -> tuple[str, bytes]:
    """Return a path and a body: a valid one with some places changed, or with bytes damaged."""
    path = rng.choice(list(BODIES))
    names = rng.sample(list(BODIES[path]), rng.randint(1, len(BODIES[path])))
    body = {name: BODIES[path][name] for name in {*names, *list(BODIES[path])[:2]}}
    body["stream"] = rng.random() < 0.3 if path in ("/v1/completions", "/v1/chat/completions") else None
    for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
        body = mutate(body, rng)
        if not isinstance(body, dict):
            break
        body = dict(body)  # no value of the table is changed
        if rng.random() < 0.3:
            body[rng.choice(FIELDS)] = rng.choice(VALUES)
        if rng.random() < 0.15:
            schema = {"name": "a", "schema": rng.choice(SCHEMAS)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if rng.random() < 0.15 and path == "/v1/chat/completions":
            function = {"name": "f", "parameters": rng.choice(SCHEMAS), "strict": rng.random() < 0.5}
            body |= {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
    data = bytearray(json.dumps(body).encode())
    if rng.random() < 0.15:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return path, bytes(data)


async def ask(app: Any, path: str, body: bytes) -> tuple[int, bytes]:
    """Send one request to an ASGI application; return status and body."""
    sent, never, status, parts = [body], asyncio.Event(), 0, list[bytes]()

    async def receive() -> dict[str, Any]:
        if sent:
            return {"type": "http.request", "body": sent.pop(), "more_body": False}
        await never.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http", "headers": [],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    async with asyncio.timeout(600):
        await app(scope, receive, send)
    return status, b"".join(parts)


def check_response(status: int, body: bytes) -> None:
    """Hold a response to what every one is: no fault of the server, and strict JSON."""
    assert 200 <= status < 500, (status, body[:500])
    if not body.startswith((b"data: ", b"event: ")):
        assert isinstance(parse_strict(body), dict)
        return
    events = body.removesuffix(b"\n\n").split(b"\n\n")
    if body.startswith(b"data: "):
        assert events.pop() == b"data: [DONE]"
    for event in events:
        name, _, data = event.rpartition(b"data: ")
        record = parse_strict(data)
        assert name == (f"event: {record['type']}\n".encode() if "type" in record else b"")
        error = record.get("error") or (record.get("response") or {}).get("error") or {}
        assert error.get("type") not in ("server_error", "api_error"), record
        assert error.get("code") != "server_error", record


async def ask_all(app: Any, count: int, seed: int, clients: int) -> Counter[tuple[str, int]]:
    """Let clients send requests; return how often each path had each status."""
    statuses: Counter[tuple[str, int]] = Counter()

    async def act(number: int) -> None:
        for place in range(number, count, clients):
            path, body = draw_request(random.Random(f"{seed} {place}"))
            try:
                status, answer = await ask(app, path, body)
                check_response(status, answer)
            except BaseException:
                print(f"request {place} of seed {seed}:", path, body)
                raise
            statuses[path, status] += 1

    await asyncio.gather(*(act(number) for number in range(clients)))
    return statuses


def fuzz_requests(
    model: lm.LanguageModel, count: int, seed: int, clients: int = 6
) -> Counter[tuple[str, int]]:
    """Send mutated requests to the application of a model; return how often each path had each status."""
    limits = ServerLimits(slots=3, max_tokens=40, default_tokens=4, chunk=16)
    server = ServerApp(model, "small", limits)
    server.engine.start()
    try:
        return asyncio.run(ask_all(server.routes(), count, seed, clients))
    finally:
        server.stop()


def fuzz_answers(count: int, seed: int) -> int:
    """Check mutated answers; return how many calls were in them."""
    total = 0
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        try:
            total += check_answer(rng)
        except BaseException:
            print(f"answer {number} of seed {seed}:", draw_answer(random.Random(f"{seed} {number}")))
            raise
    return total


def main() -> None:
    """Run as many of both as the command line says."""
    from tests.lm.server_clients import write_text_model

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("answers", "requests"))
    options = parser.parse_args()
    start = time.perf_counter()
    if options.only != "requests":
        calls = fuzz_answers(options.count, options.seed)
        print(f"{options.count} answers, {calls} calls, {time.perf_counter() - start:.0f} s", flush=True)
    if options.only == "answers":
        return
    with tempfile.TemporaryDirectory() as folder:
        path = write_text_model(Path(folder) / "small")
        (path / "chat_template.jinja").write_text(TEMPLATE)
        model = lm.load(path, weights="int4", block=16, threads=1)
        start = time.perf_counter()
        statuses = fuzz_requests(model, options.count, options.seed)
        print(
            f"{options.count} requests, {time.perf_counter() - start:.0f} s:", dict(sorted(statuses.items()))
        )


if __name__ == "__main__":
    main()
