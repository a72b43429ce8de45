"""/v1/messages and /v1/responses: answers of chats in other protocols, by the clients of their makers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pytest
from tests.lm.server_clients import open_client, serve, write_text_model
from tests.lm.test_serving_tools import DIGIT, TEMPLATE, tool

from intact import lm

serving = pytest.importorskip("intact.lm.serving")
pytest.importorskip("tokenizers")
httpx = pytest.importorskip("httpx")

from intact.lm.serving.answer_jobs import AnswerPart  # noqa: E402
from intact.lm.serving.protocols.messages_bodies import MessageBodies  # noqa: E402
from intact.lm.serving.protocols.messages_requests import parse_message_request  # noqa: E402
from intact.lm.serving.protocols.responses_bodies import ResponseBodies  # noqa: E402
from intact.lm.serving.protocols.responses_requests import parse_response_request  # noqa: E402
from intact.lm.serving.server_limits import ServerLimits  # noqa: E402
from intact.lm.serving.tool_calls import ToolCall  # noqa: E402

HI = [{"role": "user", "content": "hi"}]
FUNCTION = tool("add", b=DIGIT)["function"]
MESSAGE_TOOL = {"name": "add", "input_schema": FUNCTION["parameters"]}
RESPONSE_TOOL = {"type": "function", **FUNCTION}
LIMITS = ServerLimits()
GREEDY = {"temperature": 0}
"""Anthropic's client has no argument for it any more."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_text_model(tmp_path_factory.mktemp("served") / "small")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return lm.load(folder, weights="int4", block=16, threads=1)


@pytest.fixture(scope="module")
def server(model):
    with serve(model, slots=3, chunk=5, max_tokens=100, api_key="key") as running:
        yield running


@contextmanager
def anthropic_client(server) -> Iterator[Any]:
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=server.url, api_key="key", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def messages(server):
    with anthropic_client(server) as client:
        yield client.messages


@pytest.fixture(scope="module")
def responses(server):
    with open_client(server, "key") as client:
        yield client.responses


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=600, headers={"x-api-key": "key"}) as opened:
        yield opened


def events_of(http, path: str, body: dict) -> list[tuple[str, dict]]:
    """Return the names and the bodies of a stream's events."""
    with http.stream("POST", path, json=body | {"stream": True}) as response:
        assert response.status_code == 200
        lines = [line for line in response.iter_lines() if line]
    names, bodies = lines[::2], [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert [f"event: {body['type']}" for body in bodies] == names
    return [(body["type"], body) for body in bodies]


# ---- /v1/messages


def test_a_message_is_the_answer_of_the_chat_and_says_why_it_ended(model, messages):
    expected = model.chat(HI, max_tokens=8)
    answer = messages.create(model="small", messages=HI, max_tokens=8, extra_body=GREEDY)
    assert [(block.type, block.text) for block in answer.content] == [("text", expected)]
    assert (answer.stop_reason, answer.stop_sequence, answer.usage.output_tokens) == ("max_tokens", None, 8)
    assert answer.usage.input_tokens == messages.count_tokens(model="small", messages=HI).input_tokens
    assert answer.usage.input_tokens == len(model.encode(model.chat_prompt(HI)))


def test_a_stop_sequence_is_named(model, messages):
    word = model.chat(HI, max_tokens=24)[5:7]
    answer = messages.create(
        model="small", messages=HI, max_tokens=24, extra_body=GREEDY, stop_sequences=["\n\n\n", word]
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", word)


def test_a_streamed_message_becomes_the_whole_one(messages, http):
    settings = {"model": "small", "messages": HI, "max_tokens": 12}
    whole = messages.create(**settings, extra_body=GREEDY)
    with messages.stream(**settings, extra_body=GREEDY) as stream:
        streamed = stream.get_final_message()
    assert [block.text for block in streamed.content] == [block.text for block in whole.content]
    assert (streamed.stop_reason, streamed.usage) == (whole.stop_reason, whole.usage)
    names = [
        name for name, _ in groupby(name for name, _ in events_of(http, "/v1/messages", settings | GREEDY))
    ]
    assert names == [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop",
    ]  # fmt: skip


def test_a_tool_is_called_and_its_result_comes_back(model, messages):
    settings = {"model": "small", "max_tokens": 90, "tools": [MESSAGE_TOOL], "tool_choice": {"type": "any"}}
    answer = messages.create(messages=HI, **settings)
    (call,) = answer.content
    assert (answer.stop_reason, call.type, call.name) == ("tool_use", "tool_use", "add")
    assert 0 <= call.input["b"] <= 9
    with messages.stream(messages=HI, **settings) as stream:
        (streamed,) = stream.get_final_message().content
    assert (streamed.name, set(streamed.input)) == ("add", {"b"})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "7"}
    turns = [*HI, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    assert messages.create(messages=turns, **settings).content


def test_messages_are_what_the_template_reads():
    image_free = [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "b", "citations": []},
    ]
    turns = [
        {"role": "user", "content": image_free},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "why", "signature": "s"}, {"type": "text", "text": "look"},
            {"type": "tool_use", "id": "t1", "name": "add", "input": {"b": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "no"}],
             "is_error": True},
            {"type": "text", "text": "again"},
        ]},
        {"role": "user", "content": "please"},
    ]  # fmt: skip
    settings = parse_message_request(
        {"system": [{"type": "text", "text": "be"}], "messages": turns, "max_tokens": 3}, LIMITS
    )

    def texts(*words: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": word} for word in words]

    call = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": {"b": 1}}}
    assert settings.messages == [
        {"role": "system", "content": texts("be")}, {"role": "user", "content": texts("a", "b")},
        {"role": "assistant", "reasoning_content": "why", "content": texts("look"), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": texts("Error:", "no")},
        {"role": "user", "content": texts("again", "please")},
    ]  # fmt: skip
    assert not settings.chat.continue_final_message


def test_an_answer_goes_on_from_a_message_of_the_assistant(model, messages):
    turns = [*HI, {"role": "assistant", "content": "ab"}]
    expected = model.generate(model.chat_prompt(turns, continue_final_message=True), max_tokens=8)
    answer = messages.create(model="small", messages=turns, max_tokens=8, extra_body=GREEDY)
    assert answer.content[0].text == expected


@pytest.mark.parametrize(
    "changed, named",
    [
        ({"max_tokens": None}, "max_tokens"), ({"messages": []}, "messages"), ({"best_of": 2}, "best_of"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "content[0].type"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"), ({"thinking": {"type": "x"}}, "thinking.type"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "tool", "name": "gone"}}, "tool_choice"),
        ({"stop_sequences": [""]}, "stop_sequences"), ({"model": "other"}, "other"),
    ],
)  # fmt: skip
def test_errors_have_the_protocols_form(http, changed, named):
    response = http.post("/v1/messages", json={"messages": HI, "max_tokens": 3} | changed)
    assert 400 <= response.status_code < 500
    body = response.json()
    assert body["type"] == "error" and named in body["error"]["message"]
    assert body["error"]["type"] == ("not_found_error" if "model" in changed else "invalid_request_error")


def test_a_wrong_key_is_refused(http):
    wrong = http.post("/v1/messages", json={}, headers={"x-api-key": "other"})
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (401, "authentication_error")


# ---- /v1/responses


def test_a_response_is_the_answer_of_the_chat(model, responses):
    expected = model.chat([{"role": "system", "content": "be"}, *HI], max_tokens=8)
    settings = {
        "model": "small",
        "instructions": "be",
        "max_output_tokens": 8,
        "temperature": 0,
        "store": False,
    }
    for text in ("hi", HI, [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]):
        answer = responses.create(input=text, **settings)
        assert answer.output_text == expected
        assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert (answer.usage.output_tokens, answer.instructions) == (8, "be")
    likely = responses.create(
        input="hi", include=["message.output_text.logprobs"], top_logprobs=2, **settings
    )
    tokens = likely.output[0].content[0].logprobs
    assert "".join(token.token for token in tokens) == expected
    assert all(token.logprob == token.top_logprobs[0].logprob for token in tokens)


def test_a_streamed_response_becomes_the_whole_one(responses, http):
    form = {"type": "json_schema", "name": "digit", "schema": FUNCTION["parameters"]}
    settings = {"model": "small", "input": "hi", "temperature": 0, "text": {"format": form}}
    whole = responses.create(**settings)
    with responses.stream(**settings) as stream:
        streamed = stream.get_final_response()
    assert (streamed.output_text, streamed.usage) == (whole.output_text, whole.usage)
    events = events_of(http, "/v1/responses", settings)
    assert [body["sequence_number"] for _, body in events] == [*range(len(events))]
    assert [name for name, _ in groupby(name for name, _ in events)] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", "response.output_text.delta", "response.output_text.done",
        "response.content_part.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip


def test_a_function_is_called_and_its_output_comes_back(responses):
    settings = {
        "model": "small",
        "max_output_tokens": 90,
        "tools": [RESPONSE_TOOL],
        "tool_choice": "required",
    }
    answer = responses.create(input="hi", **settings)
    (call,) = answer.output
    assert (answer.status, call.type, call.name) == ("completed", "function_call", "add")
    assert 0 <= json.loads(call.arguments)["b"] <= 9
    with responses.stream(input="hi", **settings) as stream:
        (streamed,) = stream.get_final_response().output
    assert (streamed.name, set(json.loads(streamed.arguments))) == ("add", {"b"})
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "7"}
    assert responses.create(input=[*HI, call.model_dump(), output], **settings).output


def test_a_schema_is_followed(responses):
    form = {"type": "json_schema", "name": "digit", "schema": FUNCTION["parameters"], "strict": True}
    answer = responses.create(model="small", input="hi", max_output_tokens=90, text={"format": form})
    assert 0 <= json.loads(answer.output_text)["b"] <= 9


def test_items_of_one_answer_are_one_message():
    items = [
        {"role": "developer", "content": "be"}, {"role": "user", "content": "a"},
        {"type": "reasoning", "id": "rs", "summary": [],
         "content": [{"type": "reasoning_text", "text": "why"}]},
        {"type": "message", "role": "assistant", "id": "m", "status": "completed",
         "content": [{"type": "output_text", "text": "look", "annotations": []}]},
        {"type": "function_call", "call_id": "t1", "name": "add", "arguments": '{"b": 1}'},
        {"type": "function_call", "call_id": "t2", "name": "add", "arguments": '{"b": 2}'},
        {"type": "function_call_output", "call_id": "t1", "output": "7"},
        {"type": "function_call_output", "call_id": "t2", "output": "8"},
        {"type": "message", "role": "assistant", "content": "done"},
    ]  # fmt: skip
    merged = parse_response_request({"input": items}, LIMITS).answer.messages
    assert [message["role"] for message in merged] == [
        "developer", "user", "assistant", "tool", "tool", "assistant"
    ]  # fmt: skip
    assert merged[2]["reasoning_content"] == "why" and merged[2]["content"][0]["text"] == "look"
    assert [call["id"] for call in merged[2]["tool_calls"]] == ["t1", "t2"]


@pytest.mark.parametrize(
    "changed, named",
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"), ({"background": True}, "background"),
        ({"input": []}, "input"), ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "content[0].type"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"include": ["file_search"]}, "include"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        ({"reasoning": {"effort": "much"}}, "reasoning.effort"), ({"seeds": 3}, "seeds"),
    ],
)  # fmt: skip
def test_fields_that_are_not_used_are_refused_by_name(http, changed, named):
    response = http.post("/v1/responses", json={"input": "hi"} | changed)
    assert response.status_code == 400
    assert named in response.json()["error"]["message"]


# ---- both


PARTS = [
    AnswerPart(0, reasoning="w"), AnswerPart(0, "a", reasoning="hy"), AnswerPart(0, "b"),
    AnswerPart(0, "c", calls=(ToolCall(0, "add", '{"b": 1}'), ToolCall(1, "add", "{}"))),
    AnswerPart(0, "d", end="tool_calls", is_last=True),
]  # fmt: skip


def test_an_answer_of_reasoning_text_and_calls_streams_as_the_whole():
    whole = MessageBodies("m").whole([PARTS], 3, 4)
    assert [block["type"] for block in whole["content"]] == [
        "thinking", "text", "tool_use", "tool_use", "text"
    ]  # fmt: skip
    streamed, blocks = MessageBodies("m"), {}
    grown = [event for part in PARTS for event in streamed.chunk(part)]
    for event in [*streamed.begin(1, 3), *grown, *streamed.end(3, 4)]:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                block["input"] = json.loads(delta["partial_json"])
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
    assert [*blocks.values()] == whole["content"]


def test_the_items_of_a_streamed_response_are_those_of_the_whole_one():
    whole = ResponseBodies("m", {}).whole([PARTS], 3, 4)["output"]
    bodies = ResponseBodies("m", {})
    events = [*bodies.begin(1, 3), *(e for part in PARTS for e in bodies.chunk(part)), *bodies.end(3, 4)]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    ids = [item.pop("id") for item in done]
    assert len(set(ids)) == 5 and [item.pop("id") for item in whole]
    assert done == whole
    assert [item["type"] for item in whole] == [
        "reasoning", "message", "function_call", "function_call", "message"
    ]  # fmt: skip
