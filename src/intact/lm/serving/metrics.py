"""Counts what a server did, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

_KINDS = {
    "intact_requests_total": ("counter", "Responses by endpoint and status."),
    "intact_prompt_tokens_total": ("counter", "Tokens of prompts of complete responses."),
    "intact_completion_tokens_total": ("counter", "Tokens that were generated, of dropped answers, too."),
    "intact_sequences_running": ("gauge", "Sequences that have a slot."),
    "intact_sequences_waiting": ("gauge", "Sequences that wait for one."),
}


class Metrics:
    """Counters of one server. One thread changes them."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, value: int = 1, **labels: str) -> None:
        """Add to a counter."""
        text = ",".join(f'{key}="{label}"' for key, label in labels.items())
        self._counts[name, f"{{{text}}}" if text else ""] += value

    def render(self, gauges: Mapping[str, int]) -> str:
        """Return all of them as text, with values of this moment."""
        lines = []
        for name, (kind, about) in _KINDS.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            if kind == "gauge":
                lines.append(f"{name} {gauges[name]}")
            lines += [
                f"{name}{labels} {value}"
                for (key, labels), value in sorted(self._counts.items())
                if key == name
            ]
        return "\n".join(lines) + "\n"
