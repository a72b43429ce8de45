"""Rules of a kind of step: what a plan may say, and the sizes of outputs, as text that native code reads too.

The text stands in the kind's home (`Step.rules`), a rule a line; csrc/engine/rules.h reads the same text::

    one_dtype(x, y)                        one of `Checker`'s demands
    0 <= axis < rank(x) | an axis of x     a condition of a plan | what is wanted
    fits x: x[axis] >= k | k elements      a condition of sizes, whose error names x | what is wanted
    head = x[:axis]                        a term, which other rules may use
    sizes y: [*head, k]                    sizes of an output; a kind without has those of its first input

A field stands for what it holds, and one of names for sizes: ``x[-1]`` is the last one of x. Those of
constants are always known, those of tensors in ``fits`` and ``sizes`` alone. It is a part of Python:
integers, texts, lists, names, calls, indices, slices, comparisons, ``+ - * // % **``, ``and or not if else``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod
from types import CodeType
from typing import Any

from intact.engine.steps.base.block_constants import misfit
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.dims import values_of
from intact.engine.steps.base.indices import check_scattered
from intact.engine.steps.base.sizes import Sizes, broadcast, mismatch, product_shape
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import check_window, positions
from intact.engine.steps.base.wiring import fields_of_kind
from intact.errors import IntactError, QuantValueError


@dataclass(frozen=True)
class Value:
    """A name in a field. It is false where it is "" and else has the sizes of a tensor or a constant."""

    name: str
    shape_of: Callable[[str], Shape]

    def __bool__(self) -> bool:
        return bool(self.name)

    def __getitem__(self, index: Any) -> Any:
        size = self.shape_of(self.name)[index]
        return list(size) if isinstance(index, slice) else size


Words = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class StepRule:
    """A condition or an expression.

    Attributes:
        text, code: It.
        subject: Field of the tensor that is at fault, or whose sizes it says; "" for neither.
        want: What is wanted where it does not hold; "" for a demand, which says it by itself.
    """

    text: str
    code: CodeType
    subject: str = ""
    want: str = ""


@dataclass
class StepRules:
    """The rules of a kind, by what they say.

    Attributes:
        named: The fields of the kind that hold names.
    """

    checks: list[StepRule] = field(default_factory=list)
    fits: list[StepRule] = field(default_factory=list)
    sizes: list[StepRule] = field(default_factory=list)
    terms: dict[str, StepRule] = field(default_factory=dict)
    named: frozenset[str] = frozenset()


_TERM, _SUBJECT = re.compile(r"(\w+) = (.*)"), re.compile(r"(fits|sizes) (\w+): (.*)")


@cache
def rules_of(kind: Any) -> StepRules:
    """Parse the rules of a kind, behind those of the records whose fields it shares."""
    rules = StepRules(named=frozenset(entry.name for entry in fields_of_kind(kind)))
    texts = (vars(record).get("rules", "") for record in reversed(kind.__mro__))
    for line in filter(None, (line.strip() for text in texts for line in text.splitlines())):
        statement, _, want = line.partition(" | ")
        if term := _TERM.fullmatch(statement):
            rules.terms[term[1]] = _rule(term[2])
        elif subject := _SUBJECT.fullmatch(statement):
            _, name, expression = subject.groups()
            (rules.fits if subject[1] == "fits" else rules.sizes).append(_rule(expression, name, want))
        else:
            rules.checks.append(_rule(statement, "", want))
    return rules


def _rules_for(step: object) -> StepRules:
    kind: Any = type(step)
    return rules_of(kind)


def _rule(expression: str, subject: str = "", want: str = "") -> StepRule:
    return StepRule(expression, compile(expression, "rules", "eval"), subject, want)


def check_rules(step: Any, checker: Checker) -> None:
    """Hold a step to what its rules say about plans.

    Raises:
        FileFormatError: Names the step.
    """
    rules = _rules_for(step)
    scope = _Scope(step, rules, checker)
    for rule in rules.checks:
        holds = scope.evaluate(rule)
        if rule.want:
            checker.that(bool(holds), "" if holds else scope.describe(rule), rule.want)


def check_sizes(step: Any, sizes: Sizes) -> None:
    """Hold the sizes that a step reads to its rules.

    Raises:
        QuantValueError: They do not fit; names a tensor.
    """
    rules = _rules_for(step)
    scope = _Scope(step, rules, sizes)
    for rule in rules.fits:
        if not scope.evaluate(rule):
            name = getattr(step, rule.subject)
            raise mismatch(name, f"shape {sizes.of(name)}, {scope.describe(rule)}", rule.want)


def sizes_by_rules(step: Any, sizes: Sizes) -> tuple[Shape, ...]:
    """Return the sizes of all outputs that a step has, in the order of its rules."""
    rules = _rules_for(step)
    scope = _Scope(step, rules, sizes)
    return tuple(tuple(scope.evaluate(rule)[:]) for rule in rules.sizes if getattr(step, rule.subject))


class _Scope(dict[str, Any]):
    """Values of the names in rules: terms, words and the fields of a step; each is looked up once."""

    def __init__(self, step: Any, rules: StepRules, facts: Checker | Sizes) -> None:
        super().__init__()
        self._step, self._rules, self._facts = step, rules, facts
        self._words = PLAN_WORDS if isinstance(facts, Checker) else SIZE_WORDS
        self._shape_of: Callable[[str], Shape] = facts.sizes if isinstance(facts, Checker) else facts.of

    def evaluate(self, rule: StepRule) -> Any:
        try:
            return eval(rule.code, {"__builtins__": {}}, self)
        except IndexError:
            where = f"step '{self._step.name}'"
            raise QuantValueError(where, f"too few axes for {rule.text}", "more", "build it again") from None

    def describe(self, rule: StepRule) -> str:
        """Return what the parts of a condition are, for errors: ``axis 2, rank(x) 2``."""
        shown = []
        for part in _parts(ast.parse(rule.text, mode="eval").body):
            with suppress(IntactError, LookupError, TypeError):  # behind an `or` it may have no value
                value = self.evaluate(_rule(part))
                shown.append(f"{part} '{value.name}'" if isinstance(value, Value) else f"{part} {value}")
        return ", ".join(shown)

    def __missing__(self, name: str) -> Any:
        self[name] = value = self._find(name)
        return value

    def _find(self, name: str) -> Any:
        if name in self._rules.terms:
            return self.evaluate(self._rules.terms[name])
        if name in WORDS:
            return WORDS[name]
        if name in self._words:
            return partial(self._words[name], self._facts)
        value = getattr(self._step, name)
        if name in self._rules.named:
            many = isinstance(value, tuple)
            return [Value(v, self._shape_of) for v in value] if many else Value(value, self._shape_of)
        return list(value) if isinstance(value, tuple) else value


def _parts(node: ast.AST) -> list[str]:
    """Return the names, calls and indices of an expression, from left to right."""
    if isinstance(node, ast.Name | ast.Call | ast.Subscript):
        return [ast.unparse(node)]
    return list(dict.fromkeys(part for child in ast.iter_child_nodes(node) for part in _parts(child)))


def _by_names(demand: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of names as one of values; those that are "" are left out."""

    def call(checker: Checker, *arguments: Any) -> Any:
        there = [value for value in arguments if not isinstance(value, Value) or value]
        return demand(checker, *(value.name if isinstance(value, Value) else value for value in there))

    return call


def _check_types(checker: Checker, *arguments: Value | str) -> None:
    names = [value.name for value in arguments if isinstance(value, Value) and value]
    checker.types(names, [dtype for dtype in arguments if isinstance(dtype, str)])


def _broadcast(sizes: Sizes, *values: Value) -> Shape:
    shape = tuple(values[0][:])
    for value in values[1:]:
        shape = broadcast(value.name, shape, tuple(value[:]))
    return shape


def _fits_in(index: Value, x: Value, axis: int) -> bool:
    pairs = enumerate(zip(index[:], x[:], strict=True))
    return all(n <= room for other, (n, room) in pairs if other != axis)


WORDS: Words = {
    "len": len, "min": min, "max": max, "sum": sum, "prod": prod,
    "ceil_div": lambda n, d: -(-n // d),
    "least": lambda dims: min((n for n in dims if isinstance(n, int)), default=0),
    "are_axes": lambda axes, rank: len({*axes}) == len(axes) and {*axes} <= {*range(rank)},
    "pick": lambda shape, axes: [shape[axis] for axis in axes],
    "replace": lambda shape, axis, n: [n if i == axis else size for i, size in enumerate(shape[:])],
    "reduced": lambda shape, axes, keepdims: [
        1 if axis in axes else n for axis, n in enumerate(shape[:]) if keepdims or axis not in axes
    ],
    "fits_in": _fits_in,
    "supers_fit": lambda supers, blocks: (
        supers[0] == blocks[0] and supers[1] > 0 and blocks[1] % supers[1] == 0
    ),
    "blocks_fit": lambda inputs, block, x_block: not misfit(inputs, block, x_block),
}  # fmt: skip
"""Words of all rules."""

_OF_NAMES: Words = {
    "codes": Checker.codes, "floats": Checker.floats, "one_dtype": Checker.one_dtype,
    "one_rank": Checker.one_rank, "one_grid": Checker.one_grid, "ranks": Checker.ranks,
    "per_axis": Checker.per_axis, "images": check_window, "scatters": check_scattered,
    "dtype": Checker.dtype,
}  # fmt: skip
PLAN_WORDS: Words = {
    **{word: _by_names(function) for word, function in _OF_NAMES.items()},
    "types": _check_types,
    "rank": lambda checker, value: checker.rank(value.name)[0],
}
"""Words about a plan: `Checker`'s demands, and its answers."""

SIZE_WORDS: Words = {
    "rank": lambda sizes, value: sizes.rank(value.name),
    "numbers": lambda sizes, dims: values_of(dims, sizes.dims, "sizes"),
    "broadcast": _broadcast,
    "product": lambda sizes, a, b: product_shape(sizes, a.name, b.name),
    "windows": lambda sizes, x, *window: positions(tuple(x[:]), *window),
}
"""Words about the sizes of what a step reads."""
