"""Report what graph mode quantized, and what it left in float and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from intact.placement import Placement, in_other_runtimes
from intact.torch.models.batches import device_of, move_to
from intact.torch.qdq.compare_engine import EngineComparison, LazyComparison, compare_with_engine
from intact.torch.qdq.qdq_model import example_arguments
from intact.torch.training.calibration import CalibrationResult


@dataclass(frozen=True)
class GraphModeReport:
    """Reports what became of a model; `print` it.

    Attributes:
        modules: Path of each module with an active quantizer -> its class.
        quantizers: Path of each active quantizer that the graph asked for -> why its tensor is quantized.
        replaced: Path of each module that could not be traced -> why. The modules inside were replaced by
            quantized ones, as `replace_modules` does. "" is the model itself.
        left: Path of a module, or name of a call, that stays in float although it could matter -> why.
        wide: Path of each quantizer that has 16 bits because 8 lose too much -> why.
        float_steps: Steps that another runtime may round differently, by kind
            (`intact.placement.float_steps`); None where the model could not be traced at all.
        training: Path of each module that computes differently in training mode, and is in it -> its class.
            Ranges, files and engines are those of evaluation mode.
        compare: Compares the module with its engine; None where there is no module yet.
    """

    modules: dict[str, str] = field(default_factory=dict)
    quantizers: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    wide: dict[str, str] = field(default_factory=dict)
    float_steps: dict[str, int] | None = None
    training: dict[str, str] = field(default_factory=dict)
    compare: LazyComparison | None = field(default=None, repr=False, compare=False)

    @property
    def comparison(self) -> EngineComparison:
        """Compare the module, as it is now, with its engine on samples of the calibration data.

        The first time costs one compilation and a run of each; later the result is kept until the module
        changes. `print` of the report and `agreement` ask for it.
        """
        return EngineComparison(skipped="there is no module") if self.compare is None else self.compare()

    @property
    def agreement(self) -> str:
        """Say in one sentence what was compared, what differed, and where other runtimes may differ."""
        if self.float_steps is None:
            return self.comparison.sentence
        return f"{self.comparison.sentence}; {in_other_runtimes(self.float_steps)}"

    def of_active(self, quantizers: Iterable[str]) -> GraphModeReport:
        """Return the report without modules in which none of `quantizers`, paths of working ones, is."""
        around = {path[:i] for path in quantizers for i, c in enumerate(path) if c == "."}
        return replace(self, modules={path: kind for path, kind in self.modules.items() if path in around})

    def __str__(self) -> str:
        inside = tuple(f"{path}." for path in self.modules)
        inserted = [name for name in self.quantizers if not name.startswith(inside)]
        lines = [f"{len(self.modules)} modules quantized, {len(inserted)} quantizers between them"]
        if self.left and not self.modules and not inserted:
            lines[0] += ": everything stays in float; float_budget=0 quantizes whatever 8 bits lose"
        lines += [f"  {name}: {self.quantizers[name]}" for name in inserted]
        lines += [
            f"  {_path_or_model(path)}: modules replaced inside, {why}" for path, why in self.replaced.items()
        ]
        lines += [f"  {name}: 16 bits, {why}" for name, why in self.wide.items()]
        lines += [f"  {_path_or_model(path)}: left, {why}" for path, why in self.left.items()]
        lines += [f"  {_training_note(self.training)}"] if self.training else []
        lines += [f"  {self.agreement}"] if self.compare is not None else []
        return "\n".join(lines)


_SHOWN = 3


def training_modules(model: nn.Module) -> dict[str, str]:
    """Return the modules in training mode that drop elements or use statistics of the batch, by path."""
    return {
        path: type(module).__name__
        for path, module in model.named_modules()
        if module.training and (getattr(module, "running_mean", None) is not None or _drops(module))
    }


_RATES = ("p", "dropout", "drop_prob", "drop_rate", "dropout_prob")


def _drops(module: nn.Module) -> bool:
    """Return whether a module has a dropout rate above 0."""
    rates = [getattr(module, name, None) for name in _RATES]
    return any(
        isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate <= 1 for rate in rates
    )


def _training_note(modules: dict[str, str]) -> str:
    named = [f"{path or '(the model itself)'} ({kind})" for path, kind in modules.items()][:_SHOWN]
    more = f" and {len(modules) - _SHOWN} more" if len(modules) > _SHOWN else ""
    state = "is in training mode and computes" if len(modules) == 1 else "are in training mode and compute"
    return f"{', '.join(named)}{more} {state} otherwise than files and engines: call model.eval() first"


def _path_or_model(path: str) -> str:
    return path or "(the model itself)"


@dataclass(frozen=True)
class GraphModeResult:
    """Holds the result of `quantize`.

    Attributes:
        model: The module with quantizers: ready for `finetune`, `export` and, without data, `calibrate`.
        report: What was done.
        placement: The placement on the exported graph; nodes are called like modules and calls. None where
            the model could not be traced at all.
        calibration: What `calibrate` returned; None without data.
    """

    model: nn.Module
    report: GraphModeReport
    placement: Placement | None = None
    calibration: CalibrationResult | None = None

    def compare(self, example: Any = None) -> EngineComparison:
        """Compare the module with its engine, bit for bit; it costs one compilation and a run of each.

        Args:
            example: One input: a tensor, a tuple of positional or a dict of named arguments. None: the one
                that the model was traced with.
        """
        if example is None:
            return self.report.comparison
        args, kwargs = example_arguments(example, self.model)
        device = device_of(self.model)
        return compare_with_engine(self.model, (tuple(move_to(list(args), device)), move_to(kwargs, device)))

    def explain(self) -> list[dict[str, object]]:
        """Return one row per layer, as `intact explain` shows them; empty without a placement."""
        from intact.placement import explain

        return [] if self.placement is None else list(explain(self.placement))
