"""Choose the kernel of a layer: another instruction set, or Winograd. All give the same bits.

Without figures the cost model decides: what it takes is the default. With figures of this machine (in a
`Timings`) the fastest form runs, unless it beats the default by less than what two measurements differ by.
Nothing here looks at a clock: `engine.cpu.measure` does, when it is asked to.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

MARGIN = 0.97
"""Of the default's time that another form has to stay below."""


@dataclass(frozen=True)
class FormChoice:
    """Records the kernel form that runs for one native layer, and the reason.

    Attributes:
        layer: All that its time depends on, in words; "" where nobody asked.
        form: What runs: a kernel's name.
        by: "model": the cost model; "cache": figures that were given or came with the plan; "measured":
            figures of this engine; "trial": a measurement is going on.
        default: The form that the cost model takes.
        forms: All forms of the layer.
        seconds: Those that are known, by form.
    """

    layer: str
    form: str
    by: str
    default: str
    forms: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


class FormChooser:
    """Chooses a kernel form by the stored times of a layer.

    Args:
        known: Seconds by `name_of` layer and form, on this machine.
        measured: The names of those that this engine has measured itself.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None, measured: Container[str] = ()) -> None:
        self._known, self._measured = seconds or {}, measured

    @property
    def asks(self) -> bool:
        """Return whether any time is stored, so that layers have to pass their names."""
        return bool(self._known)

    def choose(self, layer: str, forms: Sequence[str], default: str) -> FormChoice:
        """Choose the form that runs.

        Args:
            layer: What the layer is called.
            forms: Those that it has; the default is one of them.
            default: What the cost model takes.
        """
        seconds = {form: self._known[name] for form in forms if (name := name_of(layer, form)) in self._known}
        if default not in seconds or len(seconds) < 2:
            return FormChoice(layer, default, "model", default, tuple(forms), seconds)
        form = min(seconds, key=lambda candidate: seconds[candidate])
        if seconds[form] >= MARGIN * seconds[default]:
            form = default
        by = "measured" if name_of(layer, form) in self._measured else "cache"
        return FormChoice(layer, form, by, default, tuple(forms), seconds)


class FormTrial(FormChooser):
    """Takes one form wherever a layer has it and nothing is known of the layer; else as `FormChooser`.

    Args:
        form: The form; "" for everybody's default.
        known: As for `FormChooser`.
    """

    def __init__(self, form: str, seconds: Mapping[str, float]) -> None:
        super().__init__(seconds)
        self._form = form

    @property
    def asks(self) -> bool:
        return True

    def choose(self, layer: str, forms: Sequence[str], default: str) -> FormChoice:
        choice = super().choose(layer, forms, default)
        if choice.by != "model":
            return choice
        return FormChoice(
            layer, self._form if self._form in forms else default, "trial", default, tuple(forms)
        )


def name_of(layer: str, form: str) -> str:
    """Return the key in a `Timings` for the time of a layer in a form."""
    return f"{layer}: {form}"
