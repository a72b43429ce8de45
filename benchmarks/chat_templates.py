"""Chat templates render as in transformers: conversations through both, for each template of a folder.

    python -m pip install transformers
    python benchmarks/chat_templates.py FOLDER [--verbose]

FOLDER holds templates as *.jinja files, from any source. Two layers are compared. `render_chat` gets exactly
what transformers' `render_jinja_template` gets: texts have to be equal, and errors fall together. The prompts
of `LanguageModel.chat_prompt` are compared with `apply_chat_template`; there a prompt may differ where INTact
gives the template another form of a message, because it would lose or garble the one that came, and may be
refused where the template does not read what was given.
"""

from __future__ import annotations

import argparse
import copy
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import transformers
from transformers.utils import chat_template_utils

from intact.errors import QuantValueError
from intact.lm.chat.chat_prompt import chat_prompt
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.chat.conversation import prepare_messages
from intact.lm.chat_template import render_chat, template_reads

NOW = datetime(2025, 3, 9, 8, 7, 6)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

USER = {"role": "user", "content": "What is 2 < 3 & “é” \n in Zürich?  "}
SYSTEM = {"role": "system", "content": "Be brief.\n\nAlways."}
ANSWER = {"role": "assistant", "content": "It is true."}
MORE = {"role": "user", "content": "And 3 < 2?"}
THOUGHT = {"role": "assistant", "content": "<think>\nLet me see.\n</think>\n\nIt is true."}
REASONED = ANSWER | {"reasoning_content": "Let me see."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather", "description": "Weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "A town."},
                "days": {"type": "integer", "enum": [1, 2]},
            },
            "required": ["place"],
        },
    },
}  # fmt: skip
CLOCK = {"type": "function", "function": {"name": "clock", "description": "Time.", "parameters": {
    "type": "object", "properties": {},
}}}  # fmt: skip
DOCUMENTS = [{"title": "A", "text": "First."}, {"title": "B", "text": "Second."}]


def call(arguments: Any, name: str = "weather", number: int = 1) -> dict[str, Any]:
    """Return a call of a tool."""
    function = {"name": name, "arguments": arguments}
    return {"id": f"call0000{number}", "type": "function", "function": function}


def result(text: str = '{"degrees": 21}', name: str = "weather", number: int = 1) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "content": text, "name": name, "tool_call_id": f"call0000{number}"}


def conversations() -> Iterator[tuple[str, list[dict[str, Any]], dict[str, Any]]]:
    """Yield a name, messages, and what else a template gets."""
    tools = {"tools": [WEATHER, CLOCK]}
    zurich = {"place": "Zürich", "days": 2}
    calls = {"role": "assistant", "tool_calls": [call(zurich)]}
    two = {"role": "assistant", "tool_calls": [call(zurich), call({}, "clock", 2)]}
    results = [result(), result("12:00", "clock", 2)]
    thinking = {"role": "assistant", "reasoning_content": "I need the weather.", "tool_calls": [call(zurich)]}
    yield "user", [USER], {}
    yield "system", [SYSTEM, USER], {}
    yield "turns", [SYSTEM, USER, ANSWER, MORE], {}
    yield "turns without system", [USER, ANSWER, MORE], {}
    yield "complete", [SYSTEM, USER, ANSWER], {"add_generation_prompt": False}
    yield "answer last", [USER, ANSWER], {}
    yield "two users", [USER, MORE], {}
    yield "empty content", [{"role": "user", "content": ""}], {}
    yield "thoughts in content", [USER, THOUGHT, MORE], {}
    yield "reasoning", [USER, REASONED, MORE], {}
    yield "reasoning last", [USER, REASONED], {"add_generation_prompt": False}
    yield "thinking by its other name", [USER, ANSWER | {"thinking": "Hm."}, MORE], {}
    for name in ("enable_thinking", "thinking"):
        for value in (False, True):
            yield f"{name} {value}", [SYSTEM, USER, REASONED, MORE], {name: value}
    yield "reasoning_effort", [SYSTEM, USER], {"reasoning_effort": "high"}
    yield "date_string", [SYSTEM, USER], {"date_string": "26 Jul 2024"}
    yield "tools", [SYSTEM, USER], tools
    yield "tools without system", [USER], tools
    yield "call", [USER, calls, result()], tools
    yield "call and answer", [SYSTEM, USER, calls, result(), ANSWER, MORE], tools
    yield "call with empty content", [USER, calls | {"content": ""}, result()], tools
    yield "call with content", [USER, calls | {"content": "One moment."}, result(), ANSWER, MORE], tools
    yield (
        "call with text arguments",
        [USER, calls | {"tool_calls": [call('{"place": "Zürich"}')]}, result()],
        tools,
    )
    yield "call without tools", [USER, calls, result()], {}
    yield "two calls", [USER, two, *results, ANSWER, MORE], tools
    yield "call with reasoning", [USER, thinking, result(), ANSWER, MORE], tools
    yield "call with reasoning, no thinking", [USER, thinking, result()], tools | {"enable_thinking": False}
    yield "parts", [PARTS], {}
    yield "parts everywhere", [SYSTEM | {"content": PARTS["content"]}, PARTS, ANSWER, PARTS], {}
    yield "parts of a result", [USER, calls, result() | {"content": PARTS["content"]}], tools
    yield "documents", [SYSTEM, USER], {"documents": DOCUMENTS}
    yield "developer", [{"role": "developer", "content": "Be brief."}, USER], {}
    yield "names", [USER | {"name": "Ann"}, ANSWER, MORE | {"name": "Bob"}], {}
    goes_on = {"add_generation_prompt": False, "continue_final_message": True}
    yield "goes on", [SYSTEM, USER, ANSWER], goes_on
    yield "goes on behind blanks", [USER, {"role": "assistant", "content": "It is  \n"}], goes_on
    yield "goes on in parts", [USER, {"role": "assistant", "content": PARTS["content"]}], goes_on
    yield "goes on in thoughts", [USER, {"role": "assistant", "content": "<think>\nLet me"}], goes_on
    reasoning = goes_on | {"continue_final_message": "reasoning_content"}
    yield (
        "goes on in reasoning",
        [USER, {"role": "assistant", "content": "", "reasoning_content": "Let"}],
        reasoning,
    )
    yield "goes on without content", [USER, {"role": "assistant", "tool_calls": [call({})]}], goes_on
    yield "goes on and begins", [USER, ANSWER], goes_on | {"add_generation_prompt": True}


def transformers_prompt(
    template: str, messages: list[dict[str, Any]], settings: dict[str, Any]
) -> str | None:
    """Return what transformers renders; None for an error."""
    values = {"add_generation_prompt": True, **TOKENS, **settings}
    if values.get("continue_final_message") and values["add_generation_prompt"]:
        return None  # apply_chat_template refuses that
    try:
        prompts, _ = chat_template_utils.render_jinja_template(
            [copy.deepcopy(messages)], chat_template=template, **values
        )
    except Exception:
        return None
    return str(prompts[0])


def compare_rendering(template: str, messages: list[dict[str, Any]], settings: dict[str, Any]) -> str:
    """Return how `render_chat` compares with transformers."""
    theirs = transformers_prompt(template, messages, settings)
    try:
        ours: str | None = render_chat(
            template, copy.deepcopy(messages), now=NOW, variables=TOKENS, **settings
        )
    except QuantValueError:
        ours = None
    if ours == theirs:
        return "both refuse" if ours is None else "equal"
    return "different" if ours is not None and theirs is not None else "refused by one"


def compare_prompt(template: str, messages: list[dict[str, Any]], settings: dict[str, Any]) -> str:
    """Return how the prompt of a conversation compares with transformers."""
    names = ("tools", "documents", "add_generation_prompt", "continue_final_message")
    arguments = {name: settings[name] for name in names if name in settings}
    variables = {name: value for name, value in settings.items() if name not in names}
    present = [{name: value for name, value in message.items() if value is not None} for message in messages]
    theirs = transformers_prompt(template, present, settings)
    try:
        ours: str | None = str(chat_prompt(
            ChatTemplates({"default": template}, TOKENS), copy.deepcopy(messages), now=NOW,
            chat_template_kwargs=variables, **arguments,
        ))  # fmt: skip
        forms = prepare_messages(messages, template, TOKENS)
    except QuantValueError as error:
        ours, unread = None, "does not read" in str(error)
        if unread:
            return "refused: the template does not read it"
        forms = present
    if ours == theirs:
        return "both refuse" if ours is None else "equal"
    if forms != present and ours is not None:
        return "another form of a message" + (", where transformers refuses" if theirs is None else "")
    return "different" if ours is not None and theirs is not None else "refused by one"


class FixedClock(datetime):
    """The clock that transformers reads."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        """Return the same time always."""
        return NOW


def main() -> None:
    """Compare, and print counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--verbose", action="store_true", help="name each conversation that is not equal")
    options = parser.parse_args()
    chat_template_utils.datetime = FixedClock
    paths = sorted(path for path in options.folder.iterdir() if path.suffix in (".jinja", ".jinja2"))
    counts = {"render_chat": Counter[str](), "chat_prompt": Counter[str]()}
    texts = {path.read_text(encoding="utf-8"): path for path in reversed(paths)}
    reads_tools = sum("tools" in template_reads(text).variables for text in texts if _is_readable(text))
    for text, path in sorted(texts.items(), key=lambda pair: pair[1].name):
        for name, messages, settings in conversations():
            for layer, compare in (("render_chat", compare_rendering), ("chat_prompt", compare_prompt)):
                outcome = compare(text, messages, settings)
                counts[layer][outcome] += 1
                if options.verbose and outcome not in ("equal", "both refuse"):
                    print(f"{path.name}: {name}: {layer}: {outcome}", flush=True)
    print(f"transformers {transformers.__version__}")
    print(f"{len(texts)} templates that differ, {reads_tools} of them with tools")
    for layer, outcomes in counts.items():
        print(f"{layer}: {sum(outcomes.values())} conversations")
        for outcome, count in sorted(outcomes.items(), key=lambda pair: -pair[1]):
            print(f"    {count:6} {outcome}")


def _is_readable(template: str) -> bool:
    try:
        template_reads(template)
    except QuantValueError:
        return False
    return True


if __name__ == "__main__":
    main()
