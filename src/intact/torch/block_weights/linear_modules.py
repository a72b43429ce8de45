"""Finds the linear layers of a module, and puts others in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import nn

from intact.errors import IntactError
from intact.patterns import check_patterns, exact, require_fitting
from intact.torch.private_torch import forward_pre_hooks

_T = TypeVar("_T")

__all__ = [
    "convert_at",
    "disable_fused_encoders",
    "find_linear_modules",
    "find_modules",
    "replace_modules_at",
]


def find_linear_modules(
    model: nn.Module, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[dict[str, nn.Linear], dict[str, str]]:
    """Find the layers whose weights can be quantized, and say of others why they stay as they are.

    Args:
        model: Any module.
        include, exclude: Patterns over paths of modules and names of their types; a pattern that fits a
            module covers all inside it. No include means all.
    Returns:
        The layers by path, each once; and the reason for each other linear layer.
    Raises:
        QuantValueError: A pattern fits nothing.
    """
    names = [name for path, module in model.named_modules() for name in (path, type(module).__name__) if name]
    patterns = {}
    for where, argument in (("include", include), ("exclude", exclude)):
        patterns[where] = [exact(pattern, names) for pattern in check_patterns(where, argument)]
        require_fitting(where, patterns[where], names, "module")
    layers, reasons = {}, {}
    for path, module in model.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        wanted = not patterns["include"] or _matches_pattern(model, path, patterns["include"])
        if not wanted or _matches_pattern(model, path, patterns["exclude"]):
            reasons[path] = "excluded"
        elif type(module) is not nn.Linear:
            reasons[path] = f"it is a {type(module).__name__}, whose own code may read its weight"
        elif forward_pre_hooks(module) or module._forward_hooks:
            reasons[path] = "it has hooks"
        else:
            layers[path] = module
    return layers, reasons


def _matches_pattern(model: nn.Module, path: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern fits a module, or one that it is in."""
    parts = path.split(".") if path else []
    outer = [".".join(parts[: i + 1]) for i in range(len(parts))]
    names = [name for p in outer for name in (p, type(model.get_submodule(p)).__name__)]
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def find_modules(model: nn.Module, kinds: Sequence[type]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules of exactly these types with their paths, each once.

    Args:
        model: Any module.
        kinds: Types; subclasses do not count.
    """
    for path, module in model.named_modules():
        if type(module) in kinds:
            yield path, module


def replace_modules_at(model: nn.Module, replacements: Mapping[str, nn.Module]) -> nn.Module:
    """Put modules in the place of others, in place; a module that stands at several paths is one everywhere.

    Args:
        model: Changed, but where it is itself replaced.
        replacements: By path.
    Returns:
        The model.
    """
    if "" in replacements:
        return replacements[""]
    by_module = {model.get_submodule(path): module for path, module in replacements.items()}
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child in by_module:
                setattr(parent, name, by_module[child])
    disable_fused_encoders(model)
    return model


def disable_fused_encoders(model: nn.Module) -> None:
    """Make transformer encoders call their linear layers, whose weights a fused function reads otherwise."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0
        elif isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False


def convert_at(path: str, convert: Callable[[], _T]) -> _T:
    """Return what `convert` makes of the module at `path`; errors name it.

    Args:
        path: Of the module.
        convert: Makes the new one.
    Raises:
        IntactError: As `convert`.
    """
    try:
        return convert()
    except IntactError as error:
        where = f"module '{path}': {error.where}" if path else error.where
        raise type(error)(where, error.got, error.want, error.fix) from error
