"""The chat templates of a model, by name, with the texts of special tokens that they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from intact.errors import FileFormatError, QuantValueError

SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Names under which templates read the texts of special tokens."""


@dataclass(frozen=True)
class ChatTemplates:
    """Templates by name, and what they read beside the conversation.

    Attributes:
        templates: "default" for most conversations, "tool_use" for those with tools, and others that callers
            name; none: the model has no chat template.
        variables: Texts of special tokens by their names, such as "bos_token"; one that the model has not is
            missing.
        adds_begin: A prompt that does not begin with the first token of texts gets it. Templates of Hugging
            Face folders write it themselves, and those of GGUF files need not.
        origins: For each template the file and key that it came from, and what else was there.
    """

    templates: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    adds_begin: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)

    def pick(self, name: str = "", *, has_tools: bool = False) -> str:
        """Return the source of a template.

        Args:
            name: Of the template; "": the one that transformers takes.
            has_tools: Whether the conversation offers tools, for which a model may have its own template.
        Raises:
            QuantValueError: There is none.
        """
        usual = ("tool_use", "default") if has_tools else ("default",)
        wanted = (name,) if name else usual
        for key in wanted:
            if key in self.templates:
                return self.templates[key]
        if not self.templates:
            raise QuantValueError(
                "model", "no chat template", "one", "build the prompt yourself, and call generate"
            )
        names = ", ".join(sorted(self.templates))
        raise QuantValueError(
            "chat template", f"no '{wanted[-1]:.40}' among {names:.200}", "the name of one of them",
            "name the template",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return a record for a JSON file, which `from_json` reads."""
        return {
            "templates": dict(self.templates), "variables": dict(self.variables),
            "adds_begin": self.adds_begin, "origins": dict(self.origins),
        }  # fmt: skip

    @classmethod
    def from_json(cls, record: Mapping[str, Any], where: str) -> ChatTemplates:
        """Return the templates of a record that has the fields of `to_json`, beside others.

        Raises:
            FileFormatError: It has not; `where` names the file.
        """
        texts = {name: record.get(name, {}) for name in ("templates", "variables", "origins")}
        adds_begin = record.get("adds_begin", False)
        if not isinstance(adds_begin, bool) or not all(map(_is_text_map, texts.values())):
            got, fix = "other chat templates", "quantize the model again"
            raise FileFormatError(where, got, "what save_model writes", fix)
        return cls(**texts, adds_begin=adds_begin)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)
