"""Chat templates: what they read and write, where they stand, and the forms of messages that they show."""

from __future__ import annotations

import json
from datetime import datetime
from types import SimpleNamespace

import pytest

from intact import lm
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.formats.metadata_fields import MetadataFields
from intact.lm.chat.chat_prompt import chat_prompt
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.chat_template import render_chat, template_reads
from intact.lm.description.chat_templates import folder_chat_templates, gguf_chat_templates
from intact.lm.description.model_files import ModelFiles

pytest.importorskip("jinja2")

USER = {"role": "user", "content": "hi"}
PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
PARTS = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}"
)
ONLY_PARTS = "{% for m in messages %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endfor %}"
CALLS = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}:{{ ARGUMENTS }};{% endfor %}{% endfor %}{{ tools and '' }}"
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def prompt_of(template: str, messages: list, **settings: object) -> str:
    return str(chat_prompt(ChatTemplates({"default": template}, {"eos_token": "</s>"}), messages, **settings))


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ strftime_now('%d %B %Y, %H:%M:%S') }}", "09 March 2025, 08:07:06"),
        ("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", "hi"),
        ("{%- generation -%} a {%- endgeneration -%} b", "ab"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{{ {'b': '<é>', 'a': 1} | tojson }}", '{"b": "<é>", "a": 1}'),
        ("{{ {'b': 'é', 'a': 1} | tojson(ensure_ascii=True, sort_keys=True) }}", '{"a": 1, "b": "\\u00e9"}'),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}{{ [1] | tojson(indent=1) }}", "[1,2][\n 1\n]"),
        ("{{ dict(a=1) }}{{ dict.fromkeys('ab', 0) }}", "{'a': 1}{'a': 0, 'b': 0}"),
        ("{% set n = namespace(a=1) %}{% for i in [4] %}{% set n.a = i %}{% endfor %}{{ n.a }}", "4"),
        ("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", "TrueTrueTrue"),
        ("  {% if true %}\n  x\n  {% endif %}\ny", "  x\ny"),
    ],
)  # fmt: skip
def test_templates_have_what_transformers_gives_them(template, text):
    assert render_chat(template, [USER], now=datetime(2025, 3, 9, 8, 7, 6)) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('no') }}", "{% set n = namespace(_a=1) %}", "{% generation %}", "{{ x.y }}",
        "{% set n = namespace() %}{% set n._a = 1 %}", "{{ dict.__class__.x }}", "{{ messages.append(1) }}",
        "{{ 'a' + missing }}", "{% for i in range(10**9) %}{% endfor %}", "{{ strftime_now(1) }}",
        "{{ strftime_now.__globals__.x }}", "{{ raise_exception.__globals__.x }}",
        "{{ namespace.__init__.__globals__ }}",
    ],
)  # fmt: skip
def test_templates_that_reach_too_far_are_refused(template):
    with pytest.raises(QuantValueError, match="chat template"):
        render_chat(template, [USER])


def test_templates_name_what_they_read():
    reads = template_reads("{% set x = 1 %}{% if tools %}{{ m['a'] }}{{ m.b + x }}{% endif %}{{ 'c' in m }}")
    assert reads.variables == {"tools", "m"} and reads.names >= {"a", "b", "c"}


ANSWER = {"role": "assistant", "content": "One, two"}
ENDS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"


@pytest.mark.parametrize(
    ("template", "message", "field", "text"),
    [
        (ENDS, ANSWER, True, "[user]hi</s>[assistant]One, two"),
        (ENDS, ANSWER | {"content": "One "}, True, "[user]hi</s>[assistant]One "),
        (ENDS.replace("m.content", "m.content | trim"), ANSWER | {"content": "One "}, True,
         "[user]hi</s>[assistant]One"),
        (PARTS, ANSWER | {"content": [{"type": "text", "text": "One"}]}, True, "[user]hi[assistant](One"),
        (ENDS + "{{ messages[-1].reasoning_content }}", ANSWER | {"thinking": "Hm"}, "reasoning_content",
         "[user]hi</s>[assistant]One, two</s>Hm"),
    ],
)  # fmt: skip
def test_a_prompt_goes_on_behind_the_last_message(template, message, field, text):
    assert prompt_of(template, [USER, message], continue_final_message=field) == text


@pytest.mark.parametrize(
    ("template", "message", "settings"),
    [
        ("x", ANSWER, {}), (ENDS, {"role": "assistant", "reasoning_content": "a"}, {}),
        (ENDS, ANSWER, {"add_generation_prompt": True}), ("{{ messages[0].content }}", ANSWER, {}),
        (ENDS, ANSWER, {"continue_final_message": "other"}),
    ],
)  # fmt: skip
def test_a_message_that_cannot_go_on_is_refused(template, message, settings):
    with pytest.raises(QuantValueError, match="continue_final_message"):
        prompt_of(template, [USER, message], **{"continue_final_message": True, **settings})


@pytest.mark.parametrize(
    ("template", "content", "text"),
    [
        (PLAIN, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "[user]a\nb"),
        (PLAIN, ["a", "b"], "[user]a\nb"),
        (PARTS, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "[user](a)(b)"),
        (PARTS, "a", "[user]a"), (ONLY_PARTS, "a", "(a)"),
        (ONLY_PARTS, [{"type": "text", "text": "a"}], "(a)"), (PLAIN, [], "[user]"),
    ],
)  # fmt: skip
def test_contents_have_the_form_that_the_template_shows(template, content, text):
    assert prompt_of(template, [{"role": "user", "content": content}]) == text


@pytest.mark.parametrize("arguments", ['{"a": "é"}', {"a": "é"}])
@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("c.function.arguments | tojson", '{"a": "é"}'), ("c.function.arguments.a", "é"),
        ("'' + c.function.arguments", '{"a": "é"}'), ("c.function.arguments", '{"a": "é"}'),
    ],
)  # fmt: skip
def test_arguments_of_calls_have_the_form_that_the_template_shows(arguments, shown, text):
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    template = CALLS.replace("ARGUMENTS", f"({shown})" if "|" in shown else shown)
    assert prompt_of(template, messages, tools=[TOOL]) == f"[user]hi[assistant]f:{text};"


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}])
@pytest.mark.parametrize("test", ["is none", "is not defined", "== ''"])
def test_calls_are_shown_whatever_their_message_has_as_content(content, test):
    template = (
        f"{{% for m in messages %}}{{% if m.role == 'assistant' and m.content {test} %}}"
        "{{ m.tool_calls[0].function.arguments | tojson }}{% else %}{{ m.content + '.' }}{% endif %}"
        "{% endfor %}"
    )
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": "b"}'}}
    assert (
        prompt_of(template, [USER, {"role": "assistant", "tool_calls": [call], **content}]) == 'hi.{"a": "b"}'
    )


def test_reasoning_comes_by_every_name_that_templates_read():
    template = "{{ messages[0].reasoning_content }} {{ messages[0].thinking }}"
    for name in ("reasoning_content", "reasoning", "thinking"):
        assert prompt_of(template, [{"role": "assistant", "content": "x", name: "why"}]) == "why why"


def test_messages_of_developers_are_those_of_the_system_where_the_template_loses_them():
    messages = [{"role": "developer", "content": "a"}, USER]
    assert prompt_of(PLAIN, messages) == "[developer]a[user]hi"  # as in transformers
    deaf = PLAIN.replace("{{ m.content }}", "{% if m.role != 'developer' %}{{ m.content }}{% endif %}")
    strict = "{% for m in messages %}{{ {'system': 'S', 'user': 'U'}[m.role] + m.content }}{% endfor %}"
    assert prompt_of(deaf, messages) == "[system]a[user]hi"
    assert prompt_of(strict, messages) == "SaUhi"


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ([USER | {"weight": 1}], r"messages\[0\]\.weight"), ([{"content": "a"}], r"messages\[0\]\.role"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "image_url"), (["hi"], r"messages\[0\]"),
        ([{"role": "user", "content": 3}], "content"), ([], "messages"),
        ([USER | {"content": [{"type": "text", "text": "a", "cache": 1}]}], "cache"),
        ([USER | {"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}], "arguments"),
        ([USER | {"tool_calls": [{"function": {"arguments": "{}"}}]}], "function"),
        ([USER | {"thinking": ["a"]}], "thinking"), ([USER | {"audio": {"id": 1}}], "audio"),
        ([USER | {"content": object()}], "content"),
    ],
)  # fmt: skip
def test_messages_that_nobody_reads_are_refused_by_name(messages, named):
    with pytest.raises(QuantValueError, match=named):
        prompt_of(PLAIN, messages)
    assert prompt_of(PLAIN + "{{ messages[0].weight }}", [USER | {"weight": 1}]) == "[user]hi1"
    assert prompt_of(PLAIN, [USER | {"audio": None, "refusal": None, "annotations": []}]) == "[user]hi"


def test_objects_of_clients_are_messages():
    endless: dict = {"role": "user"}
    endless["content"] = [endless]
    with pytest.raises(QuantValueError, match="too deep"):
        prompt_of(PLAIN, [endless])
    message = SimpleNamespace(model_dump=lambda: {"role": "user", "content": "hi", "refusal": None})
    assert prompt_of(PLAIN, [message]) == "[user]hi"


def test_settings_that_the_template_does_not_read_are_refused_by_name():
    for name, settings in (
        ("tools", {"tools": [TOOL]}), ("documents", {"documents": [{"text": "a"}]}),
        ("chat_template_kwargs.enable_thinking", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("chat_template_kwargs.tools", {"chat_template_kwargs": {"tools": []}}),
    ):  # fmt: skip
        with pytest.raises(QuantValueError, match=name):
            prompt_of(PLAIN, [USER], **settings)
    reading = "{{ tools | length }}{{ documents[0].text }}{{ enable_thinking }}{{ eos_token }}"
    settings = {"enable_thinking": False, "eos_token": "<e>"}
    text = prompt_of(reading, [USER], tools=[TOOL], documents=[{"text": "a"}], chat_template_kwargs=settings)
    assert text == "1aFalse<e>"


def test_tools_get_an_empty_description_where_the_template_needs_one():
    assert prompt_of("{{ tools | tojson }}", [USER], tools=[TOOL]) == json.dumps([TOOL])
    text = "{% for t in tools %}{{ t.function.name + t.function.description }}{% endfor %}"
    assert prompt_of(text, [USER], tools=[TOOL]) == "f"


def test_templates_are_picked_by_name():
    templates = ChatTemplates({"default": "d", "tool_use": "{{ tools and 't' }}", "rag": "r"})
    assert chat_prompt(templates, [USER]) == "d" and chat_prompt(templates, [USER], tools=[TOOL]) == "t"
    assert chat_prompt(templates, [USER], template="rag") == "r"
    with pytest.raises(QuantValueError, match="rag"):
        chat_prompt(templates, [USER], template="other")
    with pytest.raises(QuantValueError, match="name the template"):
        chat_prompt(ChatTemplates({"rag": "r"}), [USER])
    with pytest.raises(QuantValueError, match="no chat template"):
        chat_prompt(ChatTemplates(), [USER])


MORE = "additional_chat_templates"
NAMED = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]


@pytest.mark.parametrize(
    ("files", "templates"),
    [
        ({}, {}), ({"tokenizer_config.json": {"chat_template": "a"}}, {"default": "a"}),
        ({"tokenizer_config.json": {"chat_template": NAMED}}, {"default": "a", "tool_use": "b"}),
        ({"tokenizer_config.json": {"chat_template": "a"}, "chat_template.jinja": "c"}, {"default": "c"}),
        ({"chat_template.jinja": "c", f"{MORE}/rag.jinja": "r"}, {"default": "c", "rag": "r"}),
        ({"tokenizer_config.json": {"chat_template": NAMED}, f"{MORE}/x.jinja": "x"}, {"x": "x"}),
        ({"chat_template.json": {"chat_template": "p"}}, {"default": "p"}),
        ({"tokenizer_config.json": {"chat_template": "a"}, "chat_template.json": {"chat_template": "p"}},
         {"default": "a"}),
        ({"processor_config.json": {"chat_template": "p"}}, {"default": "p"}),
    ],
)  # fmt: skip
def test_folders_have_the_templates_that_transformers_takes(files, templates, tmp_path):
    templates_read = folder_chat_templates(ModelFiles(write_files(tmp_path, files)), "llama")
    assert templates_read.templates == templates and set(templates_read.origins) == set(templates)
    if len(files) > 1 and templates == {"default": "c"}:
        assert templates_read.origins["default"] == (
            "chat_template.jinja, not tokenizer_config.json: chat_template"
        )


@pytest.mark.parametrize("value", [3, ["a"], [{"name": "default"}], {"default": 3}])
def test_damaged_templates_are_refused(value, tmp_path):
    with pytest.raises(FileFormatError, match="chat_template"):
        folder_chat_templates(
            ModelFiles(write_files(tmp_path, {"tokenizer_config.json": {"chat_template": value}})), ""
        )


@pytest.mark.parametrize(
    ("files", "family", "texts"),
    [
        ({"tokenizer_config.json": {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": None}},
         "llama", {"bos_token": "<s>", "eos_token": "</s>"}),
        ({"tokenizer_config.json": {"eos_token": "a"},
          "special_tokens_map.json": {"eos_token": {"content": "b"}}}, "llama", {"eos_token": "b"}),
        ({"tokenizer_config.json": {"eos_token": "a", "added_tokens_decoder": {}},
          "special_tokens_map.json": {"eos_token": "b"}}, "llama", {"eos_token": "a"}),
        ({}, "qwen2", dict.fromkeys(("unk_token", "eos_token", "pad_token"), "<|endoftext|>")),
        ({"tokenizer_config.json": {"tokenizer_class": "GPT2TokenizerFast", "unk_token": None}}, "smollm3",
         {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}),
        ({"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}}, "granite", {}), ({}, "llama", {}),
    ],
)  # fmt: skip
def test_folders_have_the_special_tokens_that_transformers_takes(files, family, texts, tmp_path):
    assert folder_chat_templates(ModelFiles(write_files(tmp_path, files)), family).variables == texts


def write_files(folder, files):
    for name, contents in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents))
    return folder


def test_gguf_files_have_named_templates_and_texts_of_tokens():
    keys = {
        "tokenizer.chat_template": "d", "tokenizer.chat_template.tool_use": "t",
        "tokenizer.chat_templates": ["tool_use"], "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": ["a", "<s>", "</s>"], "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }  # fmt: skip
    templates_read = gguf_chat_templates(MetadataFields(keys, "small.gguf"))
    assert templates_read.templates == {"default": "d", "tool_use": "t"}
    assert templates_read.variables == {"bos_token": "<s>", "eos_token": "</s>"}
    pieces = keys | {"tokenizer.ggml.model": "llama"}
    del pieces["tokenizer.ggml.eos_token_id"]
    assert gguf_chat_templates(MetadataFields(pieces, "small.gguf")).variables["eos_token"] == "</s>"
    for damage in (
        {"tokenizer.ggml.eos_token_id": 3}, {"tokenizer.chat_template": 3},
        {"tokenizer.chat_templates": ["tool_use", "rag"]},
    ):  # fmt: skip
        with pytest.raises((FileFormatError, UnsupportedError)):
            gguf_chat_templates(MetadataFields(keys | damage, "small.gguf"))


def test_a_text_as_template_has_the_special_tokens_of_the_tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "<s>": 1, "</s>": 2}, [])).to_str()
    template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    assert (
        lm.LanguageModel(None, 64, lm.Tokenizer(words, 1, [2]), template).chat_prompt([USER]) == "<s>hi</s>"
    )
    assert lm.LanguageModel(None, 64, None, template).chat_prompt([USER]) == "hi"


def test_saved_folders_keep_all_templates(tmp_path):
    from tests.lm.server_clients import write_text_model

    pytest.importorskip("tokenizers")
    folder = write_text_model(tmp_path / "small")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": NAMED, "eos_token": "b"}))
    (folder / "chat_template.jinja").unlink()
    lm.save(lm.load(folder, weights="int4", block=16, threads=1), tmp_path / "saved")
    saved = lm.load(tmp_path / "saved", threads=1)
    assert saved.chat_templates.templates == {"default": "a", "tool_use": "b"}
    assert saved.chat_templates.variables == {"eos_token": "b"}
    assert saved.chat_templates.origins["tool_use"] == "tokenizer_config.json: chat_template"
    path = tmp_path / "saved" / "language_model.json"
    record = json.loads(path.read_text()) | {"version": 1}  # which has no checksum
    for change in ({"variables": {"eos_token": 3}}, {"templates": ["a"]}, {"adds_begin": 1}):
        path.write_text(json.dumps(record | change))
        with pytest.raises(FileFormatError):
            lm.load(tmp_path / "saved")
    for name in ("templates", "variables", "origins", "adds_begin"):
        del record[name]
    path.write_text(json.dumps(record | {"template": "{{ messages[0].content }}"}))
    assert lm.load(tmp_path / "saved", threads=1).chat_prompt([USER]) == "hi"  # of an earlier version
