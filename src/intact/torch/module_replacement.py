"""Quantize a model that is built already: replace its modules by quantized ones, in place and by name.

A module keeps its identity and changes its class: parameters (shared ones too), buffers, hooks, training
mode, device, dtype and every reference to it stay; its quantizers come on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain

from torch import nn
from torch.nn.utils import parametrize

from intact.errors import QuantValueError, UnsupportedError
from intact.patterns import check_patterns, exact, require_fitting
from intact.torch import nn as quant_nn
from intact.torch.models.modules import deep_copy
from intact.torch.nn.modules._utils import QuantizedModule, QuantMixin
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer, name_quantizers
from intact.torch.quant_modules import _DEFAULT_QUANT_MAP
from intact.torch.tensor_quant import QuantDescriptor

__all__ = ["ReplaceReport", "apply_conversion", "conversion_record", "replace_modules"]

Patterns = str | Sequence[str] | None

# From the bases, not from torch.nn's names: `initialize` may have put quantized classes there.
DEFAULT_CLASSES: dict[type, type[QuantizedModule]] = {
    next(base for base in quant_class.__bases__ if issubclass(base, nn.Module)): quant_class
    for quant_class in (
        *(entry.replace_mod for entry in _DEFAULT_QUANT_MAP),
        quant_nn.QuantGRU,
        quant_nn.QuantGRUCell,
    )
}
_OURS: dict[str, type[QuantizedModule]] = {
    name: value
    for name, value in vars(quant_nn).items()
    if isinstance(value, type) and issubclass(value, QuantizedModule) and name == value.__name__
}


@dataclass
class ReplaceReport:
    """Reports what `replace_modules` did.

    Attributes:
        model: The converted model.
        replaced: Name of each replaced module -> name of its quantized class.
        left: Name of each module that could matter and stayed float -> why.
    """

    model: nn.Module
    replaced: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{len(self.replaced)} modules replaced, {len(self.left)} left"]
        lines += [f"  {_path_or_model(name)}: {quant_class}" for name, quant_class in self.replaced.items()]
        lines += [f"  {_path_or_model(name)}: left, {reason}" for name, reason in self.left.items()]
        return "\n".join(lines)


def replace_modules(
    model: nn.Module,
    include: Patterns = None,
    exclude: Patterns = None,
    *,
    quant_desc_input: QuantDescriptor | None = None,
    quant_desc_weight: QuantDescriptor | None = None,
    custom: Mapping[type, type[QuantizedModule]] | None = None,
    inplace: bool = True,
) -> ReplaceReport:
    """Quantize the modules of a model that is built already.

    The classes that `quant_modules.initialize` replaces, and GRU and GRUCell, become their quantized
    counterparts. Additions and other calls of functions are no modules: a `TensorQuantizer` by hand.

    Args:
        model: Any module; itself replaced if it is, say, an `nn.Linear`.
        include: Shell patterns (``*``, ``?``, ``[...]``, case-sensitive) of module paths; only what one of
            them matches is replaced. A pattern that matches a module covers everything inside it:
            ``"layer4"``, ``"layer*.0"``, ``"*.conv1"``. None: everything.
        exclude: Patterns of what stays float; wins over `include`.
        quant_desc_input, quant_desc_weight: Descriptors for every replaced module; None: the default of its
            class, which knows that the channels of a transposed convolution's weight are on axis 1.
        custom: Further pairs float class -> quantized class, for example
            ``{nn.MaxPool2d: quant_nn.QuantMaxPool2d}``. The quantized class must derive from the float class
            and from `QuantMixin` or `QuantInputMixin`.
        inplace: False: convert a deep copy and leave `model` alone.
    Returns:
        The model, what was replaced, and what was left and why: subclasses (their `forward` is their own),
        what the patterns keep out, layers with weights that have no quantized class.
    Raises:
        QuantValueError: (a ValueError) A pattern matches nothing, or a descriptor is unfit.
        UnsupportedError: (a TypeError) A module to be replaced is parametrized, or a pair of `custom` is
            unfit. Nothing has been changed.
    """
    table = {**DEFAULT_CLASSES, **_check_pairs(custom or {})}
    for desc in (quant_desc_input, quant_desc_weight):
        if desc is not None and not (isinstance(desc, QuantDescriptor) and desc.fake_quant):
            raise QuantValueError(
                "replace_modules",
                repr(desc),
                "a QuantDescriptor with fake_quant=True",
                "pass such a descriptor",
            )
    if not inplace:
        model = deep_copy(model)
    why_excluded = _filter(model, include, exclude)
    report = ReplaceReport(model)
    plan: list[tuple[nn.Module, type[QuantizedModule]]] = []
    for names, module in _modules(model):
        quant_class, reason = _decide(names[0], module, table, why_excluded(names))
        if quant_class is not None:
            report.replaced[names[0]] = quant_class.__name__
            plan.append((module, quant_class))
        elif reason:
            report.left[names[0]] = reason
    for module, quant_class in plan:
        convert(model, module, quant_class, quant_desc_input, quant_desc_weight)
    finish(model)
    return report


def conversion_record(model: nn.Module) -> dict[str, str]:
    """Return the name of each quantized module in `model` -> its class, for `apply_conversion`.

    The quantizers' configuration is not in it: `intact.torch.save_checkpoint` stores both.
    """
    return {name: _key(type(m)) for name, m in model.named_modules() if isinstance(m, QuantizedModule)}


def apply_conversion(
    model: nn.Module, record: Mapping[str, str], *, custom: Mapping[type, type[QuantizedModule]] | None = None
) -> nn.Module:
    """Replace modules as `conversion_record` says, with the default descriptors of their classes.

    Args:
        model: The float model, or one that is quantized already, in part or whole.
        record: What `conversion_record` returned.
        custom: As for `replace_modules`; needed where the record names classes that are not INTact's.
    Returns:
        `model`, changed in place.
    Raises:
        QuantValueError: (a ValueError) The record names a class that is unknown, or a module that the model
            lacks or has of another class. Nothing has been changed.
    """
    quantized_classes = {**_OURS, **{_key(q): q for q in _check_pairs(custom or {}).values()}}
    modules = dict(model.named_modules())
    plan = []
    for name, key in record.items():
        module, quant_class = modules.get(name), quantized_classes.get(str(key))
        if module is not None and _key(type(module)) == key:
            continue
        if module is None or quant_class is None or not issubclass(quant_class, type(module)):
            raise QuantValueError(
                f"conversion record of '{name}'",
                f"{key!r} for {'no module' if module is None else type(module).__name__}",
                "a quantized class of INTact or of custom=, for a module of its float class",
                "build the model with the code that the record was made from, and pass its custom classes",
            )
        plan.append((module, quant_class))
    for module, quant_class in plan:
        convert(model, module, quant_class, None, None)
    finish(model)
    return model


def _decide(
    name: str, module: nn.Module, table: Mapping[type, type[QuantizedModule]], why_excluded: str
) -> tuple[type[QuantizedModule] | None, str]:
    """Return the class that `module` is to become, or None and the reason ("" where there is none to
    report).
    """
    if isinstance(module, QuantizedModule):
        return None, "is quantized already"
    kind = type(module)
    base = next((c for c in kind.__mro__ if c in table), None)
    if base is None:
        has_weight = any(p.dim() > 1 for p in module.parameters(recurse=False))
        return None, f"{kind.__name__} has no quantized class" if has_weight else ""
    if why_excluded:
        return None, why_excluded
    if parametrize.is_parametrized(module):
        raise UnsupportedError(
            f"module '{name}'",
            f"a parametrized {base.__name__} ({', '.join(module.parametrizations)})",  # type: ignore[arg-type]
            "a module without parametrizations",
            "call torch.nn.utils.parametrize.remove_parametrizations first, or name it in exclude",
        )
    return _fitting(module, base, table)


def convertible(
    module: nn.Module, table: Mapping[type, type[QuantizedModule]]
) -> tuple[type[QuantizedModule] | None, str]:
    """Return the class of `table` that `module` can become, or None and why not ("" where it is of another
    kind).
    """
    base = next((c for c in type(module).__mro__ if c in table), None)
    if base is None:
        has_weight = any(p.dim() > 1 for p in module.parameters(recurse=False))
        return None, f"{type(module).__name__} has no quantized class" if has_weight else ""
    if parametrize.is_parametrized(module):
        return None, f"a parametrized {base.__name__}"
    return _fitting(module, base, table)


def _fitting(
    module: nn.Module, base: type, table: Mapping[type, type[QuantizedModule]]
) -> tuple[type[QuantizedModule] | None, str]:
    kind = type(module)
    if kind is not base:
        return None, f"{kind.__name__} is a subclass of {base.__name__}; name its quantized class in custom"
    if "forward" in vars(module):
        return None, "its forward was replaced on the instance"
    why: Callable[[nn.Module], str] = getattr(table[base], "why_unsupported", lambda _: "")
    reason = why(module)
    return (None, reason) if reason else (table[base], "")


def convert(
    model: nn.Module,
    module: nn.Module,
    quant_class: type[QuantizedModule],
    desc_input: QuantDescriptor | None,
    desc_weight: QuantDescriptor | None,
) -> None:
    """Make `module`, inside `model`, one of `quant_class`.

    None for a descriptor means the class's default.
    """
    # The float class is a base of the quantized one: the same layout, a few methods more.
    module.__class__ = quant_class  # type: ignore[assignment]
    before = set(module.modules())
    device = next((t.device for t in chain(module.parameters(), module.buffers(), model.parameters())), None)
    descs = [desc_input or quant_class.default_quant_desc_input]
    if issubclass(quant_class, QuantMixin):
        descs.append(desc_weight or quant_class.default_quant_desc_weight)
    module.init_quantizer(*descs)  # type: ignore[operator]
    for added in set(module.modules()) - before:
        added.train(module.training)
        added.to(device)


def finish(model: nn.Module) -> None:
    """Finish a model whose modules were converted: name its quantizers, and turn fused paths off."""
    for module in model.modules():
        quantized = any(isinstance(child, QuantizedModule) for child in module.modules())
        if quantized and isinstance(module, nn.TransformerEncoderLayer):
            # Its fused inference path reads the weights of its Linears past their forward.
            module.activation_relu_or_gelu = 0
    name_quantizers(model)


def _modules(model: nn.Module) -> Iterator[tuple[list[str], nn.Module]]:
    """Return every module once, with all its names, except quantizers, parametrizations and what is
    in them.
    """
    names: dict[nn.Module, list[str]] = {}
    inside: set[nn.Module] = set()
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
        if isinstance(module, TensorQuantizer | parametrize.ParametrizationList):
            inside |= set(module.modules())
    return ((module_names, module) for module, module_names in names.items() if module not in inside)


def _filter(model: nn.Module, include: Patterns, exclude: Patterns) -> Callable[[list[str]], str]:
    """Return a function that gives the reason why the module of a name stays float; "" where it does not."""
    every = [name for name, _ in model.named_modules(remove_duplicate=False)]
    included, excluded = (
        None if patterns is None else _patterns(f"replace_modules {argument}", patterns, every)
        for argument, patterns in (("include", include), ("exclude", exclude))
    )

    def why_excluded(names: list[str]) -> str:
        if (hit := _first_match(names, excluded or {})) is not None:
            return f"excluded by '{hit}'"
        return "" if included is None or _first_match(names, included) is not None else "not in include"

    return why_excluded


def _patterns(where: str, patterns: str | Iterable[str], names: list[str]) -> dict[str, str]:
    """Return each pattern -> one for ``fnmatch``, in which an exact name means itself."""
    user_patterns = check_patterns(where, patterns)
    require_fitting(where, user_patterns, names, "module")
    known_names = frozenset(names)
    return {pattern: exact(pattern, known_names) for pattern in user_patterns}


def _first_match(names: list[str], patterns: Mapping[str, str]) -> str | None:
    """Return the first pattern that matches one of `names` or a module around it."""
    places = [
        ".".join(parts[:n]) for parts in (name.split(".") for name in names) for n in range(len(parts) + 1)
    ]
    return next(
        (p for p, exact_pattern in patterns.items() if any(fnmatchcase(x, exact_pattern) for x in places)),
        None,
    )


def _check_pairs(custom: Mapping[type, type[QuantizedModule]]) -> dict[type, type[QuantizedModule]]:
    for float_class, quant_class in custom.items():
        if not issubclass(quant_class, QuantizedModule) or not issubclass(quant_class, float_class):
            raise UnsupportedError(
                f"custom[{float_class.__name__}]",
                f"{quant_class.__name__} with bases {[c.__name__ for c in quant_class.__mro__[1:-1]]}",
                f"a subclass of {float_class.__name__} and of QuantMixin or QuantInputMixin",
                "derive it from both, as the guide's custom modules are",
            )
    return dict(custom)


def _key(cls: type) -> str:
    """Return the name of a quantized class in files, with its Python module where it is not INTact's."""
    return cls.__name__ if _OURS.get(cls.__name__) is cls else f"{cls.__module__}.{cls.__qualname__}"


def _path_or_model(name: str) -> str:
    return name or "(the model itself)"
