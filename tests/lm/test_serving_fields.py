"""Each field of a request is honoured, harmless, or refused by its name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.lm.scripted_model import model_of_answers
from tests.lm.server_clients import open_client, serve, write_text_model

from intact import lm
from intact.errors import QuantValueError
from intact.lm.serving.requests import EMBEDDING_NEUTRAL, HARMLESS, NEUTRAL
from intact.lm.serving.server_limits import ServerAccess
from intact.lm.serving.strict_json import parse_strict

httpx = pytest.importorskip("httpx")
pytest.importorskip("tokenizers")
USER = [{"role": "user", "content": "x"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_text_model(tmp_path_factory.mktemp("served") / "small")
    return lm.load(folder, weights="int4", block=16, threads=1)


@pytest.fixture(scope="module")
def server(model):
    options = {"metrics_key": "count", "origins": ("https://example.org",)}
    with serve(model, access=options, slots=3, chunk=5, max_tokens=100) as running:
        yield running


@pytest.fixture(scope="module")
def post(server):
    with httpx.Client(base_url=server.url, timeout=600) as client:

        def send(path: str = "completions", /, status: int = 200, **body):
            path = path if path.startswith("/") else f"/v1/{path}"
            response = client.post(path, json=body)
            assert response.status_code == status, response.text
            return parse_strict(response.content)

        yield send


def complete(post, **options):
    settings = {"prompt": "abcabc", "max_tokens": 30, "temperature": 0} | options
    return post(**settings)["choices"][0]


def test_harmless_fields_change_nothing(post):
    plain = complete(post)
    values = dict.fromkeys(HARMLESS, "x") | {"metadata": {"a": "b"}, "store": True, "priority": 3}
    assert complete(post, **values) == plain
    assert complete(post, **{name: (*values, None)[0] for name, values in NEUTRAL.items()}) == plain


def test_the_page_names_every_field():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "language-models.md").read_text(encoding="utf-8")
    rows = [
        line
        for line in page.splitlines()
        if line.startswith(("| harmless", "| refused, unless", "| honoured"))
    ]
    for name in (*HARMLESS, *NEUTRAL, *EMBEDDING_NEUTRAL):
        assert any(f"`{name}`" in row for row in rows), name


@pytest.mark.parametrize("name", sorted(set(NEUTRAL) - {"echo"}))
def test_fields_that_nothing_does_are_refused_by_name(post, name):
    for path, body in (("completions", {"prompt": "a"}), ("chat/completions", {"messages": USER})):
        assert name in post(path, 400, **body, **{name: "wanted"})["error"]["message"]


def test_fields_of_embeddings_that_nothing_does_are_refused_by_name(post):
    for name in EMBEDDING_NEUTRAL:
        assert name in post("embeddings", 400, input="a", **{name: "wanted"})["error"]["message"]
    for wrong in ({"dimensions": 3}, {"encoding_format": "hex"}, {"unknown": 1}, {"input": []}):
        assert post("embeddings", 400, **{"input": "a"} | wrong)["error"]["message"]


def test_stop_tokens_end_an_answer_and_are_no_text(post, model):
    tokens = list(model.generate_tokens("abcabc", max_tokens=30))
    end = tokens[4]
    answer = complete(post, stop_token_ids=[end])
    assert answer["finish_reason"] == "stop"
    assert answer["text"] == model.tokenizer.decode(tokens[: tokens.index(end)])
    for wrong in ("3", [-1], ["a"], [True], [64], list(range(129))):
        post(prompt="a", status=400, stop_token_ids=wrong)


def test_end_tokens_are_read_over_where_they_are_to_be(post, model):
    sampling = {"logit_bias": {"1": 100}}
    assert complete(post, **sampling)["text"] == ""
    answer = post(prompt="abcabc", max_tokens=9, temperature=0, ignore_eos=True, **sampling)
    assert answer["usage"]["completion_tokens"] == 9
    assert answer["choices"][0]["finish_reason"] == "length"


def test_an_answer_has_so_many_tokens_before_it_ends(post, model):
    answer = post(prompt="abcabc", max_tokens=20, temperature=0, min_tokens=7, logit_bias={"1": 100})
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["finish_reason"] == "stop"
    text = model.generate("abcabc", max_tokens=20)
    stopped = complete(post, max_tokens=20, stop=[text[1]], min_tokens=5)["text"]
    assert len(stopped) >= 5 and text.startswith(stopped)
    post(prompt="a", status=400, max_tokens=3, min_tokens=4)


@pytest.mark.parametrize("prompt", ["abcabc", [4, 5, 6, 7, 8, 4, 5, 6, 9, 11, 3]], ids=["text", "tokens"])
def test_prompts_are_echoed_with_the_probabilities_of_their_tokens(post, model, prompt):
    ids = model.encode(prompt)
    scores = model.score(prompt)
    text = prompt if isinstance(prompt, str) else model.tokenizer.decode(prompt, special=True)
    for most in (0, 3):
        for logprobs in (0, 2):
            answer = complete(post, prompt=prompt, echo=True, logprobs=logprobs, max_tokens=most)
            record = answer["logprobs"]
            assert answer["finish_reason"] == "length"
            assert answer["text"] == text + (model.generate(prompt, max_tokens=most) if most else "")
            assert len(record["tokens"]) == len(record["top_logprobs"]) == len(ids) + most
            assert "".join(record["tokens"]) == answer["text"]
            assert record["token_logprobs"][0] is record["top_logprobs"][0] is None
            np.testing.assert_allclose(record["token_logprobs"][1 : len(ids)], scores, rtol=1e-12)
            assert record["text_offset"] == [
                len("".join(record["tokens"][:i])) for i in range(len(ids) + most)
            ]
            for token, logprob, top in list(zip(*list(record.values())[:3], strict=True))[1:]:
                assert top[token] == logprob <= max(top.values()) and len(top) in (1, logprobs, logprobs + 1)
    assert complete(post, prompt=prompt, echo=True, max_tokens=1)["text"].startswith(text)
    post(prompt="a", status=400, max_tokens=0)
    post("chat/completions", 400, messages=USER, echo=True)


def test_an_echo_comes_first_in_a_stream(server):
    body = {"prompt": "abc", "max_tokens": 4, "temperature": 0, "echo": True, "logprobs": 1, "stream": True}
    whole = httpx.post(f"{server.url}/v1/completions", json=body | {"stream": False}).json()["choices"][0]
    lines = httpx.post(f"{server.url}/v1/completions", json=body, timeout=600).text.split("\n\n")
    parts = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines if "{" in line]
    assert parts[0]["text"] == "abc" and "".join(part["text"] for part in parts) == whole["text"]
    for name, values in whole["logprobs"].items():
        assert [value for part in parts if part["logprobs"] for value in part["logprobs"][name]] == values


def test_tokens_and_texts_are_turned_into_each_other(post, model):
    tokens = model.encode("abc <end>")
    vllm = post("/tokenize", model="small", prompt="abc <end>", return_token_strs=True)
    assert vllm["tokens"] == tokens and vllm["count"] == len(tokens)
    assert "".join(vllm["token_strs"]) == "abc <end>" and vllm["max_model_len"] == model.positions
    assert post("/tokenize", content="abc <end>")["tokens"] == tokens
    assert [part["id"] for part in post("/tokenize", content="abc", with_pieces=True)["tokens"]] == tokens[:3]
    assert post("/detokenize", tokens=tokens) == {"prompt": "abc <end>", "content": "abc <end>"}
    for path, body in (
        ("/tokenize", {}), ("/tokenize", {"prompt": 3}), ("/tokenize", {"prompt": "a", "unknown": 1}),
        ("/tokenize", {"content": "a", "parse_special": False}), ("/detokenize", {"tokens": [64]}),
        ("/detokenize", {"tokens": "a"}), ("/detokenize", {"tokens": [True]}),
    ):  # fmt: skip
        post(path, 400, **body)
    post("/tokenize", 404, prompt="a", model="other")


def test_pages_of_an_origin_may_ask_and_metrics_have_a_key_of_their_own(server):
    headers = {"origin": "https://example.org", "access-control-request-method": "POST"}
    allowed = httpx.options(f"{server.url}/v1/completions", headers=headers)
    assert allowed.headers["access-control-allow-origin"] == "https://example.org"
    refused = httpx.options(f"{server.url}/v1/completions", headers=headers | {"origin": "https://a.org"})
    assert "access-control-allow-origin" not in refused.headers
    url = f"{server.url}/metrics"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers={"authorization": "Bearer count"}).status_code == 200
    for wrong in ("example.org", "https://", "https://a b", ""):
        with pytest.raises(QuantValueError, match="cors"):
            ServerAccess(origins=(wrong,))


def test_options_of_a_stream_need_one(post):
    post(prompt="a", status=400, stream_options={"include_usage": True})
    post(prompt="a", status=400, stream=True, stream_options={"continuous_usage_stats": True})


SCHEMA = {
    "type": "object", "properties": {"k": {"const": "v"}}, "required": ["k"], "additionalProperties": False
}  # fmt: skip


@pytest.mark.parametrize(
    "form",
    [{"type": "json_object", "schema": SCHEMA}, {"type": "json_schema", "schema": SCHEMA},
     {"type": "json_schema",
      "json_schema": {"name": "a", "strict": True, "description": "b", "schema": SCHEMA}},
     {"type": "json_schema", "json_schema": {"name": "a", "strict": False, "schema": SCHEMA}}],
)  # fmt: skip
def test_schemas_stand_where_clients_put_them(scripts, form):
    choice = ask(scripts, response_format=form)
    assert json.loads(choice["message"]["content"]) == {"k": "v"}


@pytest.mark.parametrize(
    "form",
    [{"type": "json_object", "nonsense": 1}, {"type": "text", "schema": SCHEMA}, {"type": "grammar"},
     {"type": "json_object", "schema": 3}, {"type": "json_schema", "json_schema": {"schema": SCHEMA, "a": 1}},
     {"type": "json_schema", "json_schema": {"name": "a b", "schema": SCHEMA}}, {"type": "json_schema"},
     {"type": "json_schema", "json_schema": {"name": "a", "strict": "yes", "schema": SCHEMA}},
     {"type": "json_object", "schema": SCHEMA | {"uniqueItems": True}}, {}, "json_object"],
)  # fmt: skip
def test_what_is_no_response_format_is_refused(post, form):
    pytest.importorskip("llguidance")
    post("chat/completions", 400, messages=USER, response_format=form)


def call(arguments: str, name: str = "f") -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    pytest.importorskip("llguidance")
    answers = {
        "two": call('{"x": 1}') * 2, "list": f'[{call("{}")[11:-12]}, {call("{}")[11:-12]}]',
        "wrong": call('{"x": "a"}'), "text": "hi", "other": call('{"y": 3}', "g"),
    }  # fmt: skip
    with serve(model_of_answers(tmp_path_factory.mktemp("scripts"), answers)) as running:
        yield running


def ask(server, key: str = "text", status: int = 200, **options):
    body = {"messages": [{"role": "user", "content": key}], "temperature": 0, "max_tokens": 60} | options
    response = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=600)
    assert response.status_code == status, response.text
    return parse_strict(response.content)["choices"][0] if status == 200 else response.text


def tool(parameters: dict, name: str = "f", **options) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": parameters} | options}


@pytest.mark.parametrize("key", ["two", "list"])
def test_one_call_at_most_where_calls_may_not_be_parallel(scripts, key):
    for parallel, count in ((True, 2), (False, 1), (None, 2)):
        choice = ask(scripts, key, tools=[tool({"type": "object"})], parallel_tool_calls=parallel)
        assert len(choice["message"]["tool_calls"]) == count and choice["finish_reason"] == "tool_calls"


INTEGER = {
    "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"],
    "additionalProperties": False,
}  # fmt: skip


def test_strict_tools_get_arguments_of_their_schema_and_others_what_the_model_says(scripts):
    loose = ask(scripts, "wrong", tools=[tool(INTEGER)])["message"]
    assert json.loads(loose["tool_calls"][0]["function"]["arguments"]) == {"x": "a"}
    for key in ("wrong", "two", "text", "other"):
        tools = [tool(INTEGER, strict=True), tool({"type": "object"}, "g", strict=False)]
        message = ask(scripts, key, tools=tools)["message"]
        for tool_call in message.get("tool_calls", []):
            arguments = json.loads(tool_call["function"]["arguments"])
            assert tool_call["function"]["name"] == "g" or isinstance(arguments["x"], int)
    assert ask(scripts, "text", tools=[tool(INTEGER, strict=True)])["message"]["content"] == "hi"
    assert "uniqueItems" in ask(
        scripts, "text", 400, tools=[tool(INTEGER | {"uniqueItems": True}, strict=True)]
    )
    ask(scripts, "text", 400, tools=[tool(INTEGER, strict="yes")])


def test_an_answer_calls_a_tool_or_has_the_form_that_is_asked_for(scripts):
    form = {"type": "json_object", "schema": SCHEMA}
    options = {"tools": [tool({"type": "object"})], "response_format": form}
    message = ask(scripts, "text", logit_bias={str(ord("{")): 5}, **options)["message"]
    assert json.loads(message["content"]) == {"k": "v"}
    assert len(ask(scripts, "two", **options)["message"]["tool_calls"]) == 2


PERSON = {
    "type": "object", "properties": {"who": {"$ref": "#/$defs/P"}}, "required": ["who"],
    "additionalProperties": False,
    "$defs": {"P": {"type": "object", "properties": {"k": {"const": "v"}}, "required": ["k"],
                    "additionalProperties": False}},
}  # fmt: skip


@pytest.mark.parametrize(
    "parameters",
    [PERSON, json.loads(json.dumps(PERSON).replace("$defs", "definitions")),
     PERSON | {"$id": "https://example.org/a", "properties": {"who": {"$ref": "a#/$defs/P"}}},
     PERSON | {"properties": {"who": {"$ref": "#p"}},
               "$defs": {"P": PERSON["$defs"]["P"] | {"$anchor": "p"}}},
     PERSON | {"$schema": "http://json-schema.org/draft-07/schema#"},
     PERSON | {"$defs": {"P": {"$ref": "#/$defs/Q"}, "Q": PERSON["$defs"]["P"]}}],
    ids=["$defs", "definitions", "$id", "$anchor", "draft", "chain"],
)  # fmt: skip
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}], ids=str)
def test_references_of_a_tool_stand_for_its_own_definitions(scripts, parameters, choice):
    other = PERSON | {"$defs": {"P": {"type": "integer"}}, "$id": "https://example.org/a"}
    for tools in ([tool(parameters)], [tool(parameters), tool(other, "g")]):
        (tool_call,) = ask(scripts, tools=tools, tool_choice=choice, max_tokens=200)["message"]["tool_calls"]
        assert tool_call["function"] == {"name": "f", "arguments": '{"who": {"k": "v"}}'}


@pytest.mark.parametrize(
    "reference", ["#/$defs/Q", "#q", "https://example.org/b", "other.json#/a", "#/$defs/P"]
)
def test_references_that_name_nothing_are_refused_by_name(scripts, reference):
    parameters = PERSON | {"properties": {"who": {"$ref": reference}}, "$defs": {"P": {"$ref": "#/$defs/P"}}}
    assert "$ref" in ask(scripts, status=400, tools=[tool(parameters)], tool_choice="required")


def test_a_reference_to_the_root_is_the_parameters_own(scripts):
    tree = {
        "type": "object", "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
        "required": ["next"], "additionalProperties": False,
    }  # fmt: skip
    (tool_call,) = ask(scripts, tools=[tool(tree)], tool_choice="required", logit_bias={"110": 5})["message"][
        "tool_calls"
    ]
    assert json.loads(tool_call["function"]["arguments"]) == {"next": None}


def test_the_openai_package_reads_what_is_echoed(server):
    with open_client(server) as client:
        answer = client.completions.create(
            model="small", prompt="abc", max_tokens=0, echo=True, logprobs=1, temperature=0
        )
        assert answer.choices[0].logprobs.token_logprobs[0] is None
        assert answer.usage.completion_tokens == 0
