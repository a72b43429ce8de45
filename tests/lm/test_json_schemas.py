"""JSON schemas for grammars: what is accepted is never violated, and the rest is refused by its keyword."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import sys
from pathlib import Path

import pytest

from intact.errors import IntactError, QuantValueError
from intact.lm.schemas import SchemaPool, normalize_schema
from intact.lm.schemas.keywords import ANNOTATIONS, NEUTRAL
from intact.lm.schemas.patterns import translate_pattern
from intact.lm.token_grammar import TokenGrammar

pytest.importorskip("llguidance")
pytest.importorskip("tokenizers")
pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def bench():
    path = Path(__file__).parents[2] / "benchmarks" / "json_schemas.py"
    spec = importlib.util.spec_from_file_location("json_schemas", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["json_schemas"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def grammar_of(bench):
    tokenizer = bench.byte_tokenizer()
    return lambda schema: TokenGrammar(tokenizer, 257, json_schema=schema)


DRAFT4, DRAFT7 = ({"$schema": f"http://json-schema.org/draft-0{number}/schema#"} for number in (4, 7))
CLOSED = {"additionalProperties": False}
ACCEPTED = [
    {}, {"type": "null"}, {"type": ["integer", "null"], "title": "a", "default": 5},
    {"const": {"a": [1, None]}},
    {"enum": [1, "a", None, [1], {"a": 2}, 0.1, -5, ""]}, {"type": "string", "enum": [1, "a"]},
    {"minimum": 5},
    {"type": "integer", "minimum": -1.5, "maximum": 7},
    {"type": "integer", "exclusiveMinimum": -1, "maximum": 9},
    {"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.3},
    {"type": "number", "maximum": -3.25},
    {"type": "number", "minimum": 0.1, "maximum": 0.12345678901234567},
    {"type": "integer", "minimum": -(2**63)},
    {"type": "integer", "format": "int32"}, {"type": "integer", "multipleOf": 7, "minimum": 15},
    {"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 3}, {"type": "string", "maxLength": 3},
    {"type": "string", "minLength": 2, "pattern": r"^\w+\s?\d{2}$"},
    {"type": "string", "pattern": r"[^\s\w.]"},
    {"type": "string", "pattern": r"^.{3}$"}, {"type": "string", "pattern": r"^(a|b[&~-]-?)*?x$"},
    {"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}, {"format": "time"},
    {"type": "string", "format": "email"}, {"type": "string", "format": "uuid", "pattern": "^a"},
    {"type": "string", "format": "ipv6"}, {"type": "string", "format": "uri-reference"},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4, "uniqueItems": False},
    {"type": "array", "prefixItems": [{"const": 1}, {"const": "b"}], "items": False, "minItems": 1},
    DRAFT7 | {"type": "array", "items": [{"const": 1}], "additionalItems": {"const": 2}, "minItems": 2},
    {"type": "array", "maxItems": 1, "uniqueItems": True}, DRAFT4 | {"minimum": 3, "exclusiveMinimum": True},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "c"], **CLOSED,
     "patternProperties": {"^c$": {"const": 3}}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
    {"type": "object", "patternProperties": {"^x-": {"type": "null"}}, "additionalProperties": {"const": 1}},
    {"type": "object", "patternProperties": {r"^\w+$": {"type": "integer"}}},
    {"type": "object", "patternProperties": {"^.*$": {"const": 1}}, **CLOSED},
    {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1, **CLOSED},
    {"type": "object", "required": ["a", "b"], "minProperties": 2, "maxProperties": 3},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
    {"type": "object", "unevaluatedProperties": False},
    {"oneOf": [{"type": "null"}, {"type": "boolean"}]}, {"allOf": [{"minimum": 3},
    {"type": "integer", "maximum": 5}]},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": kind}}, "required": ["k"]} for kind in "ab"]},
    {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "integer", "maximum": 9}}},
    {"$id": "http://a.b/c", "$ref": "d#e",
     "$defs": {"d": {"$id": "d", "$defs": {"f": {"$anchor": "e", "const": 1}}}}},
    {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, **CLOSED},
    {"type": "object", "properties": {"a\n\"b": {"const": 1}}, "required": ['a\n"b'],
    "x-order": 3, "_note": 4},
]  # fmt: skip
REFUSED = [
    ("not", {"not": {"type": "null"}}), ("uniqueItems", {"uniqueItems": True}),
    ("if", {"if": {}, "then": False}),
    ("contains", {"contains": {"const": 1}}), ("propertyNames", {"propertyNames": {"pattern": "^a"}}),
    ("dependentSchemas", {"dependentSchemas": {"a": {"required": ["b"]}}}),
    ("$dynamicRef", {"$dynamicRef": "#a"}),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}),
    ("dependencies", {"dependencies": {"a": ["b"]}}),
    ("unevaluatedItems", {"unevaluatedItems": False}), ("$recursiveRef", {"$recursiveRef": "#"}),
    ("unevaluatedProperties", {"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]}),
    ("format", {"type": "string", "format": "regex"}), ("format", {"format": "a format"}),
    ("minlength", {"minlength": 3}),
    ("multipleOf", {"multipleOf": 0.01}), ("multipleOf", {"multipleOf": 0}),
    ("multipleOf", {"multipleOf": 10**9}),
    ("multipleOf", {"allOf": [{"multipleOf": divisor} for divisor in (4093, 4091)]}),
    ("type", {"type": "any"}),
    ("minProperties", {"type": "object", "minProperties": 2}),
    ("x-guidance", {"x-guidance": {"lenient": True}}),
    ("minProperties", {"properties": {str(i): {} for i in range(200)}, "minProperties": 1, **CLOSED}),
    ("pattern", {"pattern": "(?=a)b"}), ("pattern", {"pattern": r"(a)\1"}),
    ("pattern", {"pattern": r"\bword"}),
    ("pattern", {"pattern": "[]a]"}), ("pattern", {"pattern": "a**"}), ("pattern", {"pattern": "a{3,2}"}),
    ("pattern", {"pattern": "(a"}), ("pattern", {"pattern": "(?i)a"}), ("pattern", {"pattern": 3}),
    ("patternProperties", {"patternProperties": {r"^\d": {}, r"^\w": {}}}),
    ("patternProperties", {"properties": {"é": {}}, "patternProperties": {r"^\w$": {"const": 1}}, **CLOSED}),
    ("patternProperties", {"patternProperties": {f"^{i}x$": {} for i in range(65)}}),
    ("$ref", {"$ref": "#/$defs/a"}),
    ("$ref", {"$ref": "http://a.b/c"}),
    ("$ref", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    ("$ref", {"$ref": "#anchor"}), ("$ref", {"$ref": 3}),
    ("$schema", {"$schema": "http://json-schema.org/draft-03/schema"}),
    ("const", {"const": 2**53}), ("const", {"const": 0.12345678901234567}), ("enum", {"enum": []}),
    ("enum", {"enum": ["\0"]}), ("minimum", {"minimum": 2**60}), ("minimum", {"minimum": "3"}),
    ("minimum", {"minimum": 1e-12}), ("maxItems", {"maxItems": 10**9}), ("minLength", {"minLength": -1}),
    ("minLength", {"minLength": 2.5}), ("maxLength", {"maxLength": float("inf")}),
    ("required", {"required": True}),
    ("exclusiveMinimum", {"exclusiveMinimum": True, "minimum": 3}), ("properties", {"properties": []}),
    ("anyOf", {"anyOf": []}), ("schema", {"items": 3}), ("nullable", {"type": "string", "nullable": True}),
    ("items", {"prefixItems": [{}], "items": [{}]}), ("prefixItems", DRAFT7 | {"prefixItems": [{}]}),
]  # fmt: skip


@pytest.mark.parametrize("schema", ACCEPTED, ids=lambda schema: json.dumps(schema)[:60])
def test_what_is_accepted_is_not_violated(bench, grammar_of, schema):
    grammar, rng, texts = grammar_of(schema), random.Random(json.dumps(schema)), []
    for _ in range(12):
        text, _ = bench.walk(grammar.copy(), rng)
        texts += [text] if text is not None else []
    validator = bench.make_validator(schema)
    assert texts and validator is not None
    assert [fault for text in texts if (fault := bench.violation(validator, text))] == []


@pytest.mark.parametrize(("keyword", "schema"), REFUSED, ids=lambda part: json.dumps(part)[:60])
def test_what_no_grammar_enforces_is_refused_by_its_keyword(grammar_of, keyword, schema):
    for whole in (schema, {"type": "array", "items": schema} | {"$defs": schema.get("$defs", {})}):
        if "$schema" in schema and whole is not schema:
            continue
        with pytest.raises(QuantValueError, match=re.escape(f"'{keyword}'")):
            grammar_of(whole)


def test_annotations_change_no_schema():
    plain = {"type": "string"}
    values = {"$id": "http://a.b/c", "$schema": "https://json-schema.org/draft/2020-12/schema", "id": "a"}
    notes = {name: values.get(name, {}) for name in ANNOTATIONS}
    neutral = {name: values[0] for name, values in NEUTRAL.items()}
    assert normalize_schema(plain | notes | neutral).schema == plain


def test_schemas_of_several_documents_keep_their_references_apart():
    pool = SchemaPool()
    first, second = (pool.add({"$ref": "#/$defs/a", "$defs": {"a": {"const": value}}}) for value in (1, 2))
    table = pool.table()["$defs"]
    assert [table[schema["$ref"].rsplit("/")[-1]] for schema in (first, second)] == [
        {"const": 1},
        {"const": 2},
    ]


def test_property_names_are_written_in_one_way(bench, grammar_of):
    schema = {"properties": {"a": {"type": "integer"}}, "type": "object"}
    grammar = grammar_of(schema)
    assert bench.accepts(grammar.copy(), '{"a": 1}') and bench.accepts(grammar.copy(), '{"b": "x"}')
    for text in ('{"\\u0061": "x"}', '{"a": "x"}', '{"a": 1, "a": 2}'):
        assert not bench.accepts(grammar.copy(), text)


def test_few_blanks_stand_between_parts(bench, grammar_of):
    grammar = grammar_of({"type": "array"})
    for text, fits in (
        ("[1, 2]", True),
        ("[1,2]", True),
        ("[1,  2]", False),
        ("[ 1 , 2 ]", True),
        ("[\n1]", False),
    ):
        assert bench.accepts(grammar.copy(), text) == fits


@pytest.mark.parametrize(
    ("pattern", "matching", "different"),
    [(r"^\d$", "07", "a\u0663"), (r"^\D$", "a-", "0\u0663"), (r"^\w$", "aZ_0", "é-\u00b2"),
    (r"^\s$", " \t\n", "\x1ca"),
     (r"^[^\s]$", "aé", " \u00a0\u2028"), (r"^.$", "aé", "\n\r\u2028"), (r"^[\W]$", "-", "aé"),
    (r"^[\]\-a]$", "]-a", "b"),
     (r"^[^\W]$", "a0", "é-"), (r"^\u0041|\x42$", "AB", "C"), (r"^[[&&~~]$", "[&~", "a"),
    (r"^\/[/]?$", "/", "a")],
)  # fmt: skip
def test_expressions_match_what_all_dialects_do(bench, grammar_of, pattern, matching, different):
    grammar = grammar_of({"type": "string", "pattern": pattern})
    for letters, fits in ((matching, True), (different, False)):
        for letter in letters:
            assert bench.accepts(grammar.copy(), json.dumps(letter, ensure_ascii=False)) == fits, letter
            assert not fits or re.search(pattern.replace("[[&&~~]", r"[\[&~]"), letter)


def test_expressions_of_one_meaning_are_told_apart():
    assert translate_pattern("^[a-z]+$").has_one_meaning and translate_pattern("a|b?c{2}").has_one_meaning
    assert not translate_pattern(r"\d").has_one_meaning and not translate_pattern("a.b").has_one_meaning


def test_schemas_that_would_take_long_are_refused_by_their_size(grammar_of):
    ring = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(3000)}
    for schema in (
        {"$ref": "#/$defs/a0", "$defs": ring | {"a3000": {}}},
        {"type": "array", "items": [{"const": i} for i in range(6000)]},
        {"allOf": [{"anyOf": [{"required": [f"{i} {j}"]} for j in range(4)]} for i in range(12)]},
    ):  # fmt: skip
        with pytest.raises(IntactError):
            grammar_of(schema)
