"""Tools and penalties of the server, by the package openai."""

from __future__ import annotations

import json

import pytest
from tests.lm.server_clients import open_client, serve, write_text_model

from intact import lm
from intact.lm import chat_template

serving = pytest.importorskip("intact.lm.serving")
pytest.importorskip("tokenizers")

TEMPLATE = (
    "{% if tools %}{% for t in tools %}{{ t.function.name }} {% endfor %}{% endif %}"
    "{% for m in messages %}{{ m.role }} {{ m.content }} {% for c in m.tool_calls or [] %}"
    "{{ c.function.name }} {{ c.function.arguments.b }} {% endfor %}{% endfor %}"
)
USER = [{"role": "user", "content": "x"}]


def tool(name: str, **properties: dict) -> dict:
    """Return a function with whole numbers as arguments."""
    parameters = {
        "type": "object", "properties": properties, "required": list(properties),
        "additionalProperties": False,
    }  # fmt: skip
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
TOOLS = [tool("add", b=DIGIT), tool("sub", c=DIGIT)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_text_model(tmp_path_factory.mktemp("served") / "small")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return lm.load(folder, weights="int4", block=16, threads=1)


@pytest.fixture(scope="module")
def client(model):
    with serve(model, slots=3, chunk=5, max_tokens=100) as server, open_client(server) as opened:
        yield opened


def ask(client, **options):
    return client.chat.completions.create(model="small", messages=USER, max_tokens=90, **options)


def stream_of(pieces: list[str], names=("add", "sub")):
    """Return the text and the calls of an answer in pieces."""
    from intact.lm.serving.tool_calls import ToolCallStream

    stream = ToolCallStream(names)
    parts = [*(stream.push(piece) for piece in pieces), stream.finish()]
    calls = [(call.index, call.name, json.loads(call.arguments)) for _, calls in parts for call in calls]
    return "".join(text for text, _ in parts), calls


ONE = '<tool_call>\n{"name": "add", "arguments": {"b": 3}}\n</tool_call>'
FORMS = [
    (f"hm {ONE}", "hm ", [(0, "add", {"b": 3})]),
    (f"{ONE}\n{ONE.replace('add', 'sub')}", "", [(0, "add", {"b": 3}), (1, "sub", {"b": 3})]),
    (f"{ONE[:-12]}", "", [(0, "add", {"b": 3})]),
    ('{"name": "add", "parameters": {"b": 3}}', "", [(0, "add", {"b": 3})]),
    ('<|python_tag|>{"name": "add", "arguments": "{\\"b\\": 3}"}', "", [(0, "add", {"b": 3})]),
    ('[TOOL_CALLS][{"name": "add", "arguments": {}}, {"name": "sub"}]', "", [(0, "add", {}), (1, "sub", {})]),
    ('{"name": "rm", "arguments": {}}', '{"name": "rm", "arguments": {}}', []),
    ('{"name": "add", "arguments": [1]}', '{"name": "add", "arguments": [1]}', []),
    ('[{"name": "add"}, 3]', '[{"name": "add"}, 3]', []),
    ("<tool_call>{</tool_call> a", "<tool_call>{</tool_call> a", []),
    ("a < b <tool", "a < b <tool", []), ("{ not JSON", "{ not JSON", []), ("  ", "  ", []), ("", "", []),
    ("[" * 5000, "[" * 5000, []),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "text", "calls"), FORMS, ids=[form[0][:40] for form in FORMS])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_calls_of_well_known_forms_leave_the_text(answer, text, calls, size):
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    assert stream_of(pieces) == (text, calls)


def test_text_in_front_of_calls_is_certain_at_once():
    from intact.lm.serving.tool_calls import ToolCallStream

    stream = ToolCallStream(["add"])
    assert stream.push("ab <to")[0] == "ab " and stream.push("p")[0] == "<top"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "sub"}}], ids=["required", "named"]
)
def test_a_call_that_must_come_follows_the_schema(client, choice):
    pytest.importorskip("llguidance")
    for seed in range(3):
        options = {"tools": TOOLS, "tool_choice": choice, "seed": seed}
        answer = ask(client, **options).choices[0]
        (call,) = answer.message.tool_calls
        arguments = json.loads(call.function.arguments)
        assert answer.finish_reason == "tool_calls" and answer.message.content is None
        assert (call.function.name, *arguments) in {("add", "b"), ("sub", "c")}
        assert choice == "required" or call.function.name == "sub"
        chunks = [chunk.choices[0] for chunk in ask(client, stream=True, **options)]
        (delta,) = [c for chunk in chunks for c in chunk.delta.tool_calls or []]
        assert (delta.index, delta.function.name) == (0, call.function.name)
        assert delta.function.arguments == call.function.arguments
        assert chunks[-1].finish_reason == "tool_calls"
        assert not any(chunk.delta.content for chunk in chunks)


def test_a_call_that_is_cut_off_is_text(client):
    pytest.importorskip("llguidance")
    answer = client.chat.completions.create(
        model="small", messages=USER, max_tokens=5, tools=TOOLS, tool_choice="required"
    ).choices[0]
    assert answer.finish_reason == "length" and answer.message.tool_calls is None
    assert answer.message.content.lstrip().startswith("{")


def test_calls_and_their_results_go_through_the_template(model, client):
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"b": 3}'}}
    messages = [
        *USER, {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "y"},
    ]  # fmt: skip
    answer = client.chat.completions.create(
        model="small", messages=messages, max_tokens=7, temperature=0, tools=TOOLS
    ).choices[0]
    prompt = "add sub user x assistant  add 3 tool y "
    assert answer.message.content == model.generate(prompt, max_tokens=7)
    without = client.chat.completions.create(
        model="small", messages=messages, max_tokens=7, temperature=0, tools=TOOLS, tool_choice="none"
    ).choices[0]
    assert without.message.content == model.generate(prompt.removeprefix("add sub "), max_tokens=7)


@pytest.mark.parametrize(
    "change",
    [
        {"tools": {}}, {"tools": [3]}, {"tools": [{"type": "code"}]}, {"tools": [TOOLS[0], TOOLS[0]]},
        {"tools": [tool("a b")]}, {"tools": TOOLS, "tool_choice": "add"}, {"tool_choice": "required"},
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "rm"}}},
        {"tools": TOOLS, "tool_choice": "required", "response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": {"name": "a", "parameters": 3}}]},
        {"tools": [tool(f"f{i}") for i in range(129)]},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_tools_are_errors_of_the_protocol(client, change):
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="small", messages=USER, max_tokens=3, extra_body=change)


def test_models_whose_template_knows_no_tools_refuse_them(model):
    openai = pytest.importorskip("openai")
    plain = lm.LanguageModel(model.engine, model.positions, model.tokenizer, "{{ messages[0].content }}")
    with (
        serve(plain) as server, open_client(server) as client,
        pytest.raises(openai.BadRequestError, match="template"),
    ):  # fmt: skip
        ask(client, tools=TOOLS)


def test_penalties_are_those_of_generate(model, client):
    for options in (
        {"presence_penalty": 1.5}, {"frequency_penalty": -0.7}, {"logit_bias": {"5": 100}},
        {"presence_penalty": 0.4, "frequency_penalty": 0.9, "logit_bias": {"7": -100.0, "8": 2}},
    ):  # fmt: skip
        arguments = {"model": "small", "prompt": "abcabc", "max_tokens": 20, "seed": 3, "temperature": 0.8}
        answer = client.completions.create(**arguments, **options).choices[0].text
        own = options | {"logit_bias": {int(k): v for k, v in options.get("logit_bias", {}).items()}}
        sampling = lm.Sampling(0.8, seed=3, **own)
        assert answer == model.generate("abcabc", max_tokens=20, sampling=sampling)
    always = list(model.generate_tokens("abc", max_tokens=6, sampling=lm.Sampling(logit_bias={5: 1e6})))
    never = lm.Sampling(presence_penalty=1e9)
    different = list(model.generate_tokens("abc", max_tokens=30, sampling=never))
    assert always == [5] * 6 and len(set(different)) == len(different)


def test_templates_write_json_as_transformers_does():
    messages = [{"role": "user", "content": "<é>"}]
    assert chat_template.render_chat("{{ messages[0] | tojson }}", messages) == (
        '{"role": "user", "content": "<é>"}'
    )
    text = chat_template.render_chat("{{ messages | tojson(indent=1) }}", messages)
    assert json.loads(text) == messages and "\n" in text
    assert chat_template.render_chat("{{ tools is none }}", messages, tools=None) == "True"
