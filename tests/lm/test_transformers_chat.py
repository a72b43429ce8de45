"""Conversations beside transformers, where it is installed: prompts, their tokens, and special tokens."""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from tests.lm.server_clients import write_text_model

from intact import lm

transformers = pytest.importorskip("transformers")
pytest.importorskip("jinja2")

CHAT = (
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{{ m['content'] | trim }}"
    "{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEMPLATES = {
    "turns": CHAT,
    "tools": "{% if tools %}{% for t in tools %}{{ t | tojson(indent=2) }}{% endfor %}{% endif %}" + CHAT,
    "thinking": CHAT
    + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}",
    "strict": "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}" + CHAT,
    "parts": (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
        "{{ p.text }}{% endfor %}{% endif %}{% generation %}|{% endgeneration %}{% endfor %}"
    ),
    "dates": "{{ strftime_now('%d %b %Y') }} {{ documents | length if documents else 'none' }}" + CHAT,
}


@pytest.fixture(scope="module")
def comparison():
    path = Path(__file__).parents[2] / "benchmarks" / "chat_templates.py"
    spec = spec_from_file_location("compared_chat_templates", path)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("name", TEMPLATES)
def test_prompts_are_those_of_transformers(name, comparison, monkeypatch):
    monkeypatch.setattr(comparison.chat_template_utils, "datetime", comparison.FixedClock)
    for what, messages, settings in comparison.conversations():
        outcome = comparison.compare_rendering(TEMPLATES[name], messages, settings)
        assert outcome in ("equal", "both refuse"), what
        outcome = comparison.compare_prompt(TEMPLATES[name], messages, settings)
        assert outcome not in ("different", "refused by one"), what


@pytest.mark.slow  # importing tokenizers of transformers
@pytest.mark.parametrize(
    "config",
    [
        {"bos_token": "a", "eos_token": "b", "chat_template": CHAT},
        {"eos_token": {"__type": "AddedToken", "content": "b"}, "chat_template": CHAT, "image_token": "c"},
        {"chat_template": [{"name": "default", "template": CHAT}, {"name": "tool_use", "template": "t"}]},
        {"tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "chat_template": CHAT},
    ],
)
def test_folders_say_what_they_say_to_transformers(config, tmp_path):
    folder = write_text_model(tmp_path / "small")
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    model, theirs = lm.load(folder, weights="int4", block=16, threads=1), load_tokenizer(folder)
    templates = theirs.chat_template
    assert model.chat_templates.variables == theirs.special_tokens_map
    assert model.chat_templates.templates == (
        templates if isinstance(templates, dict) else {"default": templates}
    )
    messages = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]
    ids = theirs.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    if len(theirs) == len(model.tokenizer.words()):  # transformers adds special tokens that are missing
        assert model.encode(model.chat_prompt(messages)) == ids


def load_tokenizer(folder):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoTokenizer.from_pretrained(folder)
