"""Reasoning in front of an answer, in the forms that models are trained to write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReasoningForm:
    """Marks around reasoning.

    Attributes:
        begin, end: Texts around it.
        around: Texts around the answer behind it, which may be missing; ("", "") for none.
        is_prose: The marks are ordinary words, which mean reasoning only if the template has them.
    """

    begin: str
    end: str
    around: tuple[str, str] = ("", "")
    is_prose: bool = False


_SHORTEST_MARK = 4  # characters of a special token that may be a part of a mark

FORMS = (
    ReasoningForm("<think>", "</think>", ("<response>", "</response>")),  # Granite 3.3 and Ernie wrap answers
    ReasoningForm("<think>", "</think>", ("<answer>", "</answer>")),  # Hunyuan
    ReasoningForm("<thinking>", "</thinking>"),
    ReasoningForm("<thought>", "</thought>"),
    ReasoningForm("<reasoning>", "</reasoning>"),
    ReasoningForm("<seed:think>", "</seed:think>"),
    ReasoningForm("<mm:think>", "</mm:think>"),
    ReasoningForm("◁think▷", "◁/think▷"),
    ReasoningForm("[THINK]", "[/THINK]"),
    ReasoningForm(
        "<|START_THINKING|>", "<|END_THINKING|>", ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
    ),
    ReasoningForm(
        "<|begin_of_thought|>", "<|end_of_thought|>", ("<|begin_of_solution|>", "<|end_of_solution|>")
    ),
    ReasoningForm("<|channel>thought", "<channel|>"),
    ReasoningForm(
        "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", ("", "[END FINAL RESPONSE]"), is_prose=True
    ),
    ReasoningForm("Here is my thought process:", "Here is my response:", is_prose=True),
)  # fmt: skip


def final_mark(prompt: str) -> str:
    """Return the mark that begins reasoning with which a prompt ends; "" for none."""
    end = prompt.rstrip()
    return next((form.begin for form in FORMS if end.endswith(form.begin)), "")


def is_part_of_mark(word: str) -> bool:
    """Return whether the text of a special token is a mark around reasoning, or a part of one."""
    marks = [mark for form in FORMS for mark in (form.begin, form.end)]
    return len(word) >= _SHORTEST_MARK and any(word in mark for mark in marks)


def last_open_mark(text: str) -> str:
    """Return the last mark that begins reasoning in a text where none ends it; "" for none."""
    form = max(FORMS, key=lambda form: text.rfind(form.begin))
    begin = text.rfind(form.begin)
    return form.begin if begin >= 0 and form.end not in text[begin:] else ""


class ReasoningStream:
    """Splits an answer that comes in pieces into reasoning and text. Blanks around reasoning are dropped.

    Reasoning counts only in front of everything else. What may become a mark waits.

    Args:
        open_mark: The mark that the prompt wrote already; "" for none.
        template: The chat template, for the forms that mean reasoning only if it has them.
    """

    def __init__(self, open_mark: str = "", template: str = "") -> None:
        self._forms = [form for form in FORMS if not form.is_prose or form.begin in template]
        if open_mark:
            self._forms = [form for form in FORMS if form.begin == open_mark]
        self._is_inside, self._is_done = bool(open_mark), False
        self._is_begin = True  # nothing of this part came yet: blanks and marks in front are dropped
        self._pending = ""
        self._ends: tuple[str, ...] = ()  # of the answer

    def push(self, piece: str) -> tuple[str, str]:
        """Add a piece; return the reasoning and the text that are certain by now."""
        self._pending += piece
        reasoning = ""
        if not self._is_inside and not self._is_done and not self._open():
            return "", ""
        if self._is_inside:
            reasoning = self._take_reasoning()
        return reasoning, "" if self._is_inside else self._take_text(is_end=False)

    def finish(self) -> tuple[str, str]:
        """Return what waited."""
        if self._is_inside:
            reasoning, self._pending = self._pending.rstrip(), ""
            return ("" if self._is_begin and reasoning.lstrip() in self._begins() else reasoning), ""
        if not self._is_done:  # what might have become a mark
            self._is_done, self._is_begin = True, False
        return "", self._take_text(is_end=True)

    def _begins(self) -> list[str]:
        return [form.begin for form in self._forms]

    def _open(self) -> bool:
        """Find out how the answer begins; return whether that is certain."""
        text = self._pending.lstrip()
        chosen = [form for form in self._forms if text.startswith(form.begin)]
        if chosen:
            self._forms, self._is_inside = chosen, True
        elif text and not any(begin.startswith(text) for begin in self._begins()):
            self._is_done, self._is_begin = True, False
        return self._is_inside or self._is_done

    def _take_reasoning(self) -> str:
        begin, end = self._forms[0].begin, self._forms[0].end
        if self._is_begin:
            text = self._pending.lstrip()
            if text.startswith(begin):  # the answer may repeat what the prompt wrote
                text = text.removeprefix(begin).lstrip()
            elif begin.startswith(text):
                return ""
            self._pending, self._is_begin = text, not text
        place = self._pending.find(end)
        if place >= 0:
            reasoning, self._pending = self._pending[:place].rstrip(), self._pending[place + len(end) :]
            self._is_inside, self._is_done, self._is_begin = False, True, True
            return reasoning
        certain = len(self._pending) - _overlap(self._pending, (end,))
        certain = len(self._pending[:certain].rstrip())
        reasoning, self._pending = self._pending[:certain], self._pending[certain:]
        return reasoning

    def _take_text(self, is_end: bool) -> str:
        """Return the text behind reasoning, without the marks around it."""
        if self._is_begin:
            self._pending = self._pending.lstrip()
            for begin, end in {form.around for form in self._forms}:
                if not is_end and begin != self._pending and begin.startswith(self._pending):
                    return ""
                if begin + end and self._pending.startswith(begin):
                    self._pending = self._pending.removeprefix(begin).lstrip()
                    self._ends, self._forms = (end,) if end else (), []
            self._is_begin = not self._pending
        text = ""
        for end in self._ends:
            text, mark, behind = self._pending.partition(end)
            if mark:
                text, self._pending, self._ends = text.rstrip(), behind.lstrip(), ()
                self._is_begin = not self._pending
                break
            text = ""
        certain = len(self._pending)
        if self._ends and not is_end:
            certain = len(self._pending[: certain - _overlap(self._pending, self._ends)].rstrip())
        text, self._pending = text + self._pending[:certain], self._pending[certain:]
        return text


def _overlap(text: str, marks: tuple[str, ...]) -> int:
    """Return how many characters at the end of a text one of the marks begins with."""
    counts = (
        count
        for mark in marks
        for count in range(min(len(text), len(mark) - 1), 0, -1)
        if text.endswith(mark[:count])
    )
    return max(counts, default=0)
