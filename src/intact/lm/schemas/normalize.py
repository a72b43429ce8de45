"""Rewrites JSON schemas so that a grammar enforces all that they say.

llguidance reads part of JSON Schema, and in places more loosely than validators do. What reaches it is a
schema of few keywords, each of which it was seen to enforce. Anything else is refused by its name. References
become names in one flat table, so that schemas of several tools stand in one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import inf, isfinite, lcm, nextafter
from typing import Any

from intact.lm.schemas.keywords import (
    ANNOTATIONS,
    ENFORCED,
    EXPRESSIONS,
    FORMAT_ANNOTATIONS,
    INTEGERS,
    LONGEST,
    NEUTRAL,
    PRIVATE,
    refuse,
)
from intact.lm.schemas.patterns import Pattern, translate_pattern
from intact.lm.schemas.references import References, draft_of

_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_MOST_SCHEMAS = 5_000
_MOST_COUNT = {"minItems": 2**12, "maxItems": 2**12, "minLength": 2**16, "maxLength": 2**31}
_MOST_MULTIPLE = 4096
_MOST_COMMON = 2**15  # of all divisors in a schema: those that meet in one value are joined
_MOST_PATTERNS = 64  # each pair of them is compared
_MOST_ALTERNATIVES = 128  # "one of these at least" has a rule for each
_ESCAPES = 'nrbtf\\"'
"""Letters behind a backslash in strings. By numbers (u) a name could be written twice in two ways."""

_DIGITS = 15
_EXACT = 2**53
"""Integers below are all float64, by which llguidance and clients compute."""

_KEYS = {
    "$ref": "reference", "type": "type", "enum": "values", "const": "values", "allOf": "schemas",
    "anyOf": "schemas", "oneOf": "schemas", "properties": "named", "patternProperties": "patterns",
    "additionalProperties": "schema", "required": "required", "minProperties": "count",
    "maxProperties": "count", "items": "items",
    "prefixItems": "schemas", "additionalItems": "additional", "minItems": "count", "maxItems": "count",
    "minLength": "count", "maxLength": "count", "pattern": "pattern", "format": "format", "minimum": "bound",
    "maximum": "bound", "exclusiveMinimum": "bound", "exclusiveMaximum": "bound", "multipleOf": "multiple",
}  # fmt: skip
"""Keywords that are enforced, and the kind by which each is read."""

Schema = dict[str, Any] | bool


@dataclass(frozen=True)
class NormalizedSchema:
    """A JSON schema that llguidance enforces.

    Attributes:
        schema: With one table of definitions.
        is_compact: One blank behind commas and colons, and none elsewhere. Otherwise one may stand between
            any two parts, but no more: where any blanks may stand, small models write nothing else.
    """

    schema: dict[str, Any]
    is_compact: bool = False

    def to_json(self) -> str:
        """Return it with the options of llguidance."""
        options: dict[str, Any] = {"json_allowed_escapes": _ESCAPES, "whitespace_pattern": " "}
        if self.is_compact:
            del options["whitespace_pattern"]
            options |= {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        return json.dumps(self.schema | {"x-guidance": options})


def normalize_schema(schema: Any) -> NormalizedSchema:
    """Return a JSON schema that means the same and that llguidance enforces.

    Raises:
        QuantValueError: A keyword is none, damaged, or such that no grammar enforces it; its name is given.
    """
    pool = SchemaPool()
    root = pool.add(schema)
    if isinstance(root, bool):
        root = {} if root else {"type": "null", "enum": [False]}
    return NormalizedSchema(root | pool.table())


class SchemaPool:
    """Normalized schemas of one grammar, with one table of what their references name."""

    def __init__(self) -> None:
        self._table: dict[str, Schema] = {}
        self._common = 1
        self.schemas = 0

    def add(self, schema: Any, where: str = "#") -> Schema:
        """Return a normalized schema whose references name places in `table`.

        Raises:
            As `normalize_schema`.
        """
        try:
            draft = draft_of(schema)
        except ValueError as error:
            raise refuse(where, "$schema", str(error)) from error
        document = _Document(self, References(schema, draft), draft, where)
        return document.normalize_all(schema)

    def table(self) -> dict[str, Any]:
        """Return what references name, as part of a schema."""
        return {"$defs": self._table} if self._table else {}

    def add_multiple(self, divisor: int) -> int:
        """Note a divisor, in parts of 1024; return the least common multiple of all."""
        self._common = lcm(self._common, divisor)
        return self._common

    def new_name(self) -> str:
        """Return a name in the table."""
        name = f"s{len(self._table)}"
        self._table[name] = True
        return name

    def define(self, name: str, schema: Schema) -> None:
        """Set what a name means."""
        self._table[name] = schema


class _Document:
    """One schema document while it is normalized."""

    def __init__(self, pool: SchemaPool, references: References, draft: int, where: str) -> None:
        self.pool, self.references, self._draft, self._where = pool, references, draft, where
        self._names: dict[tuple[int, str], str] = {}
        self._pending: list[tuple[str, Any, str, str]] = []

    def normalize_all(self, schema: Any) -> Schema:
        """Return the normalized document, and define what its references name."""
        root = self.normalize(schema, self.references.base_of(schema, ""), self._where)
        while self._pending:
            name, target, base, where = self._pending.pop()
            self.pool.define(name, self.normalize(target, base, where))
        return root

    def normalize(self, schema: Any, base: str, where: str) -> Schema:
        """Return a normalized schema; `base`: what its references are relative to."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise refuse(where, "schema", f"is no object: {str(schema)[:60]}")
        self.pool.schemas += 1
        if self.pool.schemas > _MOST_SCHEMAS:
            raise refuse(where, "schema", f"is one of more than {_MOST_SCHEMAS}")
        node = _Node(self, schema, base, where)
        for keyword, value in schema.items():
            if kind := _KEYS.get(keyword):
                getattr(node, f"read_{kind}")(keyword, value)
            else:
                node.check_other(keyword, value)
        return node.finish()

    def reference(self, text: str, base: str, where: str) -> str:
        """Return the reference in the table that stands for one of the document."""
        try:
            schema, there, whole = self._follow(text, base)
        except ValueError as error:
            raise refuse(where, "$ref", str(error)) from error
        key = (id(schema), there)
        if key not in self._names:
            name = self._names[key] = self.pool.new_name()
            self._pending.append((name, schema, self.references.base_of(schema, there), whole[:80]))
        return f"#/$defs/{self._names[key]}"

    def _follow(self, text: str, base: str) -> tuple[Any, str, str]:
        """Return what a reference names, through schemas that are nothing but references."""
        seen = set[str]()
        while True:
            schema, base, whole = self.references.resolve(text, base)
            if whole in seen:
                raise ValueError(f"{text[:80]!r} comes back to itself")
            seen.add(whole)
            rest = set(schema) - set(ANNOTATIONS) if isinstance(schema, dict) else set()
            if rest != {"$ref"} or not isinstance(schema["$ref"], str):
                return schema, base, whole
            text, base = schema["$ref"], self.references.base_of(schema, base)


class _Node:
    """One schema while its keywords are read: each method `read_...` is for keywords of one kind."""

    def __init__(self, document: _Document, schema: dict[str, Any], base: str, where: str) -> None:
        self._document, self._schema, self._base, self._where = document, schema, base, where
        self._out: dict[str, Any] = {}
        self._conjuncts: list[Schema] = []

    def finish(self) -> Schema:
        """Return the schema that was read."""
        if self._conjuncts:
            self._out["allOf"] = [*self._out.get("allOf", ()), *self._conjuncts]
        if "minProperties" in self._out:
            self._check_least_properties(self._out["minProperties"])
        return self._out

    def check_other(self, keyword: str, value: Any) -> None:
        """Pass over an annotation, and refuse what is not enforced."""
        if keyword == "unevaluatedProperties" and value is False:
            return self._close_properties()
        if keyword == "uniqueItems" and value is True and self._has_few_items():
            return None
        if keyword == "$schema" and self._where != self._document._where:
            raise refuse(self._where, keyword, "stands inside a schema")
        is_private = keyword.startswith(PRIVATE) and keyword != "x-guidance"
        is_annotation = keyword in ANNOTATIONS or is_private
        if is_annotation or any(value == neutral for neutral in NEUTRAL.get(keyword, ())):
            return None
        raise refuse(self._where, keyword, "is enforced by no grammar, or is no keyword")

    def read_reference(self, keyword: str, value: Any) -> None:
        self._demand(isinstance(value, str), keyword, "is no text")
        self._out[keyword] = self._document.reference(value, self._base, self._where)

    def read_type(self, keyword: str, value: Any) -> None:
        kinds = value if isinstance(value, list) else [value]
        self._demand(bool(kinds) and all(kind in _TYPES for kind in kinds), keyword, "is no type, or none")
        self._out[keyword] = list(dict.fromkeys(kinds)) if isinstance(value, list) else value

    def read_values(self, keyword: str, value: Any) -> None:
        values = value if keyword == "enum" else [value]
        self._demand(isinstance(values, list) and bool(values), keyword, "has no values")
        stack = list(values)
        while stack:
            part = stack.pop()
            if isinstance(part, dict):
                stack += [*part, *part.values()]
            elif isinstance(part, list):
                stack += part
            elif isinstance(part, str):
                fits = not any(
                    (letter < " " and letter not in "\b\f\n\r\t") or letter == "\x7f" for letter in part
                )
                self._demand(fits, keyword, "has a control character")
            elif isinstance(part, int | float):
                self._demand(_is_exact(part), keyword, "has a number that is none of float64, or too large")
        self._out[keyword] = value

    def read_schemas(self, keyword: str, value: Any) -> None:
        self._demand(isinstance(value, list) and bool(value), keyword, "has no schemas")
        self._demand(
            keyword != "prefixItems" or self._document._draft >= 2020, keyword, "is none of this draft"
        )
        self._out[keyword] = self._normalize_each(keyword, value)

    def read_named(self, keyword: str, value: Any) -> None:
        self._demand(isinstance(value, dict), keyword, "is no object")
        self._out[keyword] = {
            name: self._normalize(schema, f"{keyword}/{name}") for name, schema in value.items()
        }

    def read_schema(self, keyword: str, value: Any) -> None:
        self._out.setdefault(keyword, self._normalize(value, keyword))

    def read_patterns(self, keyword: str, value: Any) -> None:
        """Read properties by expressions, whose names must be the same in every dialect."""
        self._demand(isinstance(value, dict), keyword, "is no object")
        self._demand(len(value) <= _MOST_PATTERNS, keyword, f"has more than {_MOST_PATTERNS} expressions")
        patterns: dict[str, Schema] = {}
        for text, schema in value.items():
            pattern, normalized = self._translate(keyword, text), self._normalize(schema, f"{keyword}/{text}")
            if not pattern.has_one_meaning and self._is_open():
                self._demand(len(value) == 1, keyword, f"{text!r} has other names in other dialects")
                self._out["additionalProperties"] = normalized  # also of names that no dialect's match has
                return
            names = self._schema.get("properties") or ()
            is_plain = all(name.isascii() and name.isprintable() for name in names)
            self._demand(
                pattern.has_one_meaning or is_plain, keyword, f"{text!r} beside names of its letters"
            )
            patterns[pattern.text] = normalized
        self._demand(len(patterns) == len(value), keyword, "has two expressions for the same names")
        self._out[keyword] = patterns

    def read_required(self, keyword: str, value: Any) -> None:
        fits = isinstance(value, list) and all(isinstance(name, str) for name in value)
        self._demand(fits, keyword, "is no list of names")
        self._out[keyword] = list(dict.fromkeys(value))

    def read_count(self, keyword: str, value: Any) -> None:
        is_whole = _is_number(value) and 0 <= value < inf and value == int(value)
        self._demand(is_whole, keyword, "is no count")
        most = _MOST_COUNT.get(keyword, _EXACT)
        self._demand(value <= most, keyword, f"is above {most}, the most that a grammar counts")
        self._out[keyword] = min(int(value), self._out.get(keyword, int(value)))

    def read_items(self, keyword: str, value: Any) -> None:
        """Read the schema of items, or as older drafts have it, those of the first ones."""
        if not isinstance(value, list):
            self._out["items"] = self._normalize(value, keyword)
            return
        self._demand("prefixItems" not in self._schema, keyword, "is a list beside prefixItems")
        if value:
            self._out["prefixItems"] = self._normalize_each(keyword, value)
        if "additionalItems" in self._schema:
            self._out["items"] = self._normalize(self._schema["additionalItems"], "additionalItems")

    def read_additional(self, keyword: str, value: Any) -> None:
        """Pass over it: it is read with a list of `items`, and means nothing without one."""

    def read_pattern(self, keyword: str, value: Any) -> None:
        self._add_expression(self._translate(keyword, value).text)

    def read_format(self, keyword: str, value: Any) -> None:
        self._demand(isinstance(value, str), keyword, "is no text")
        kinds = self._schema.get("type", list(_TYPES))
        kinds = kinds if isinstance(kinds, str | list) else []
        if value in INTEGERS and "integer" in kinds:
            low, high = INTEGERS[value]
            self._conjuncts.append({"minimum": low, "maximum": high})
        elif value in FORMAT_ANNOTATIONS or "string" not in kinds:
            return
        elif value in EXPRESSIONS:
            self._add_expression(EXPRESSIONS[value])
        else:
            self._demand(value in ENFORCED, keyword, f"{value!r} is enforced by no grammar")
            self._out[keyword] = ENFORCED[value]
            if longest := LONGEST.get(ENFORCED[value]):
                self._out["maxLength"] = min(longest, self._out.get("maxLength", longest))

    def read_bound(self, keyword: str, value: Any) -> None:
        """Read a bound of numbers as floats compare: what differs behind the last digit is one number."""
        is_low = keyword.endswith("inimum")
        if isinstance(value, bool):
            self._demand(self._document._draft == 4, keyword, "is no number")
            if not value:
                return
            value = self._schema.get("minimum" if is_low else "maximum")
        self._demand(_is_number(value) and isfinite(value), keyword, "is no number")
        if abs(value) >= _EXACT:
            is_far = value < 0 if is_low else value > 0
            self._demand(is_far, keyword, f"lies beyond {_EXACT}")
            value = 1 - _EXACT if is_low else _EXACT - 1
        elif (is_exclusive := keyword.startswith("exclusive") and value != 0) or _is_long(value):
            keyword = keyword[9:].lower() if is_exclusive else keyword
            value = _move(value, inf if is_low else -inf)
        self._demand(value == 0 or abs(value) >= 1e-9, keyword, "is closer to 0 than 1e-9")
        if keyword in self._out:
            self._conjuncts.append({keyword: value})
        else:
            self._out[keyword] = value

    def read_multiple(self, keyword: str, value: Any) -> None:
        fits = _is_number(value) and 0 < value <= _MOST_MULTIPLE and float(value * 1024).is_integer()
        self._demand(
            fits, keyword, f"is no sum of binary fractions up to {_MOST_MULTIPLE}: {str(value)[:40]}"
        )
        self._out[keyword] = int(value) if float(value).is_integer() else value
        common = self._document.pool.add_multiple(int(value * 1024))
        self._demand(common <= _MOST_COMMON * 1024, keyword, f"has a common multiple above {_MOST_COMMON}")

    def _add_expression(self, text: str) -> None:
        if "pattern" in self._out:
            self._conjuncts.append({"pattern": text})
        else:
            self._out["pattern"] = text

    def _translate(self, keyword: str, text: Any) -> Pattern:
        self._demand(isinstance(text, str), keyword, "is no text")
        try:
            return translate_pattern(text)
        except ValueError as error:
            raise refuse(self._where, keyword, f"{text[:80]!r} {error}") from error

    def _close_properties(self) -> None:
        """Read `unevaluatedProperties: false` where no other schema could evaluate properties."""
        applicators = {"additionalProperties", "allOf", "anyOf", "oneOf", "$ref"} & set(self._schema)
        beside = ", ".join(sorted(applicators))
        self._demand(not applicators, "unevaluatedProperties", f"stands beside {beside}")
        self._out["additionalProperties"] = False

    def _check_least_properties(self, least: int) -> None:
        """Refuse a count that names which come twice would reach."""
        is_closed = self._out.get("additionalProperties") is False and "patternProperties" not in self._out
        fits = least <= max(1, len(self._out.get("required", ()))) or is_closed
        self._demand(fits, "minProperties", "counts names that a grammar cannot keep different")
        is_small = len(self._out.get("properties", ())) <= _MOST_ALTERNATIVES
        self._demand(is_small, "minProperties", f"stands beside more than {_MOST_ALTERNATIVES} properties")

    def _has_few_items(self) -> bool:
        most: Any = self._schema.get("maxItems")
        return _is_number(most) and bool(most <= 1)

    def _is_open(self) -> bool:
        return self._schema.get("additionalProperties", True) in (True, {})

    def _normalize(self, schema: Any, part: str) -> Schema:
        base = self._document.references.base_of(schema, self._base)
        return self._document.normalize(schema, base, f"{self._where}/{part}")

    def _normalize_each(self, keyword: str, schemas: list[Any]) -> list[Schema]:
        return [self._normalize(schema, f"{keyword}/{number}") for number, schema in enumerate(schemas)]

    def _demand(self, fits: bool, keyword: str, why: str) -> None:
        if not fits:
            raise refuse(self._where, keyword, why)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_exact(value: float) -> bool:
    return isinstance(value, bool) or (abs(value) < _EXACT and isfinite(value) and not _is_long(value))


def _is_long(value: float) -> bool:
    """Return whether a number has more digits than llguidance reads without rounding."""
    if isinstance(value, int):
        return False
    return len(repr(abs(value)).split("e")[0].replace(".", "").strip("0")) > _DIGITS


def _move(value: float, towards: float) -> float:
    """Return a number a few steps of float64 further: what llguidance reads may be one off."""
    for _ in range(4):
        value = nextafter(value, towards)
    return value
