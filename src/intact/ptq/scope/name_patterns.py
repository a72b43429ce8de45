"""Resolves the user's name patterns to nodes of the file, and to what these nodes became."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape

from intact.graph import Model, nodes_between
from intact.patterns import ends_of_path, exact, is_fitting, no_fit, no_path
from intact.ptq.scope.settings import Settings

NodeNames = Mapping[str, str]
"""Name -> operator type, of every node of a file and of its subgraphs."""


def node_names(model: Model) -> dict[str, str]:
    """Return the nodes of `model` and of its subgraphs."""
    return {node.name or "": node.op_type for node in model.graph.all_nodes()}


@dataclass
class NameResolver:
    """Finds the nodes that patterns mean in a model whose nodes were folded, fused or decomposed.

    Attributes:
        before: The nodes as the file has them.
        model: As it is now.
        warnings: Patterns that fit only nodes which are gone.
    """

    before: NodeNames
    model: Model
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = list(self.model.graph.all_nodes())
        self._now = {node.name or "": node.op_type for node in nodes}
        values = (v for node in nodes for v in (*node.inputs, *node.outputs) if v is not None)
        self._tensors = dict.fromkeys(value.name or "" for value in values)
        self._origins = {name: origin for name in self._now if (origin := self._origin(name))}

    def resolve(
        self, where: str, patterns: Iterable[str], *, tensors: bool = False
    ) -> dict[str, tuple[str, ...]]:
        """Map each pattern to `fnmatch` patterns over the current names and operator types.

        Before: ``"Einsum"`` where the Einsum "mix" became a MatMul.  After: ``"Einsum", "mix"``.

        Args:
            where: The argument.
            patterns: Of it.
            tensors: Whether names of tensors may be meant, too.
        Raises:
            QuantValueError: A pattern fits nothing; lists the nearest names.
        """
        return {pattern: self._resolve(where, pattern, tensors) for pattern in patterns}

    def _resolve(self, where: str, pattern: str, tensors: bool) -> tuple[str, ...]:
        names = [*self._now, *self._now.values(), *self.before, *self.before.values()]
        names += self._tensors if tensors else ()
        if ends := ends_of_path(pattern, names):
            return self._nodes_on_paths(where, pattern, *ends)
        exact_pattern = exact(pattern, frozenset(names))
        here = {name for name, kind in self._now.items() if is_fitting(exact_pattern, (name, kind))}
        there = {name for name, kind in self.before.items() if is_fitting(exact_pattern, (name, kind))}
        fits_tensor = tensors and is_fitting(exact_pattern, self._tensors)
        became = [name for name, origin in self._origins.items() if origin in there and name not in here]
        if not (here or there or fits_tensor):
            what = "node, operator or tensor" if tensors else "node or operator"
            raise no_fit(where, pattern, dict.fromkeys(names), what)
        if not (here or became or fits_tensor):
            gone = ", ".join(f"'{name}'" for name in sorted(there)[:3])
            self.warnings.append(f"{where}: {pattern!r} changes nothing: {gone} was folded away")
        return (exact_pattern, *map(escape, became))

    def _nodes_on_paths(self, where: str, pattern: str, start: str, end: str) -> tuple[str, ...]:
        """Return the patterns for the nodes on every path from what `start` fits to what `end` fits, these
        included.
        """
        graph, fitting = self.model.graph, []
        for end_pattern in (start, end):
            patterns = self._resolve(where, end_pattern, False)
            fitting.append(
                [n for n in graph if any(is_fitting(p, (n.name or "", n.op_type)) for p in patterns)]
            )
        nodes = nodes_between(graph, *fitting)
        if not nodes:
            raise no_path(where, pattern)
        return tuple(escape(node.name or "") for node in nodes)

    def _origin(self, name: str) -> str:
        """Return the node of the file that `name` was derived from; "" where it is not known."""
        parts = name.split(".")
        starts = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next((start for start in starts if start in self.before), "")


@dataclass(frozen=True)
class ResolvedNames:
    """Holds settings whose patterns were resolved.

    Attributes:
        settings: With patterns for what the model consists of now.
        overrides: The user's pattern of each override -> those that it became.
        warnings: What should be looked at.
    """

    settings: Settings
    overrides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def with_resolved_names(settings: Settings, before: NodeNames, model: Model) -> ResolvedNames:
    """Return `settings` with patterns for the present nodes of `model`.

    Args:
        settings: With patterns of the user.
        before: Names in the user's model.
        model: Whose nodes are present now.
    Raises:
        QuantValueError: A pattern fits nothing.
    """
    resolver = NameResolver(before, model)
    include, exclude = (
        _flat(resolver.resolve(name, getattr(settings, name))) for name in ("include", "exclude")
    )
    user_overrides = settings.overrides or {}
    patterns = resolver.resolve("overrides", user_overrides, tensors=True)
    overrides = {
        resolved_pattern: user_overrides[user_pattern]
        for user_pattern, resolved in patterns.items()
        for resolved_pattern in resolved
    }
    bits16 = settings.bits16
    if not isinstance(bits16, str):
        bits16 = _flat(resolver.resolve("bits16", bits16, tensors=True))
    resolved = replace(
        settings, include=include, exclude=exclude, overrides=overrides or settings.overrides, bits16=bits16
    )
    return ResolvedNames(resolved, patterns, resolver.warnings)


def _flat(patterns_by_user: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pattern for resolved in patterns_by_user.values() for pattern in resolved))
