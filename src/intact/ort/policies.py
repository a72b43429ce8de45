"""`Policy`: when a model's runs move from ONNX Runtime to the engine, by arguments and the environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from intact.errors import QuantValueError
from intact.processes import user_cache

if TYPE_CHECKING:
    from numpy.typing import NDArray

Outputs: TypeAlias = "Mapping[str, NDArray[Any]]"
Metric: TypeAlias = "Callable[[Outputs, Outputs], float]"
"""Takes the outputs of float and of int8, by name; the larger its number, the closer they are."""

MODES = ("auto", "exact", "off")
TARGETS = ("off", "intact", "onnxruntime", "openvino", "tensorrt")
"""The names of `intact.placement.PROFILES`, which takes long to import, and none of them."""


@dataclass(frozen=True)
class Policy:
    """Says when the engine answers instead of ONNX Runtime.

    Attributes:
        accuracy: Signal to quantization noise in dB that every output must have; with `metric`, what that
            must give at least.
        agreement: The share of rows, 0 to 1, whose largest score must stay where float has it: in outputs of
            classes, letters or tokens. It is enough for an output of scores that misses `accuracy`.
        speed: How many times as fast as ONNX Runtime the engine must be on the program's own inputs. 0:
            nothing is timed.
        watch: Different inputs that are seen in float before a model is quantized.
        metric: Compares outputs instead of decibels.
        mode: "auto"; "exact": only models that hold codes already leave ONNX Runtime; "off": none does.
        guard: After the swap, one of so many runs is computed in float, too.
        cache: The folder of results; None: ``intact/ort`` in the user's cache folder.
        cache_bytes: The bound of that folder.
        memory: Bytes of inputs and outputs that are kept for each model until it is quantized.
        isolate: Quantize in a process of its own. False: in a thread, where programs cannot start processes.
        trial_seconds: After so long, quantizing ends and the model stays in float; None: by the model's size
            and the time of its runs, between 2 minutes and half an hour.
        quantization: Functions of `onnxruntime.quantization` quantize with INTact, for this engine: "intact",
            "onnxruntime", "openvino" or "tensorrt". "off": with ONNX Runtime, as without INTact.
        verbose: Write a line for each model to standard error when the program ends.
        clock: Seconds, for the costs of watching.
    """

    accuracy: float = 30.0
    agreement: float = 0.997
    speed: float = 1.15
    watch: int = 16
    metric: Metric | None = None
    mode: str = "auto"
    guard: int = 200
    cache: str | os.PathLike[str] | None = None
    cache_bytes: int = 2 << 30
    memory: int = 128 << 20
    isolate: bool = True
    trial_seconds: float | None = None
    quantization: str = "off"
    verbose: bool = False
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        for name, words in (("mode", MODES), ("quantization", TARGETS)):
            if (word := getattr(self, name)) not in words:
                raise QuantValueError(name, repr(word)[:60], f"one of {words}", "correct the word")
        for name in ("watch", "guard", "cache_bytes", "memory"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise QuantValueError(name, repr(number)[:60], "a whole number of 1 or more", "correct it")
        for name in ("accuracy", "speed", "agreement", "trial_seconds"):
            number = getattr(self, name)
            if name == "trial_seconds" and number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int | float) or number != number:
                raise QuantValueError(name, repr(number)[:60], "a number", "correct it")
        if self.metric is not None and not callable(self.metric):
            raise QuantValueError(
                "metric", f"a {type(self.metric).__name__}", "a function of two dicts of outputs", "pass one"
            )

    @property
    def folder(self) -> Path:
        """The cache folder."""
        if self.cache is not None:
            return Path(self.cache)
        return user_cache("ort")

    @property
    def gate_name(self) -> str:
        """The demands on outputs, in words."""
        return f"{self.accuracy:g} by {self.metric_name}, {self.agreement:g} of largest scores"

    @property
    def metric_name(self) -> str:
        """The name of what compares outputs."""
        return "decibels" if self.metric is None else getattr(self.metric, "__qualname__", "metric")


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "accuracy": float, "agreement": float, "speed": float, "watch": int, "mode": str, "guard": int,
    "quantization": str,
    "cache": str, "cache_bytes": int, "memory": int, "trial_seconds": float,
    "isolate": lambda text: text.lower() not in ("0", "no", "off", "false"),
}  # fmt: skip
"""Readers of variables of the environment: `INTACT_ORT_` and the name in upper case."""

_explicit: dict[str, Any] = {}


def policy(**changes: Any) -> Policy:
    """Set how sessions that are created from now on move to the engine; return the whole policy.

    Args:
        changes: Any attributes of `Policy`; those of earlier calls stay. A value of None means the default.

    Raises:
        QuantValueError: There is no such attribute, or it does not take the value.
    """
    names = {field.name for field in fields(Policy)}
    if unknown := changes.keys() - names:
        raise QuantValueError("policy", f"{sorted(unknown)}", f"names among {sorted(names)}", "correct it")
    combined = {name: value for name, value in {**_explicit, **changes}.items() if value is not None}
    replace(Policy(), **combined)  # raises before anything changes
    _explicit.clear()
    _explicit.update(combined)
    return current_policy()


def current_policy() -> Policy:
    """Return the policy in force: arguments of `policy`, then the environment, then defaults.

    Raises:
        QuantValueError: A variable of the environment holds what it cannot.
    """
    return Policy(**{**_environment(), **_explicit})


def is_switched_off() -> bool:
    """Return whether the environment says ``INTACT_ORT=off``."""
    return "off" in _words()


def _words() -> set[str]:
    return set(os.environ.get("INTACT_ORT", "").lower().replace(",", " ").split())


def _environment() -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "verbose" in _words():
        values["verbose"] = True
    for mode in MODES:
        if mode in _words():
            values["mode"] = mode
    for name, convert in _FROM_TEXT.items():
        text = os.environ.get(f"INTACT_ORT_{name.upper()}", "").strip()
        if not text:
            continue
        try:
            values[name] = convert(text)
        except ValueError as error:
            raise QuantValueError(
                f"INTACT_ORT_{name.upper()}", repr(text[:40]), "a number", "mend it or unset it"
            ) from error
    return values
