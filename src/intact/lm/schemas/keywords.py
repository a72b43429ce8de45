"""Keywords of JSON schemas: annotations, with the reason, and the error of one that no grammar enforces."""

from __future__ import annotations

from intact.errors import QuantValueError

ANNOTATIONS = {
    "$anchor": "names a place, for references", "$dynamicAnchor": "names a place, for references",
    "$recursiveAnchor": "matters to $recursiveRef alone, which is refused",
    "$comment": "for people", "$defs": "read where references name them",
    "$id": "names a place, for references", "$schema": "the version of the keywords",
    "contentEncoding": "an annotation since draft 2019-09, and before it by default",
    "contentMediaType": "as contentEncoding", "contentSchema": "as contentEncoding",
    "default": "a value where none is there", "definitions": "read where references name them",
    "deprecated": "for people", "description": "for people", "example": "for people",
    "examples": "for people", "id": "names a place, for references",
    "maxContains": "matters to contains alone", "minContains": "matters to contains alone",
    "readOnly": "of whoever owns the value", "title": "for people", "writeOnly": "of whoever owns the value",
    # Of editors
    "defaultSnippets": "for editors", "deprecationMessage": "for editors", "doNotSuggest": "for editors",
    "enumDescriptions": "for editors", "enumNames": "for editors", "errorMessage": "for editors",
    "markdownDescription": "for editors", "markdownEnumDescriptions": "for editors", "options": "for editors",
    "propertyOrder": "for editors", "suggestSortText": "for editors", "tags": "for people",
    "headerTemplate": "for editors", "links": "relations to other documents",
    "externalDocs": "for people", "xml": "another notation of the value",
}  # fmt: skip
"""Keywords that no value violates, and why."""

PRIVATE = ("x-", "_")
"""Beginnings of names that are annotations, too: of extensions, and of what an author has switched off."""

NEUTRAL = {
    "uniqueItems": (False,), "propertyNames": (True, {}, {"type": "string"}), "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}), "dependencies": ({},), "dependentRequired": ({},),
    "dependentSchemas": ({},), "nullable": (False,), "not": (False,),
}  # fmt: skip
"""Keywords that no grammar here enforces, and their values that ask for nothing."""


def refuse(where: str, keyword: str, why: str) -> QuantValueError:
    """Return the error of a keyword that would be accepted and then violated."""
    return QuantValueError(
        f"JSON schema, {where[:200] or '#'}", f"'{keyword[:80]}' {why[:300]}",
        "keywords that a grammar enforces", "change or leave out this keyword, and check the answer yourself",
    )  # fmt: skip
