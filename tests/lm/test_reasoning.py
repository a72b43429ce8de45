"""Reasoning of answers: split from the text in every public form, and sent through the server both ways."""

from __future__ import annotations

import json

import pytest
from tests.lm.scripted_model import model_of_answers
from tests.lm.server_clients import serve

from intact import lm
from intact.lm.chat.reasoning import FORMS, ReasoningStream
from intact.lm.text_stream import TextStream

httpx = pytest.importorskip("httpx")
ANSWERS = [
    ("<think>why</think>yes", "", "why", "yes"), ("yes", "", "", "yes"), ("<thin", "", "", "<thin"),
    ("  <think>\nwhy\n\n</think>\n\nyes </think> no", "", "why", "yes </think> no"),
    ("why\n</think>\n\nyes", "<think>", "why", "yes"), ("<think>why</think>yes", "<think>", "why", "yes"),
    ("why", "<think>", "why", ""), ("<think>why", "", "why", ""), ("<", "<think>", "<", ""),
    ("plain <think>x</think>", "", "", "plain <think>x</think>"), (" two  spaces ", "", "", " two  spaces "),
    ("<think></think>x", "", "", "x"), ("\n", "", "", "\n"), ("", "", "", ""), ("", "<think>", "", ""),
    ("<think>a < b</think>yes", "", "a < b", "yes"), ("<think>a</thin</think>b", "", "a</thin", "b"),
    ("<think>a</think>\n<response>b\n</response>\n", "", "a", "b"),
    ("<think>a</think><answer>\nb\n</answer>", "", "a", "b"), ("<think>a</think><answ", "", "a", "<answ"),
    ("Here is my thought process: a Here is my response: b", "", "",
     "Here is my thought process: a Here is my response: b"),
]  # fmt: skip


def split(answer: str, size: int, open_mark: str = "", template: str = "") -> tuple[str, str]:
    stream = ReasoningStream(open_mark, template)
    pieces = [answer[start : start + size] for start in range(0, len(answer), size)]
    parts = [*map(stream.push, pieces), stream.finish()]
    return "".join(reasoning for reasoning, _ in parts), "".join(text for _, text in parts)


@pytest.mark.parametrize(("answer", "open_mark", "reasoning", "text"), ANSWERS)
def test_pieces_of_any_size_are_split_alike(answer, open_mark, reasoning, text):
    assert {split(answer, size, open_mark) for size in range(1, len(answer) + 2)} == {(reasoning, text)}


@pytest.mark.parametrize("form", FORMS, ids=[form.begin for form in FORMS])
def test_every_form_is_split(form):
    begin, end = form.around
    answer = f"{form.begin}\nwhy{form.end}{begin}yes{end}"
    for size in (1, 7, 999):
        assert split(answer, size, template=f"... {form.begin} ...") == ("why", "yes")
        assert split(answer.removeprefix(form.begin), size, form.begin) == ("why", "yes")


def test_marks_that_are_special_tokens_are_seen():
    tokenizers = pytest.importorskip("tokenizers")
    words = {"a": 0, "b": 1, "[THINK]": 2, "[/THINK]": 3, "<pad>": 4}
    base = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    base.decoder = tokenizers.decoders.Fuse()
    base.add_special_tokens(["[THINK]", "[/THINK]", "<pad>"])
    tokenizer = lm.Tokenizer(base.to_str(), None, [])
    model = lm.LanguageModel(None, 64, tokenizer, "x")
    assert model.mark_tokens == {2: "[THINK]", 3: "[/THINK]"}
    for marks, text in ((model.mark_tokens, "[THINK]ab[/THINK]ba"), ({}, "abba")):
        stream = TextStream(tokenizer, marks=marks)
        pieces = [stream.push(token) for token in (2, 0, 1, 4, 3, 1, 0)]
        assert "".join(pieces) + stream.finish() == text


THINKING = (
    "{% for m in messages %}{% if m.role == 'user' %}<|{{ m.content }}|>{% else %}"
    "<think>{{ m.reasoning_content }}</think>{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<think>\n' if enable_thinking else '<think>\n\n</think>\n\n' }}"
    "{% endif %}"
)
USER = {"role": "user", "content": "a"}


def test_the_prompt_says_where_the_answer_begins():
    templates = lm.ChatTemplates({"default": THINKING})
    model = lm.LanguageModel(None, 64, None, templates)
    thinks = model.chat_prompt([USER], chat_template_kwargs={"enable_thinking": True})
    plain = model.chat_prompt([USER], chat_template_kwargs={"enable_thinking": False})
    assert lm.split_reasoning("why</think>yes", thinks) == ("why", "yes")
    assert lm.split_reasoning("why</think>yes", plain) == ("", "why</think>yes")
    assert lm.split_reasoning("why</think>yes", str(thinks)) == ("why", "yes")
    goes_on = {"role": "assistant", "content": "yes", "reasoning_content": "why"}
    inside = model.chat_prompt([USER, goes_on], continue_final_message="reasoning_content")
    behind = model.chat_prompt([USER, goes_on], continue_final_message=True)
    assert (inside.open_mark, behind.open_mark) == ("<think>", "")
    other = lm.LanguageModel(None, 64, None, "{% for m in messages %}{{ m.content }}{% endfor %}")
    for content, mark in (("<think>\nwh", "<think>"), ("<think>why</think>y", ""), ("y", "")):
        message = {"role": "assistant", "content": content}
        assert other.chat_prompt([USER, message], continue_final_message=True).open_mark == mark


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    model = model_of_answers(
        tmp_path_factory.mktemp("thinks"),
        {
            "a": "<think>why</think>yes",
            "b": "why</think>yes",
            "c": "yes",
            "d": '<think>a</think>{"name": "f"}',
        },
    )
    template = (
        "{{ tools and '' }}{{ documents and documents[0].text }}{{ reasoning_effort and '' }}"
        "{% if open is defined %}<think>{% endif %}<|{{ messages[-1].content }}|>{{ messages[-1].thinking }}"
    )
    named = {"default": template, "loud": "<|{{ messages[-1].content | lower }}|>"}
    model.templates = lm.ChatTemplates(named, {})
    with serve(model, slots=2) as running:
        yield running


def ask(server, key: str, **more: object) -> tuple[int, dict]:
    body = {"messages": [{"role": "user", "content": key}], "max_tokens": 9, "temperature": 0, **more}
    response = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=600)
    return response.status_code, response.json()


def test_reasoning_is_a_field_of_answers(server):
    status, body = ask(server, "a")
    message = body["choices"][0]["message"]
    assert status == 200 and (message["reasoning_content"], message["content"]) == ("why", "yes")
    assert "reasoning_content" not in ask(server, "c")[1]["choices"][0]["message"]
    tool = {"type": "function", "function": {"name": "f"}}
    message = ask(server, "d", tools=[tool])[1]["choices"][0]["message"]
    assert message["reasoning_content"] == "a" and message["tool_calls"][0]["function"]["name"] == "f"


def test_reasoning_is_streamed(server):
    body = {"messages": [USER], "max_tokens": 9, "temperature": 0, "stream": True}
    response = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=600)
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    for name, text in (("reasoning_content", "why"), ("content", "yes")):
        assert "".join(delta.get(name) or "" for delta in deltas) == text


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"chat_template_kwargs": {"enable_thinking": False}}, "enable_thinking"),
        ({"chat_template_kwargs": 3}, "chat_template_kwargs"), ({"documents": [3]}, "documents"),
        ({"reasoning_effort": "much"}, "reasoning_effort"), ({"chat_template": "{{ 1 }}"}, "chat template"),
        ({"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "x"}}, "reasoning_effort"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt"),
        ({"continue_final_message": 3}, "continue_final_message"),
        ({"chat_template_kwargs": {"messages": []}}, "messages"),
        ({"messages": [USER | {"reasoning": "a", "thinking": "b"}]}, "reasoning_content"),
        ({"messages": [USER | {"nonsense": 1}]}, "nonsense"), ({"messages": [{"role": "user"}]}, "content"),
        ({"messages": [USER | {"tool_calls": [{"function": {"name": "f", "arguments": "1"}}]}]}, "arguments"),
        ({"messages": [USER | {"tool_calls": [{"function": {"name": "f", "x": 1}}]}]}, "function.x"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "type"),
    ],
)  # fmt: skip
def test_settings_that_change_nothing_are_refused_by_name(server, fields, named):
    status, body = ask(server, "a", **fields)
    assert status == 400 and named in body["error"]["message"] + str(body["error"]["param"])


def test_settings_reach_the_template(server):
    for fields in (
        {"reasoning_effort": "low"}, {"documents": [{"text": ""}]}, {"add_generation_prompt": False},
        {"chat_template_kwargs": {"open": True}}, {"chat_template": "loud"},
        {"messages": [USER | {"reasoning_content": "", "name": "Ann"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
    ):  # fmt: skip
        status, body = ask(server, "a", **fields)
        assert status == 200 and body["choices"][0]["message"]["content"] == "yes", body


def test_an_answer_that_follows_a_schema_has_no_reasoning(server):
    pytest.importorskip("llguidance")
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "<think>why</think>yes"}}}
    message = ask(server, "a", response_format=form, max_tokens=60)[1]["choices"][0]["message"]
    assert "reasoning_content" not in message and message["content"].startswith('"<think>')
